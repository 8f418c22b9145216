"""Who may import whom: each layer only what stands before it (the design's one direction)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "lossleuth"

# From the bottom up; modules in one row do not know each other.
LAYERS = (
    {"types"},
    {"files", "number_formats", "places", "settings"},
    {"record"},
    {"kernels"},
    {"tape"},
    {"probes"},
    {"interventions"},
    {"causes"},
    {"observe"},
    {"trial"},
    {"catalogue"},
    {"examiner"},
    {"report"},
    {"examining"},
    {"train"},
    {"distil", "cases", "lab"},
    {"precision"},
    {"doctor", "agents"},
    {"cli"},
    {"__main__"},
)
# Verbs answer --help, and judges run on a saved record, without these.
HEAVY = {"torch", "numpy", "rich", "safetensors", "tokenizers"}
LIGHT = (
    *(
        "types",
        "files",
        "number_formats",
        "settings",
        "record.strict_json",
        "train.settings",
        "cases.stories",
    ),
    *("doctor", "cli"),
)


def layer_of(name: str) -> int:
    """Height of a module by its first name below the package."""
    for height, names in enumerate(LAYERS):
        if name in names:
            return height
    raise AssertionError(f"{name} is in no layer: add it to LAYERS and to the design")


def violations(own: str, source: str) -> list[str]:
    """Imports in `source`, a module of the part `own`, that go up or sideways."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = (
                [module] if module != "lossleuth" else [f"lossleuth.{a.name}" for a in node.names]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            part = rest.split(".")[0]
            if top != "lossleuth" or not part or part == own or part == "__version__":
                continue
            if layer_of(part) >= layer_of(own):
                found.append(f"{own} imports {part}")
    return found


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_lower_layers(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert violations(own, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from lossleuth.cli import main",
        "import lossleuth.train.model",
        "from lossleuth import doctor",
        "def f():\n    from lossleuth.train import loop",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert violations("record", source)


def test_a_downward_import_is_allowed() -> None:
    assert violations("record", "from lossleuth.types import BadInput") == []


@pytest.mark.parametrize("module", LIGHT)
def test_a_light_module_loads_nothing_heavy(module: str) -> None:
    program = (
        f"import sys, lossleuth.{module}; print(*sorted(m for m in sys.modules if '.' not in m))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "lossleuth" in loaded
    assert HEAVY & set(loaded) == set()
