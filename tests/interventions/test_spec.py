"""What is known of interventions without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lossleuth.interventions.registry import kind_of, modules
from lossleuth.interventions.spec import InterventionSpec, read_spec, spec_of


@pytest.mark.parametrize("name", modules())
def test_the_source_says_what_the_class_says(name: str) -> None:
    """A flag that a class only inherits would be missed: it has to be set in the class itself."""
    kind = kind_of(name)
    assert spec_of(name) == InterventionSpec(kind.wants_tape, kind.only_scales_gradients)


def test_there_are_interventions_of_both_kinds() -> None:
    specs = [spec_of(name) for name in modules()]
    assert {spec.wants_tape for spec in specs} == {True, False}
    assert {spec.only_scales_gradients for spec in specs} == {True, False}


def test_attributes_that_are_no_flags_are_passed_over() -> None:
    source = "x = 1\nclass A:\n    y = z = 2\n    wants_tape = True\n    def f(self): pass\n"
    assert read_spec(source) == InterventionSpec(wants_tape=True)


@pytest.mark.parametrize("name", ["gone", "", "../spec", "*"])
def test_an_unknown_one_is_like_any_other(name: str) -> None:
    assert spec_of(name) == InterventionSpec()


def test_torch_is_not_imported_for_it() -> None:
    program = (
        "import sys; from lossleuth.interventions.spec import spec_of\n"
        "print(spec_of('shift_labels').wants_tape, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]
