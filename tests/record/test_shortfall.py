"""What a record misses."""

from __future__ import annotations

from pathlib import Path

from lossleuth.record.shortfall import Shortfall

RUN = Path("run")


def test_a_complete_record_has_nothing_to_say() -> None:
    told: list[str] = []
    assert Shortfall(RUN, told.append).sentence is None
    assert told == []


def test_each_kind_is_told_once_and_all_are_counted() -> None:
    told: list[str] = []
    shortfall = Shortfall(RUN, told.append)
    for what in ("a", "b"):
        shortfall.miss(f"lost {what}")
        shortfall.leave_out(f"value {what}")
    assert told == [
        "the record in run misses frames: lost a; training goes on",
        "the record in run misses values: value a; training goes on",
    ]
    assert shortfall.sentence == (
        "the record in run misses 2 frames: lost a, and misses 2 values, the first: value a"
    )


def test_a_log_that_is_gone_explains_the_frames_that_follow() -> None:
    told: list[str] = []
    shortfall = Shortfall(RUN, told.append)
    shortfall.gone("was deleted during the run")
    assert shortfall.sentence == "the record in run was deleted during the run"
    shortfall.miss("it came after the end", 3)
    assert shortfall.sentence == "the record in run misses 3 frames: was deleted during the run"
    assert told == ["the record in run was deleted during the run; training goes on"]


def test_a_warning_that_fails_hurts_nobody() -> None:
    def fail(_: str) -> None:
        raise RuntimeError

    shortfall = Shortfall(RUN, fail)
    shortfall.miss("full")
    assert shortfall.lost == 1
