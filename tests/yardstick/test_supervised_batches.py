"""Which token each target belongs to, however a program lays them out."""

from __future__ import annotations

import numpy as np
import pytest

from lossleuth.record.kept_batches import KeptMicroBatch, KeptStep, KeptTargets, Rows
from lossleuth.yardstick.supervised_batches import NONE, Supervision, batches_of, placed

TEXT = np.random.default_rng(0).integers(0, 30, (4, 13), dtype=np.int32)
TOKENS, TARGETS = TEXT[:, :-1].copy(), TEXT[:, 1:].copy()
SHIFTED = np.concatenate([TARGETS[:, :-1], np.full((4, 1), -100, np.int32)], axis=1)


def kept(*targets: Rows, classes: int = 30) -> list[KeptTargets]:
    return [KeptTargets(np.ascontiguousarray(t), -100, classes) for t in targets]


def flat(rows: Rows) -> Rows:
    return rows.reshape(1, -1)


LAYOUTS = {
    "rows": KeptMicroBatch([TOKENS], kept(TARGETS)),
    "one row": KeptMicroBatch([TOKENS], kept(flat(TARGETS))),
    "time first": KeptMicroBatch([TOKENS.T.copy()], kept(flat(TARGETS.T.copy()))),
    "time first in the loss": KeptMicroBatch([TOKENS], kept(flat(TARGETS.T.copy()))),
    "chunks of all": KeptMicroBatch([TOKENS], kept(*np.split(flat(TARGETS), [20, 40], axis=1))),
    "chunks of texts": KeptMicroBatch([TOKENS], kept(*np.split(TARGETS, [5, 9], axis=1))),
    "a column at a time": KeptMicroBatch(
        [TOKENS[:, i : i + 1].copy() for i in range(12)],
        kept(*(TARGETS[:, i : i + 1] for i in range(12))),
    ),
    "after its labels": KeptMicroBatch(
        [np.where(TOKENS > 20, -100, TOKENS), TOKENS], kept(TARGETS)
    ),
    "with types and a source": KeptMicroBatch(
        [TOKENS % 2, TOKENS[::-1].copy(), TOKENS], kept(TARGETS)
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_found_by_what_it_makes_of_the_targets(name: str) -> None:
    found = placed(LAYOUTS[name])
    assert found is not None
    assert (found.tokens == TOKENS).all() and (found.targets == TARGETS).all()
    assert found.count == TARGETS.size


@pytest.mark.parametrize(
    ("tokens", "targets"), [(TOKENS, SHIFTED), (TOKENS, flat(TARGETS[:, :-1].copy()))]
)
def test_the_last_of_each_row_may_have_no_target(tokens: Rows, targets: Rows) -> None:
    found = placed(KeptMicroBatch([tokens], kept(targets)))
    assert found is not None
    assert (found.targets[:, :-1] == TARGETS[:, :-1]).all() and (found.targets[:, -1] == NONE).all()


def test_a_window_has_one_target_behind_it_if_it_is_a_token() -> None:
    last = TARGETS[:, -1].copy()
    found = placed(KeptMicroBatch([TOKENS], kept(last)))
    assert found is not None
    assert (found.targets[:, -1] == last).all() and found.count == len(last)
    # A class of two is none.
    assert placed(KeptMicroBatch([TOKENS], kept(last % 2, classes=2))) is None


@pytest.mark.parametrize("targets", [TOKENS, np.roll(TARGETS, -1, 1), TARGETS[::-1].copy()])
def test_other_targets_than_the_next_tokens_are_not_placed(targets: Rows) -> None:
    assert placed(KeptMicroBatch([TOKENS], kept(targets))) is None


def test_where_no_loss_was_seen_the_next_tokens_but_padding_are_the_targets() -> None:
    padded = TOKENS.copy()
    padded[0, 6:] = 29
    step = KeptStep(0, [KeptMicroBatch([padded])])
    found = batches_of(step, Supervision(pad=29))
    assert found is not None
    assert (found[0].targets[0, 5:] == NONE).all()
    assert (found[0].targets[1, :-1] == padded[1, 1:])[padded[1, 1:] != 29].all()
    turned = batches_of(KeptStep(0, [KeptMicroBatch([padded.T.copy()])]), Supervision(29, 0))
    assert turned is not None
    assert (turned[0].targets == found[0].targets).all()


def test_a_step_is_known_only_if_all_of_it_is() -> None:
    good, bad = LAYOUTS["rows"], KeptMicroBatch([TOKENS], kept(TOKENS))
    assert batches_of(KeptStep(0, [good, good]), Supervision()) is not None
    assert batches_of(KeptStep(0, [good, bad]), Supervision()) is None
    assert batches_of(KeptStep(0, [KeptMicroBatch([-TOKENS - 1])]), Supervision()) is None
    assert batches_of(KeptStep(0, []), Supervision()) is None
