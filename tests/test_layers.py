"""Who may import whom: each layer only what stands before it (the design's one direction)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "lossleuth"

# From the bottom up; groups in one row do not know each other. A module belongs to the longest name
# that is its own or a package above it.
LAYERS = (
    {"types"},
    {"findings"},
    {"types.evidence"},
    {"types.cause", "types.challenge"},
    {"torch_internals"},
    {"guardian"},
    {"files", "number_formats", "places", "process_tree", "settings", "source_lines"},
    {"run_directory"},
    {"record"},
    {"native"},
    {"kernels"},
    # The model of the trainer alone, which references on a run's batches are made of.
    {"reference.train.model"},
    {"yardstick"},
    # The tape: data, replaying it, recording it, knowing which tensor is what.
    {"tape"},
    {"tape.replay"},
    {"tape.capture", "tape.roles"},
    {"gradcheck"},
    {"probes"},
    {"probes.data", "probes.gradient", "probes.precision", "probes.update", "probes.no_autograd"},
    {"probes.model", "probes.loss", "probes.evaluation"},
    {"probes.distillation"},
    {"probes.run"},
    {"interventions"},
    {"causes", "challenges"},
    {"catalogue"},
    {"judge"},
    # Watching a process, from what everything needs to what starts it.
    {"observe"},
    {"observe.provenance"},
    {"observe.steps"},
    {"observe.no_autograd", "observe.patches"},
    {"observe.child"},
    {"observe.launch"},
    {"watching"},
    {"examiner"},
    {"report.document"},
    {"report.render"},
    {"report"},
    {"api"},
    {"reference.train"},
    {"reference.distil", "labs.cases", "labs.lab"},
    {"labs.precision"},
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
        "reference.train.settings",
        "labs.cases.stories",
    ),
    *("doctor", "cli"),
)


HEIGHTS = {name: height for height, names in enumerate(LAYERS) for name in names}


def group_of(module: str) -> str:
    """The group that a module belongs to.

    >>> group_of("tape.replay.replay"), group_of("tape.window")
    ('tape.replay', 'tape')
    """
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in HEIGHTS:
            return name
    raise AssertionError(f"{module} is in no layer: add it to LAYERS")


def violations(own: str, source: str) -> list[str]:
    """Imports in `source`, a module of that name, that go up or sideways."""
    imported = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            # `from lossleuth.tape import window` imports a module by name.
            imported += [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    found = []
    for name in imported:
        top, _, rest = name.partition(".")
        if top != "lossleuth" or not rest or rest == "__version__":
            continue
        group, home = group_of(rest), group_of(own)
        if group != home and HEIGHTS[group] >= HEIGHTS[home]:
            found.append(f"{own} imports {rest}")
    return found


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_lower_layers(path: Path) -> None:
    own = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    assert violations(own, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from lossleuth.cli import main",
        "import lossleuth.reference.train.model",
        "from lossleuth import doctor",
        "def f():\n    from lossleuth.reference.train import loop",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert violations("record", source)


def test_a_downward_import_is_allowed() -> None:
    assert violations("record", "from lossleuth.types.errors import BadInput") == []


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
