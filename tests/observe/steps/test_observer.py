"""From hooks to steps."""

from __future__ import annotations

import math
import resource
from pathlib import Path

import pytest
import torch
from loops import read, train, watching

from lossleuth.observe.steps.observer import Observer
from lossleuth.observe.steps.run_log import RunLog


def test_steps_losses_tokens_and_reads_are_recorded(tmp_path: Path) -> None:
    with watching(tmp_path / "run"):
        losses = train(5)
    record = read(tmp_path / "run")
    assert record.steps.tolist() == [0, 1, 2, 3, 4]
    assert record.series("loss").tolist() == losses
    assert set(record.series("tokens")) == {20}
    assert set(record.series("classes")) == {11}
    assert len(set(record.values("batch"))) == 5
    assert 0 < record.series("unigram")[-1] < math.log(11) + 1e-9
    assert (record.series("own_seconds") > 0).all()
    assert record.parameter_names == ["0.weight", "1.weight", "1.bias"]


def test_watching_changes_no_loss(tmp_path: Path) -> None:
    bare = train(20)
    with watching(tmp_path / "run"):
        assert train(20) == bare


@pytest.mark.parametrize(
    ("owner", "broken"),
    [
        *((Observer, name) for name in ("_note_place", "_close", "_begin_if_updated")),
        *((RunLog, name) for name in ("event", "declare_parameters")),
    ],
)
def test_an_error_of_ours_never_reaches_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, broken: str
) -> None:
    bare = train(4)

    def fail(*_args: object) -> None:
        raise RuntimeError("ours")

    with watching(tmp_path / "run") as observer:
        monkeypatch.setattr(owner, broken, fail)
        assert train(4) == bare
    assert observer.session.failures.count > 0
    sentence = observer.session.failures.sentence()
    assert sentence is not None
    assert "RuntimeError" in sentence


def test_a_backward_without_an_update_is_said_at_the_end(tmp_path: Path) -> None:
    weight = torch.ones(2, requires_grad=True)
    with watching(tmp_path / "run"):
        weight.sum().backward()
    record = read(tmp_path / "run")
    assert len(record) == 0
    unfinished = record.events("unfinished")[0].data
    assert unfinished["backwards"] == 1
    assert unfinished["places"]["backward"].startswith(__file__)


def test_a_gradient_that_is_nan_makes_the_norm_nan(tmp_path: Path) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with watching(tmp_path / "run"):
        (weight.sum() * math.nan).backward()
        optimizer.step()
    record = read(tmp_path / "run")
    assert math.isnan(record.series("grad_norm")[0])
    assert record.parameter_series(record.parameter_names[0], "grad_nonfinite")[0] == 2


@pytest.mark.slow
def test_memory_stays_flat_over_a_hundred_thousand_steps(tmp_path: Path) -> None:
    def resident() -> int:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()

    sizes: list[int] = []

    def measure(step: int) -> None:
        if step in (20_000, 100_000):
            sizes.append(resident())

    with watching(tmp_path / "run"):
        train(100_001, measure)
    # The list of losses that the loop itself keeps is 80 000 floats of 32 bytes.
    assert sizes[1] - sizes[0] < 8_000_000
    assert len(read(tmp_path / "run")) == 100_001


def test_memory_stays_flat_over_many_steps(tmp_path: Path) -> None:
    import gc
    import tracemalloc

    sizes: list[int] = []

    def measure(step: int) -> None:
        if step in (1200, 2400):
            observer.write_event("look", {})  # writes the steps that wait
            gc.collect()  # also empties Python's lists of objects to use again
            sizes.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        with watching(tmp_path / "run") as observer:
            train(2401, measure)
    finally:
        tracemalloc.stop()
    # The list of losses that the loop itself keeps is 1 200 floats of 32 bytes.
    assert sizes[1] - sizes[0] < 80_000
