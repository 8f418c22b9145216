"""From looks to a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_examinations import always, cause, says

from lossleuth.judge.judge import Circumstances, judge, merged, ranked
from lossleuth.types.cause import Cause
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness
from lossleuth.types.observed import Step

TRY = Change.of("hold_lr")
LEARNS = Evidence(steps=[Step(i, loss=3.0 - 0.1 * i) for i in range(20)])
FLAT = Evidence(steps=[Step(i, loss=3.0) for i in range(20)])
BY_HAND, INTERRUPTED = Circumstances(by_hand=True), Circumstances(interrupted=True)


def guess(wanted: tuple[Change, ...] = (TRY,)) -> Cause:
    return cause("guess", always(says(Status.SUSPECTED, trials_wanted=wanted)))


def test_without_a_look_nothing_is_said() -> None:
    found = judge([guess()], [])
    assert (found.status, found.judgements, found.steps) == ("cannot_tell", {}, 0)


def test_healthy_is_said_only_of_a_run_that_learns_and_came_to_its_end() -> None:
    causes = [cause("a", always(says(Status.REFUTED)))]
    assert judge(causes, [LEARNS]).status == "healthy"
    assert judge(causes, [FLAT]).status == "cannot_tell"
    assert judge(causes, [LEARNS], INTERRUPTED).status == "cannot_tell"


def test_each_pass_drops_what_it_is_there_for() -> None:
    """Every pass shows in a verdict: none may be left out."""
    flat, learns, by_hand = (
        judge([guess()], [look], circumstances).judgements["guess"]
        for look, circumstances in ((FLAT, None), (LEARNS, None), (FLAT, BY_HAND))
    )
    # A lack of time is never a suspicion, whether the run learns or not.
    assert all("No trial was made that could tell" in j.because for j in (flat, learns))
    assert "No trial can be made" in by_hand.because
    plain = cause("plain", always(says(Status.PROVEN)))
    harmed = cause("harmed", always(says(Status.PROVEN, harm=effect(1.0))))
    voided = judge([plain, guess()], [FLAT]).judgements["guess"]
    assert "Trials mean nothing while plain is there" in voided.because
    explained = judge([harmed, guess()], [FLAT]).judgements["guess"]
    assert "It was not tried without harmed" in explained.because
    benign = cause("benign", always(says(Status.BENIGN, harm=effect(0.0))))
    assert "never came to act" in judge([benign], [FLAT]).judgements["benign"].because
    dropped = (flat, learns, by_hand, voided, explained)
    assert {judgement.status for judgement in dropped} == {Status.UNTESTED}


def effect(nats: float) -> Effect:
    return Effect(TRY, nats, 0.0, 3, 40, 3.0, 3.0 - nats, 4.0)


def test_what_was_seen_with_a_cure_in_is_said_to_be() -> None:
    second = cause(
        "second", lambda look: says(Status.PROVEN if look.cures else Status.REFUTED, "1 is not 2.")
    )
    found = judge([second], [FLAT, replace(LEARNS, cures=(TRY,))])
    assert found.judgements["second"].because == "1 is not 2 (seen with hold_lr() in)"
    # The run as it is does not learn, whatever it does with a cure in.
    assert (found.status, found.steps, found.notes[0]) == (
        *("proven", 20),
        "loss 3.000 → 3.000",
    )


def test_a_plain_fault_voids_no_trial_once_it_is_cured() -> None:
    plain = cause("plain", always(says(Status.PROVEN)))
    wrong = Wrongness("gap", 1.0, 0.0, 0.0)
    tried = cause(
        "tried",
        lambda look: says(
            Status.BENIGN if look.cures else Status.SUSPECTED, wrongness=wrong, trials_wanted=(TRY,)
        ),
    )
    found = judge([plain, tried], [FLAT, replace(FLAT, cures=(TRY,))])
    assert found.judgements["tried"].status is Status.BENIGN


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        (Status.SUSPECTED, Status.PROVEN, True),
        (Status.REFUTED, Status.PROVEN, True),
        (Status.SUSPECTED, Status.REFUTED, True),
        (Status.UNTESTED, Status.BENIGN, True),
        (Status.PROVEN, Status.REFUTED, False),
        (Status.REFUTED, Status.SUSPECTED, False),
    ],
)
def test_a_further_look_counts_where_it_found_more(
    before: Status, after: Status, counts: bool
) -> None:
    found = merged({"a": says(before)}, {"a": says(after)})
    assert found["a"].status is (after if counts else before)


def test_what_is_proven_comes_first_and_earlier_stages_before_later_ones() -> None:
    judges: dict[Cause, Judgement] = {
        cause(i, always(j), stage): j
        for i, stage, j in [
            ("benign_data", Stage.DATA, says(Status.BENIGN)),
            ("suspected_data", Stage.DATA, says(Status.SUSPECTED)),
            ("proven_rate", Stage.OPTIMIZER, says(Status.PROVEN)),
            ("proven_loss", Stage.LOSS, says(Status.PROVEN)),
            ("refuted", Stage.DATA, says(Status.REFUTED)),
            ("untested", Stage.DATA, says(Status.UNTESTED)),
        ]
    }
    found = ranked(list(judges), {c.id: j for c, j in judges.items()})
    assert found == ["proven_loss", "proven_rate", "suspected_data", "benign_data"]


def test_what_another_fault_has_hidden_is_to_be_fixed_next() -> None:
    def after_cure(evidence: Evidence) -> Judgement:
        return says(Status.PROVEN if evidence.cures else Status.REFUTED)

    looks = [Evidence(), Evidence(cures=(TRY,))]
    for voids, order in ((True, ["b", "a"]), (False, ["a", "b"])):
        causes = [
            cause("a", after_cure, Stage.LOSS),
            cause("b", always(says(Status.PROVEN)), Stage.INITIALISATION, voids_trials=voids),
        ]
        assert judge(causes, looks).ranked == order
