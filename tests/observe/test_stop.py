"""Stopping a run from inside."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from loops import read, train, watching

from lossleuth.observe.stop import InterventionFailed, Limit, StopRun


def test_without_a_limit_nothing_is_ever_stopped() -> None:
    limit = Limit()
    assert not any(limit.is_reached(steps=n, backwards=n) for n in (0, 1, 10**9))


def test_steps_are_counted() -> None:
    assert [Limit(steps=3).is_reached(steps=n, backwards=n) for n in range(5)] == [
        *(False, False, False),
        *(True, True),
    ]


def test_a_run_that_has_to_be_over_is_stopped_at_once() -> None:
    assert not Limit(until=time.time() + 60).is_reached(steps=0, backwards=0)
    assert Limit(until=time.time() - 1).is_reached(steps=0, backwards=0)


def test_seconds_begin_with_the_first_question() -> None:
    limit = Limit(seconds=0.05)
    time.sleep(0.06)
    assert not limit.is_reached(steps=0, backwards=0)
    time.sleep(0.06)
    assert limit.is_reached(steps=0, backwards=1)


def test_backward_passes_that_no_update_follows_end_as_well() -> None:
    limit = Limit(steps=2)
    assert not limit.is_reached(steps=0, backwards=limit.MIN_BACKWARDS - 1)
    assert limit.is_reached(steps=0, backwards=limit.MIN_BACKWARDS)
    # Accumulating many passes for one step is no vain effort.
    assert not limit.is_reached(steps=1, backwards=10**6)


@pytest.mark.parametrize("limit", [Limit(seconds=1e6), Limit(steps=200)])
def test_more_passes_are_awaited_than_a_run_accumulates_over(limit: Limit) -> None:
    assert not limit.is_reached(steps=0, backwards=limit.MIN_BACKWARDS - 1)
    assert limit.is_reached(steps=0, backwards=limit.MIN_BACKWARDS)
    assert not Limit(seconds=1e6).is_reached(steps=10**6, backwards=10**6)


def test_no_handler_for_ordinary_errors_holds_it_up() -> None:
    for stop in (StopRun, InterventionFailed):
        assert not issubclass(stop, Exception)


def test_a_run_is_stopped_after_exactly_so_many_steps(tmp_path: Path) -> None:
    bare = train(10)
    with pytest.raises(StopRun), watching(tmp_path / "run", limit=Limit(steps=4)):
        train(10)
    assert read(tmp_path / "run").series("loss").tolist() == bare[:4]


def test_a_script_that_catches_everything_is_left_in_the_end(tmp_path: Path) -> None:
    from lossleuth.observe.patches.hooks import Hooks
    from lossleuth.observe.session import Session
    from lossleuth.observe.steps.observer import Observer
    from lossleuth.record.write import RecordWriter

    class Left(BaseException):
        pass

    def leave() -> None:
        raise Left

    session = Session()
    observer = Observer(lambda: RecordWriter.create(tmp_path / "run", {}, print), session)
    hooks = Hooks(observer, limit=Limit(steps=2))
    hooks.give_up = leave
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    caught = 0
    hooks.install()
    try:
        for _ in range(20):
            try:
                optimizer.zero_grad()
                weight.sum().backward()
                optimizer.step()
            except StopRun:
                caught += 1
            except Left:
                break
    finally:
        observer.finish({"how": "test"})
        session.close()
    assert caught == Limit.MAX_STOPS


def test_gradients_made_by_hand_are_stopped_at_the_update(tmp_path: Path) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    made = 0
    with pytest.raises(StopRun), watching(tmp_path / "run", limit=Limit(steps=3)):
        for _ in range(10):
            weight.grad = torch.ones(2)
            optimizer.step()
            made += 1
    assert made in (3, 4)
