"""Asking all judges."""

from __future__ import annotations

from dataclasses import replace

from small_examinations import always, cause, says

from lossleuth.judge.judging import (
    drop_explained,
    drop_ineffective_trials,
    drop_untriable,
    drop_untried,
    drop_voided,
    judge_all,
    trials_wanted,
)
from lossleuth.types.change import Change, Effect
from lossleuth.types.evidence import Evidence
from lossleuth.types.judgement import Judgement, Stage, Status, Wrongness

TRY = (Change.of("hold_lr"),)


def fail(_evidence: Evidence) -> Judgement:
    raise KeyError("loss")


def test_a_judge_that_fails_costs_one_answer() -> None:
    causes = [cause("a", fail), cause("b", always(says(Status.REFUTED)))]
    found = judge_all(causes, Evidence())
    assert found["a"] == Judgement(Status.ERRORED, "KeyError: 'loss'")
    assert found["b"].status is Status.REFUTED


def test_only_suspected_causes_ask_for_trials_in_the_order_of_the_ladder() -> None:
    found = {
        "a": says(Status.REFUTED, trials_wanted=TRY),
        "b": says(Status.SUSPECTED, trials_wanted=TRY),
        "c": says(Status.SUSPECTED),
        "d": says(Status.SUSPECTED, trials_wanted=(*TRY, Change.of("clear_gradients"))),
    }
    assert [identifier for identifier, _ in trials_wanted(found)] == ["b", "d"]
    assert trials_wanted(found)[0] == ("b", TRY)


def test_while_losses_mean_nothing_nothing_is_tried() -> None:
    wrong = Wrongness("a distance", 1.0, 0.0, 1e-6)
    judges = {
        "offset": says(Status.PROVEN),
        "there": says(Status.SUSPECTED, trials_wanted=TRY, wrongness=wrong),
        "perhaps": says(Status.SUSPECTED, trials_wanted=TRY),
        "gone": says(Status.REFUTED),
    }
    causes = [cause(i, always(j), voids_trials=i == "offset") for i, j in judges.items()]
    found = drop_voided(causes, judge_all(causes, Evidence()))
    assert found["there"].status is Status.SUSPECTED
    assert found["perhaps"].status is Status.UNTESTED
    assert "Trials mean nothing while offset is there" in found["perhaps"].because
    assert trials_wanted(found) == []
    assert found["gone"] == judges["gone"]


def test_a_fault_that_is_not_proven_stops_nobody() -> None:
    causes = [
        cause("offset", always(says(Status.SUSPECTED)), voids_trials=True),
        cause("rate", always(says(Status.SUSPECTED, trials_wanted=TRY))),
    ]
    found = judge_all(causes, Evidence())
    assert drop_voided(causes, found) == found


def test_where_no_trial_can_be_made_only_faults_that_are_seen_stay_suspected() -> None:
    fault = Wrongness("gap", 1.0, 0.0, 0.0)
    seen = Judgement(Status.SUSPECTED, "1 is not 2", wrongness=fault, trials_wanted=TRY)
    guessed = Judgement(Status.SUSPECTED, "it does not go down well", trials_wanted=TRY)
    found = drop_untriable({"a": seen, "b": guessed})
    assert found["a"] is seen
    assert (found["b"].status, found["b"].trials_wanted) == (Status.UNTESTED, ())


def test_only_faults_that_are_seen_stay_suspected_without_a_trial() -> None:
    fault = Wrongness("gap", 1.0, 0.0, 0.0)
    seen = Judgement(Status.SUSPECTED, "1 is not 2", wrongness=fault, trials_wanted=TRY)
    guessed = Judgement(Status.SUSPECTED, "it ends at 2", trials_wanted=TRY)
    found = drop_untried({"a": seen, "b": guessed})
    assert found["a"] is seen
    assert (found["b"].status, found["b"].trials_wanted) == (Status.UNTESTED, ())
    assert "No trial" in found["b"].because


def test_a_wrong_number_in_an_evaluation_stands_in_nobodys_way() -> None:
    judgements = {"number": says(Status.PROVEN), "rate": says(Status.SUSPECTED, trials_wanted=TRY)}
    plain = [cause(i, always(j)) for i, j in judgements.items()]
    number = replace(plain[0], stage=Stage.EVALUATION)
    for look in (drop_voided, drop_explained):
        assert look([number, plain[1]], judgements) == judgements
        assert look(plain, judgements)["rate"].status is Status.UNTESTED


def test_a_trial_that_never_came_to_act_clears_nobody() -> None:
    def cleared(name: str, nats: float) -> Judgement:
        harm = Effect(Change.of(name), nats, 0.0, 3, 78, 2.0, 2.0 - nats, 3.0)
        return Judgement(Status.BENIGN, "1 is not 2.", harm=harm)

    found = drop_ineffective_trials(
        {"a": cleared("hold_lr", 0.0), "b": cleared("scale_gradient", 0.0), "c": cleared("x", 1e-9)}
    )
    assert [found[i].status for i in "abc"] == [Status.UNTESTED, Status.BENIGN, Status.BENIGN]
    assert "78 steps" in found["a"].because and found["a"].harm is None
    # What was measured to be wrong is wrong, whatever the trial.
    there = replace(cleared("hold_lr", 0.0), wrongness=Wrongness("gap", 1.0, 0.0, 0.0))
    assert drop_ineffective_trials({"a": there})["a"].status is Status.SUSPECTED
