"""Parameters in an optimizer that ask for no gradient."""

from __future__ import annotations

from dataclasses import replace

import pytest
from any_finding import finding
from evidence import (
    OPTIMIZER,
    check_proven,
    check_refuted,
    check_trial,
    check_untested,
    seen,
    steps,
    tried,
)

from lossleuth.causes.gradient.parameters_frozen import ALL, CAUSE, CURE, judge
from lossleuth.causes.reasoning import MIN_EFFECT_NATS
from lossleuth.findings.distillation import Teaching
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.update import Coverage, Uncovered
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Status, Where
from lossleuth.types.observed import Floors, FoundIn, Origins, RunSettings, WeightOrigins

TABLE = Uncovered("tok.weight", 300, "model.py", 3, "tok", gradient=0.0)
FROM_FILE = Origins(weights=WeightOrigins([FoundIn("model.pt")]))


def coverage(
    *frozen: Uncovered, held: int = 25, frozen_share: float = 0.0, thin: float = 0.0
) -> Coverage:
    return Coverage(
        missing=(),
        missing_share=0.0,
        frozen=frozen,
        unused=0,
        held=held,
        unused_match_missing=False,
        frozen_share=frozen_share,
        thin_share=thin,
    )


def covered(*frozen: Uncovered) -> Evidence:
    return seen(coverage(*frozen), sizes=[700], parameters=["head.weight"])


def test_frozen_parameters_in_an_optimizer_are_suspected_until_unfrozen() -> None:
    check_trial(judge, covered(TABLE), [CURE], OPTIMIZER)
    judgement = judge(covered(TABLE))
    assert "1 tensors with 300 elements" in judgement.because
    assert "tok.weight" in judgement.because
    assert judgement.wrongness is not None and judgement.wrongness.value == 0.3


def test_the_only_line_that_freezes_is_named_first() -> None:
    known = replace(covered(TABLE), origins=Origins(freezing="model.py:40"))
    assert judge(known).where == Where("model.py", 40)


def test_the_parameter_is_named_where_no_line_made_the_optimizer() -> None:
    unknown = replace(covered(TABLE), settings=RunSettings(), steps=[])
    assert judge(unknown).where == Where("model.py", 3, "tok")


def test_what_is_frozen_and_comes_from_no_file_is_blamed_where_training_it_gains() -> None:
    part = seen(coverage(frozen_share=0.3))
    check_refuted(judge(part), "all 25 tensors")
    proven = judge(tried(part, ALL, 0.3))
    check_proven(proven, OPTIMIZER, "30%")
    assert proven.cure == ALL
    check_refuted(judge(tried(part, ALL, 0.05)), "all 25 tensors")


def test_a_teacher_is_frozen_by_design_whatever_training_it_gains() -> None:
    beside = seen(coverage(frozen_share=0.3), finding(Teaching, 1.0))
    check_refuted(judge(tried(beside, ALL, 0.3)), "a teacher")


def test_adapters_over_frozen_weights_in_no_optimizer_are_sound() -> None:
    check_refuted(judge(covered()), "all 25 tensors")


@pytest.mark.parametrize(
    ("evidence", "words"),
    [(Evidence(), "no step was recorded"), (seen(), "coverage could not be measured")],
)
def test_without_coverage_it_is_untested(evidence: Evidence, words: str) -> None:
    check_untested(CAUSE.judged(evidence), words)


def left_out(
    share: float = 0.8, loss: float = 3.0, thin: float = 0.1, origins: Origins | None = None
) -> Evidence:
    true_loss = TrueLoss(loss, count=512, vocabulary=30, logits_std=1.0)
    return seen(
        coverage(held=3, frozen_share=share, thin=thin),
        true_loss,
        steps=steps(20, unigram=2.9),
        origins=origins or Origins(),
    )


def test_a_model_that_is_mostly_frozen_and_learns_nothing_is_tried_unfrozen() -> None:
    fault = left_out()
    check_trial(judge, fault, [ALL], OPTIMIZER, min_effect=MIN_EFFECT_NATS)
    assert "80%" in judge(fault).because


@pytest.mark.parametrize(
    "evidence",
    [
        left_out(share=0.3),
        left_out(loss=2.0),
        left_out(thin=0.9),
        left_out(loss=2.8, origins=FROM_FILE),
    ],
    ids=["a part", "learns", "adapters", "from a file"],
)
def test_freezing_that_may_be_meant_is_not_blamed(evidence: Evidence) -> None:
    check_refuted(judge(evidence))


def test_where_targets_are_not_seen_what_is_read_is_the_measure() -> None:
    frozen = coverage(held=3, frozen_share=0.9)
    for floor, status in ((2.9, Status.SUSPECTED), (3.5, Status.REFUTED)):
        fault = seen(frozen, steps=steps(20, loss=3.2), floors=Floors(unigram=floor))
        assert judge(fault).status is status


def test_weights_of_a_file_that_know_nothing_are_as_good_as_drawn() -> None:
    assert judge(left_out(loss=3.4, origins=FROM_FILE)).status is Status.SUSPECTED
