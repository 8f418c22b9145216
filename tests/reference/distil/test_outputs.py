"""What is inside a model."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pupil import batch, model
from torch import Tensor, nn
from torch.nn import functional as F

from lossleuth.reference.distil.outputs import LogitsOnly, is_host_model, logits_of, look
from lossleuth.types.errors import BadInput


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_the_attention_that_is_told_is_the_one_that_was_used(positions: str) -> None:
    net, tokens = model(positions=positions), batch().inputs_BT
    used: list[tuple[Tensor, Tensor]] = []
    real = F.scaled_dot_product_attention

    def spied(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        # With the identity as values, attention comes out itself.
        eye = torch.eye(q.size(2)).expand(*q.shape[:2], -1, -1)
        used.append((real(q, k, eye, is_causal=True), v))
        return real(q, k, v, **options)

    try:
        F.scaled_dot_product_attention = spied
        outputs = look(net, tokens, hidden=True, attention=True)
    finally:
        F.scaled_dot_product_attention = real
    assert len(outputs.attention) == len(outputs.hidden) == 2
    for told, (true, _) in zip(outputs.attention, used, strict=True):
        assert torch.allclose(told, true, rtol=0, atol=64 * 2**-24)


def test_the_last_state_makes_the_logits() -> None:
    net, tokens = model(), batch().inputs_BT
    outputs = look(net, tokens, hidden=True)
    again = net.output(net.final_norm(outputs.hidden[-1]))
    assert torch.equal(outputs.logits_BTV, again)


def test_looking_leaves_no_hook_behind_even_if_the_model_fails() -> None:
    net = model()
    with pytest.raises(IndexError):
        look(net, torch.full((1, 4), 99), hidden=True, attention=True)
    assert not any(module._forward_hooks for module in net.modules())


class Wrapped(nn.Module):
    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    def forward(self, tokens: Tensor) -> Any:
        return self.found


def test_any_module_gives_logits_bare_or_in_an_object() -> None:
    tokens, logits = torch.zeros(2, 3, dtype=torch.long), torch.randn(2, 3, 5)
    assert logits_of(Wrapped(logits), tokens) is logits
    assert logits_of(Wrapped(SimpleNamespace(logits=logits)), tokens) is logits
    assert look(Wrapped(logits), tokens).logits_BTV is logits


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (torch.zeros(2, 5), r"logits of shape \(2, 3, 'V'\) from Wrapped, found \(2, 5\)"),
        ("text", "found str"),
    ],
)
def test_what_are_no_logits_is_refused(found: Any, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        logits_of(Wrapped(found), torch.zeros(2, 3, dtype=torch.long))


def test_the_inside_of_an_unknown_module_is_refused() -> None:
    with pytest.raises(BadInput, match="a model whose inside is known"):
        look(Wrapped(torch.zeros(2, 3, 5)), torch.zeros(2, 3, dtype=torch.long), hidden=True)


def test_ids_and_columns_translate_between_vocabularies() -> None:
    net, tokens = model(), batch().inputs_BT
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    back = torch.empty_like(order)
    back[order] = torch.arange(20)
    view = LogitsOnly(net, ids=order, columns=order)
    assert torch.equal(view(back[tokens])[..., back], net(tokens))
    assert not is_host_model(net) and math.isfinite(view(tokens).sum().item())
