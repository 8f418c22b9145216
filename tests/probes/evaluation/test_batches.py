"""Which forward passes are evaluations."""

from __future__ import annotations

import torch
from measured_steps import evaluated, held_back, read_means
from steps import SmallModel, recorded_step, shifted_loss
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.probes.evaluation.batches import Found, evaluated_batches
from lossleuth.tape.replay.index import Index
from lossleuth.tape.window import Window


def batches_of(window: Window) -> Found:
    return evaluated_batches(window, Index(window.tape))


def test_each_batch_is_found_with_its_tokens_and_scores() -> None:
    found = batches_of(evaluated(read_means))
    assert found.whole and found.problem is None
    for known, tokens in zip(found.batches, held_back(), strict=True):
        assert known.tokens_BT is not None
        assert torch.equal(known.tokens_BT, tokens[:, :-1])
        assert known.rows_NV.shape == (tokens[:, 1:].numel(), 23)
        assert known.undropped_NV is None
        assert known.texts == len(tokens)


def test_a_training_step_by_itself_has_no_evaluation() -> None:
    assert batches_of(recorded_step()).batches == []


def test_a_second_look_at_the_training_batch_is_no_evaluation() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1]).flatten(0, 1)
        with torch.no_grad():
            F.cross_entropy(scores, tokens[:, 1:].flatten(), reduction="sum").item()
        return F.cross_entropy(scores, tokens[:, 1:].flatten())

    assert batches_of(recorded_step(loss)).batches == []


def test_a_teacher_is_no_evaluation() -> None:
    teacher = SmallModel()

    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = teacher(tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None])
        return shifted_loss(model, tokens) + wanted.mean()

    assert batches_of(recorded_step(loss)).batches == []


def test_a_forward_pass_with_a_graph_was_perhaps_meant_to_be_followed() -> None:
    def loss(model: nn.Module, tokens: Tensor) -> Tensor:
        shifted_loss(model, tokens.flip(1)).item()
        return shifted_loss(model, tokens)

    assert batches_of(recorded_step(loss)).batches == []


def test_dropout_is_seen_and_taken_away() -> None:
    def dropping(model: SmallModel) -> None:
        model.between = lambda x: F.dropout(x, 0.5)

    for known in batches_of(evaluated(read_means, dropping)).batches:
        assert known.undropped_NV is not None
        assert not torch.allclose(known.undropped_NV, known.rows_NV)


def test_under_autocast_scores_are_what_the_program_had() -> None:
    def measure(model: SmallModel) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            read_means(model)

    found = batches_of(evaluated(measure))
    assert len(found.batches) == 2
    assert found.batches[0].rows_NV.dtype == torch.bfloat16
