"""What every host has to do; each host's file has them for its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from small_hosts import losses, module, small


class EveryHost:
    """It learns, looks back only, repeats itself, and its parts are what they say."""

    host: str

    @pytest.mark.parametrize("rule", ["adamw", "sgd"])
    def test_it_learns(self, rule: str) -> None:
        parts = small(self.host, rule, steps=120)
        larger = replace(parts, settings=replace(parts.settings, rows=8, width=32))
        found = module(self.host).train(larger)
        assert sum(found[-10:]) / 10 < found[0] - 0.8

    def test_it_is_the_same_every_time(self) -> None:
        assert losses(self.host) == losses(self.host)

    def test_its_two_halves_make_the_whole(self) -> None:
        parts = small(self.host)
        model = module(self.host).made(parts).eval()
        tokens_BT = next(parts.batches(parts.settings)).inputs_BT
        halves = parts.decode(model, parts.embed(model, tokens_BT))
        torch.testing.assert_close(halves, parts.forward(model, tokens_BT))

    def test_a_position_does_not_see_later_ones(self) -> None:
        parts = small(self.host)
        model = module(self.host).made(parts).eval()
        tokens_BT = next(parts.batches(parts.settings)).inputs_BT
        other_BT = tokens_BT.clone()
        other_BT[:, 6] = (other_BT[:, 6] + 1) % 64
        before, after = parts.forward(model, tokens_BT), parts.forward(model, other_BT)
        torch.testing.assert_close(before[:, :6], after[:, :6])
        assert not torch.allclose(before[:, 6], after[:, 6])

    def test_its_layers_are_where_it_says(self) -> None:
        parts = small(self.host)
        owner, name = parts.stack(module(self.host).made(parts))
        assert len(getattr(owner, name)) == parts.settings.layers
