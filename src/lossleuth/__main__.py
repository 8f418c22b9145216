"""`python -m lossleuth` is the `lossleuth` command."""

from lossleuth.cli import main

if __name__ == "__main__":
    main()
