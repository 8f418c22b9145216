"""Which updates an evaluation follows, and when the next one is due."""

from __future__ import annotations

from pathlib import Path

import torch
from loops import read, train
from torch.nn import functional as F

from lossleuth.findings.evaluation import Evaluation, Metric
from lossleuth.observe.patches.hooks import Hooks
from lossleuth.observe.session import Session
from lossleuth.observe.steps.evaluations import MAX_RECORDINGS, Evaluations
from lossleuth.observe.steps.observer import Observer
from lossleuth.record.recorded_steps import recorded_steps
from lossleuth.record.write import RecordWriter

FOUND = Evaluation(batches=1, true=1.0, count=4, metrics=[Metric(None, True)])


def told(steps: int, counts: dict[int, int], usual: int = 0) -> tuple[Evaluations, list[int]]:
    """Lookups before some steps, and the steps that were foreseen."""
    evaluations, foreseen = Evaluations(records=True), []
    for step in range(steps):
        if evaluations.begin(step):
            foreseen.append(step)
        for _ in range(counts.get(step, 0) + usual):
            evaluations.looked_up()
    return evaluations, foreseen


def test_steps_with_more_lookups_than_usual_follow_an_evaluation() -> None:
    found, _ = told(40, {10: 3, 20: 3, 30: 3}, usual=1)
    assert found.steps == [10, 20, 30]
    # A teacher by itself is no evaluation.
    assert told(40, {}, usual=1)[0].steps == []


def test_the_next_is_foreseen_from_the_distance_of_the_last() -> None:
    assert told(101, dict.fromkeys((25, 50, 75, 100), 2))[1] == [50, 75, 100]
    assert told(100, dict.fromkeys((1, 31, 61, 91), 2))[1] == [2, 61, 91]
    assert len(told(200, dict.fromkeys(range(5, 200, 5), 2))[1]) == MAX_RECORDINGS


def test_nothing_is_foreseen_where_nothing_is_recorded_or_enough_was_found() -> None:
    quiet = Evaluations()
    evaluations = Evaluations(records=True)
    for step in range(60):
        assert not quiet.begin(step)
        evaluations.begin(step)
        if step and step % 10 == 0:
            for one in (quiet, evaluations):
                one.looked_up()
            if step <= 20:
                evaluations.looked(FOUND)
    assert not evaluations.begin(60)
    assert quiet.steps == [10, 20, 30, 40, 50]


def test_sampling_texts_is_no_evaluation_where_something_is_compared_elsewhere() -> None:
    evaluations = Evaluations(records=True)
    for step in range(30):
        evaluations.begin(step)
        if step in (5, 10, 15, 20):
            evaluations.looked_up()
        if step in (10, 20):
            evaluations.compared()
    assert evaluations.steps == evaluations.surely == [10, 20]


def test_an_evaluation_is_recorded_and_no_loss_changes(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11))
    tokens = torch.randint(0, 11, (4, 9), generator=torch.Generator().manual_seed(1))

    def evaluate(step: int) -> None:
        if (step + 1) % 4 == 0:
            with torch.no_grad():
                scores = model(tokens[:, :-1]).flatten(0, 1)
                F.cross_entropy(scores, tokens[:, 1:].flatten()).item()

    torch.manual_seed(5)
    bare = train(14, evaluate)
    session = Session()
    observer = Observer(lambda: RecordWriter.create(tmp_path / "run", {}, print), session, (1,))
    hooks = Hooks(observer)
    hooks.install()
    try:
        losses = train(14, evaluate)
    finally:
        observer.finish({"how": "test"})
        session.close()
    assert losses == bare
    assert session.failures.count == 0
    record = read(tmp_path / "run")
    found = recorded_steps(record)
    assert [(step.step, step.part) for step in found] == [
        (1, "tape"),
        (8, "evaluation"),
        (12, "evaluation"),
    ]
    for step in found[1:]:
        ((metric,),) = [evaluation.metrics for evaluation in step.all(Evaluation)]
        assert metric.numbers[0].kind == "mean"
        # Nothing else is looked at, and the numbers printed by then are known.
        assert {type(finding) for finding in step.findings} == {Evaluation}
        assert not step.errored and step.printed is not None
    assert record.ended is not None and record.ended["evaluated"] == [4, 8, 12]
