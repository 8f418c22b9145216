"""What every file of the project obeys. A convention that is not a test does not exist.

Each rule is a function of a file's path and text, and is shown to go red on a planted fault.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from bench.house import attributes, fan_out

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lossleuth"

Rule = Callable[[Path, str], list[str]]

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "core", "misc"}
LONGEST_FILE = 400
MAX_ATTRIBUTES, MAX_IMPORTS, MAX_POSITIONAL = 14, 17, 8
# What is still larger, to be made smaller: nothing may join, and nothing may grow.
LARGE_CLASSES = {
    "HandLoop": 16,
    "Session": 16,
}
WIDE_MODULES = {
    "reference/distil/assembly.py": 22,
    "reference/distil/session.py": 19,
    "reference/train/session.py": 19,
}
# Written so that this file does not match itself.
MACHINE_PATH = re.compile(r"/(?:w[o]rk|o[p]t|r[o]ot|h[o]me)/|(?:pypi|npmjs|debian)\.(?:org|com)")


def names_itself_plainly(path: Path, text: str) -> list[str]:
    """No module is called by a word that says nothing."""
    return [f"{path.stem} says nothing"] if path.stem in VAGUE_NAMES else []


def opens_with_what_it_is(path: Path, text: str) -> list[str]:
    """Every module has a docstring."""
    return [] if ast.get_docstring(ast.parse(text)) else ["no module docstring"]


def does_one_job(path: Path, text: str) -> list[str]:
    """No file has grown beyond what can be read in one go."""
    lines = text.count("\n")
    return [f"{lines} lines, over {LONGEST_FILE}"] if lines > LONGEST_FILE else []


def keeps_classes_small(path: Path, text: str) -> list[str]:
    """No class has more attributes than can be kept in mind."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            count = len(attributes(node))
            if count > LARGE_CLASSES.get(node.name, MAX_ATTRIBUTES):
                found.append(f"{node.name} has {count} attributes")
    return found


def leans_on_few(path: Path, text: str) -> list[str]:
    """No module imports more modules of ours than can be kept in mind."""
    count = fan_out(ast.parse(text))
    inside = path.is_relative_to(PACKAGE)
    name = path.relative_to(PACKAGE).as_posix() if inside else path.name
    allowed = WIDE_MODULES.get(name, MAX_IMPORTS)
    return [f"{count} modules of ours"] if count > allowed else []


def names_many_arguments(path: Path, text: str) -> list[str]:
    """A class is not made of more than eight values by position."""
    return [
        f"line {node.lineno}: {ast.unparse(node.func)}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id[:1].isupper()
        and len(node.args) > MAX_POSITIONAL
    ]


def ignores_types_with_a_reason(path: Path, text: str) -> list[str]:
    """An ignored type error names its code and says why."""
    bare = re.compile(r"#\s*type:\s*ignore(?!\[[\w, -]+\]\s+# \w)")
    return [f"line {i}" for i, line in enumerate(text.splitlines(), 1) if bare.search(line)]


def catches_no_nameless_error(path: Path, text: str) -> list[str]:
    """No `except:` that would swallow Ctrl-C, and no test that only asserts True."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"bare except at line {node.lineno}")
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant):
            found.append(f"assertion of a constant at line {node.lineno}")
    return found


def asserts_something(path: Path, text: str) -> list[str]:
    """Every test can fail: it asserts, or expects an exception, itself or through a checker."""
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            words = ast.unparse(node)
            if not re.search(r"\bassert\b|\braises\b|\bassert_\w+\(|\bcheck_\w+\(", words):
                found.append(node.name)
    return found


# Private names of others that are none of torch's: Python's, ctypes' and transformers'.
OTHERS_PRIVATE = {
    *("_getframe", "_exit", "_asdict", "_replace", "_fields"),
    *("_NamedFuncPointer", "_SimpleCData", "_name", "_attn_implementation"),
}


@cache
def own_members() -> frozenset[str]:
    """The names of everything in classes of the package."""
    found = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                for part in ast.walk(node):
                    if isinstance(part, ast.FunctionDef):
                        found.add(part.name)
                    elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                        found.add(part.attr)
    return frozenset(found)


def leaves_private_torch_alone(path: Path, text: str) -> list[str]:
    """Private symbols of torch are named in `torch_internals.py` and nowhere else."""
    if path.name == "torch_internals.py":
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            imported = [alias.name.split(".") for alias in node.names]
            names = [name for parts in imported if parts[0] == "torch" for name in parts]
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            # Operators have names of their own, and what we have named is ours.
            if not whole.startswith(("self.", "cls.", "aten.", "torch.ops.")):
                names = [node.attr] if node.attr not in own_members() else []
            if whole.startswith("torch.") and not whole.startswith("torch.ops."):
                names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
            asked = node.args[1]
            if isinstance(asked, ast.Constant) and asked.value not in own_members():
                names = [asked.value]
        private = [n for n in names if n.startswith("_") and not n.startswith("__")]
        found += [f"{n} at line {node.lineno}" for n in private if n not in OTHERS_PRIVATE]
    return found


SOURCE_RULES: tuple[Rule, ...] = (
    names_itself_plainly,
    opens_with_what_it_is,
    does_one_job,
    keeps_classes_small,
    leans_on_few,
    names_many_arguments,
    ignores_types_with_a_reason,
    catches_no_nameless_error,
    leaves_private_torch_alone,
)
TEST_RULES: tuple[Rule, ...] = (
    names_itself_plainly,
    opens_with_what_it_is,
    catches_no_nameless_error,
    asserts_something,
)


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def mirrors() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_source_file_obeys_the_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert {rule.__name__: rule(path, text) for rule in SOURCE_RULES if rule(path, text)} == {}


@pytest.mark.parametrize("path", mirrors(), ids=lambda p: str(p.relative_to(ROOT / "tests")))
def test_a_test_file_obeys_the_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert {rule.__name__: rule(path, text) for rule in TEST_RULES if rule(path, text)} == {}


def has_nothing_to_test(path: Path) -> bool:
    """Whether a file of findings has fields alone; storing them is tested for every kind."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return path.parent.name == "findings" and not any(isinstance(n, ast.FunctionDef) for n in nodes)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_source_file_has_its_test_file(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py") or has_nothing_to_test(path):
        return
    mirror = ROOT / "tests" / path.relative_to(PACKAGE).parent / f"test_{path.name}"
    assert mirror.exists(), f"expected {mirror.relative_to(ROOT)}"


def test_no_machine_path_or_registry_is_committed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    found = []
    for name in filter(None, listed):
        path = ROOT / name
        if path.is_file() and MACHINE_PATH.search(path.read_text("utf-8", errors="replace")):
            found.append(name)
    assert found == []


LARGE_CLASS = "class A:\n    def f(self):\n" + "".join(
    f"        self.a{i} = 1\n" for i in range(MAX_ATTRIBUTES + 1)
)
MANY_IMPORTS = "".join(f"from lossleuth.a{i} import b\n" for i in range(MAX_IMPORTS + 1))


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (names_itself_plainly, "utils.py", '"""A module."""'),
        (opens_with_what_it_is, "a.py", "x = 1"),
        (does_one_job, "a.py", "x = 1\n" * (LONGEST_FILE + 1)),
        (keeps_classes_small, "a.py", LARGE_CLASS),
        (leans_on_few, "a.py", MANY_IMPORTS),
        (names_many_arguments, "a.py", f"Thing({', '.join('1' * (MAX_POSITIONAL + 1))})"),
        (ignores_types_with_a_reason, "a.py", "x = 1  # type: " + "ignore"),
        (ignores_types_with_a_reason, "a.py", "x = 1  # type: " + "ignore[arg-type]"),
        (catches_no_nameless_error, "a.py", "try:\n    x\nexcept:\n    pass"),
        (catches_no_nameless_error, "a.py", "assert True"),
        (leaves_private_torch_alone, "a.py", "from torch._ops import OpOverload"),
        (leaves_private_torch_alone, "a.py", "from torch.utils import _pytree"),
        (leaves_private_torch_alone, "a.py", "import torch._dynamo"),
        (leaves_private_torch_alone, "a.py", "f = torch._foreach_mul_"),
        (leaves_private_torch_alone, "a.py", "x = tensor._version"),
        (leaves_private_torch_alone, "a.py", "x = getattr(node, '_forward_cls', None)"),
        (asserts_something, "test_a.py", "def test_a():\n    f()"),
    ],
)
def test_each_rule_goes_red_on_a_planted_fault(rule: Rule, path: str, text: str) -> None:
    assert rule(Path(path), text)


@pytest.mark.parametrize("planted", ["/w" + "ork/x", "/ro" + "ot/x", "https://py" + "pi.org"])
def test_a_planted_machine_path_is_seen(planted: str) -> None:
    assert MACHINE_PATH.search(planted)
