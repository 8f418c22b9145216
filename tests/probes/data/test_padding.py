"""Padding, and whether it is supervised."""

from __future__ import annotations

import torch
from loss_layouts import Net, Options, padded, step_of
from steps import VOCABULARY, recorded_step
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.findings.data import Padding
from lossleuth.probes.data.padding import padding
from lossleuth.tape.roles.roles import find_roles

LENGTHS = (9, 6, 4, 3)


def rows(pad: int = 0, lengths: tuple[int, ...] = LENGTHS) -> Tensor:
    """Texts of different lengths, padded to one."""
    generator = torch.Generator().manual_seed(1)
    made = torch.full((len(lengths), 9), pad)
    for row, length in enumerate(lengths):
        made[row, :length] = torch.randperm(VOCABULARY - 1, generator=generator)[:length] + 1
    return made


def found(tokens: Tensor, *, masks: bool) -> Padding:
    def loss_of(model: nn.Module, _tokens: Tensor) -> Tensor:
        aims = tokens[:, 1:].clone()
        if masks:
            for row, length in enumerate(LENGTHS):
                aims[row, length - 1 :] = -100
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), aims.flatten())

    window = recorded_step(loss_of)
    return padding(window, find_roles(window))


def test_padding_that_is_supervised_is_counted() -> None:
    planted = found(rows(), masks=False)
    assert planted.untested is None
    assert planted.token == 0
    # Inputs are 8 long: 0, 2, 4 and 5 of their positions are padding.
    assert planted.share == 11 / 32
    assert planted.supervised_pads == 11
    assert planted.supervised == 32


def test_padding_at_the_beginning_counts_too() -> None:
    planted = found(rows().flip(1), masks=False)
    assert (planted.token, planted.supervised) == (0, 32)
    # Of 0, 3, 5 and 6 fillings the last is asked for a token of the text.
    assert planted.supervised_pads == 2 + 4 + 5


def test_padding_that_is_left_out_is_not() -> None:
    sound = found(rows(), masks=True)
    assert (sound.token, sound.supervised_pads) == (0, 0)
    assert sound.supervised == 8 + 5 + 3 + 2


def test_text_without_padding_has_none() -> None:
    full = found(rows(lengths=(9, 9, 9, 9)), masks=False)
    assert (full.token, full.share, full.supervised_pads) == (None, 0.0, 0)
    assert full.supervised == 32


def test_rows_that_all_end_alike_are_no_padding() -> None:
    # Every text ends with the same two tokens: an end, not a filling.
    ended = rows(lengths=(7, 7, 7, 7))
    assert found(ended, masks=False).token is None


def test_without_targets_it_is_untested() -> None:
    window = recorded_step(lambda model, tokens: model(tokens).square().mean())
    answer = padding(window, find_roles(window))
    assert answer.untested == "no targets of a loss were found"
    assert padding(window, None).untested is not None


def test_classes_of_texts_are_no_padding() -> None:
    def classes(net: Net, o: Options) -> Tensor:
        x, _, _ = padded(o)
        # Class 0 is the number of the padding token.
        return F.cross_entropy(net.head(net.features(x).mean(1)), torch.tensor([0, 1, 0, 0]))

    window = step_of(classes)
    found = padding(window, find_roles(window))
    assert found.untested == "the targets are not tokens of the text"
