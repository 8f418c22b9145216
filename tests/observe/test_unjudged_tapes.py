"""What a replay cannot see through is judged in another way, or untested; it is never wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from healthy_tapes import STEPS, output_of, reasons, tape_of

from lossleuth.findings.gradient import CustomFunction, GradientTruth

# Each with words of the reason; none where nothing of it is out of sight.
REASONS = {
    "func_grad": None,
    "func_grad_step": None,
    "gradient_penalty": "higher order",
    "own_kernel": "opaque",
}


def is_wrong(found: GradientTruth | CustomFunction) -> bool:
    """A gradient that was judged, and is further from the truth than rounding takes it."""
    return found.error > 10 * found.floor


@pytest.mark.slow
@pytest.mark.parametrize("name", REASONS)
def test_a_right_gradient_out_of_sight_is_not_called_wrong(name: str, tmp_path: Path) -> None:
    script = str(Path(__file__).parents[1] / "programs" / f"{name}.py")
    bare = output_of([script], tmp_path)
    printed, taped = tape_of([script], tmp_path)
    assert printed == bare
    for found in taped:
        assert not any(map(is_wrong, found.all(GradientTruth)))
        assert not any(map(is_wrong, found.all(CustomFunction)))
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert "wrong_backward" not in [cause["id"] for cause in verdict["causes"]]
    words = REASONS[name]
    if words is not None:
        assert [found.step for found in taped] == list(STEPS)
        assert any(words in reason for found in taped for reason in reasons(found))
    else:
        # Without a run of the engine there is no gradient to judge, and the verdict says so.
        assert "wrong_backward" in verdict["untested"]


@pytest.mark.slow
def test_a_right_gradient_outside_torch_is_judged_and_the_program_prints_the_same(
    tmp_path: Path,
) -> None:
    script = str(Path(__file__).parents[1] / "programs" / "in_numpy.py")
    bare = output_of([script], tmp_path)
    printed, taped = tape_of([script], tmp_path)
    assert printed == bare
    assert [found.step for found in taped] == list(STEPS)
    for found in taped:
        calls, truths = found.all(CustomFunction), found.all(GradientTruth)
        assert calls and truths and all(truth.parameters for truth in truths)
        assert [*reasons(found), *found.reasons(CustomFunction)] == []
        assert not any(map(is_wrong, (*calls, *truths)))
    verdict = json.loads((tmp_path / "run" / "verdict.json").read_text())
    assert "wrong_backward" in verdict["refuted"]
