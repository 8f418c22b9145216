"""Find the benchmarks of this folder and run them, all or those named."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable

from rich.console import Console

import bench


def benchmarks() -> dict[str, Callable[[Console], None]]:
    """Every module of this folder that has a `run`, by its name."""
    names = [module.name for module in pkgutil.iter_modules(bench.__path__)]
    modules = {name: importlib.import_module(f"bench.{name}") for name in names if name[0] != "_"}
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


def main(wanted: list[str]) -> int:
    """Run the benchmarks named, or all."""
    known = benchmarks()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(
            f"bench: expected one of {', '.join(known)}, found {', '.join(unknown)}: "
            "name a module of bench/ that has a `run`",
            file=sys.stderr,
        )
        return 2
    console = Console(width=None if sys.stdout.isatty() else 110)
    for name in wanted or known:
        console.rule(name)
        known[name](console)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
