"""A small GPT-2 of transformers, trained by a loop of our own.

    python hf_loop.py [--steps N] [--seed N] [--rule adamw|sgd] [--fault ID [--dose X]]

Shapes: B rows, T positions, C channels, H heads, K channels of a head, V tokens.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from lossleuth.labs.lab.programs import training_parts as ordinary
from lossleuth.labs.lab.programs.planting import asked
from lossleuth.labs.lab.programs.training_parts import Parts, Settings

ATTENTION = "of_the_lab"


def attend(
    module: nn.Module, q_BHTK: Tensor, k_BHTK: Tensor, v_BHTK: Tensor, *_: Any, **__: Any
) -> tuple[Tensor, None]:
    """An attention as transformers wants it: heads last but one in what comes out."""
    mixed_BHTK = F.scaled_dot_product_attention(q_BHTK, k_BHTK, v_BHTK, is_causal=True)
    return mixed_BHTK.transpose(1, 2).contiguous(), None


def model(settings: Settings) -> nn.Module:
    """From a configuration, with weights as transformers draws them."""
    config = GPT2Config(
        vocab_size=settings.text.vocabulary,
        n_positions=settings.length,
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    config._attn_implementation = ATTENTION
    return GPT2LMHeadModel(config)  # type: ignore[no-untyped-call]  # untyped there


def forward(model: Any, tokens_BT: Tensor) -> Tensor:
    """The scores."""
    return cast(Tensor, model(input_ids=tokens_BT).logits)


def embed(model: Any, tokens_BT: Tensor) -> Tensor:
    """What each token is; the model adds where."""
    return cast(Tensor, model.transformer.wte(tokens_BT))


def decode(model: Any, x_BTC: Tensor) -> Tensor:
    """From there to the scores."""
    return cast(Tensor, model(inputs_embeds=x_BTC).logits)


def healthy(settings: Settings | None = None) -> Parts:
    """The parts of this host without a fault."""
    return Parts(
        host="hf_loop",
        settings=settings or Settings(),
        model=model,
        forward=forward,
        embed=embed,
        decode=decode,
        stack=lambda model: (model.transformer, "h"),
        attend=attend,
        batches=ordinary.next_tokens,
        loss=ordinary.cross_entropy,
        optimizer=ordinary.optimizer,
        schedule=ordinary.schedule,
        clear=ordinary.clear,
        backward=ordinary.backward,
        before_update=ordinary.before_update,
        update=ordinary.update,
    )


def made(parts: Parts) -> nn.Module:
    """The model, attending as the parts say."""
    ALL_ATTENTION_FUNCTIONS.register(ATTENTION, parts.attend)
    made = parts.model(parts.settings)
    made.train()
    return made


def train(parts: Parts) -> list[float]:
    """Train, and say how it goes; the loss of each step."""
    settings = parts.settings
    torch.manual_seed(settings.seed)
    batches = parts.batches(settings)
    model = made(parts)
    optimizer = parts.optimizer(model, settings)
    schedule = parts.schedule(optimizer, settings)
    losses = []
    for step in range(settings.steps):
        parts.clear(optimizer)
        for _ in range(parts.micro_batches):
            batch = next(batches)
            loss = parts.loss(parts.forward(model, batch.inputs_BT), batch.targets_BT)
            parts.backward(loss / parts.micro_batches)
        parts.before_update(model, optimizer)
        parts.update(optimizer, None)
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:4}  loss {losses[-1]:.4f}", flush=True)
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(asked(healthy(), __doc__ or ""))
