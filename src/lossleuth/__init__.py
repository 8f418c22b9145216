"""Your loss won't go down. lossleuth finds out why, and proves it."""

__version__ = "0.1.0.dev0"
