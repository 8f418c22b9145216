"""A character model whose loss falls, rises and wanders (founding case 1).

Believed: the learning rate is too high. True: the hand-written network is wrong in four places, see
`hand_written_stack`. Repairs: backward, norm, batch, mask.

    python rising_loss.py [--steps N] [--seed N] [--repaired | --repair NAME ...]
"""

from __future__ import annotations

import torch
from torch import Tensor

from lossleuth.labs.cases.arguments import Arguments, read_arguments
from lossleuth.labs.cases.hand_written_stack import Transformer
from lossleuth.labs.cases.loss_kernel import cross_entropy
from lossleuth.labs.cases.repaired_stack import REPAIRS, parts
from lossleuth.labs.cases.text import ALPHABET, SAMPLE, decode, encode
from lossleuth.labs.cases.windows import Windows

LEARNING_RATE = 1e-3


def train(arguments: Arguments) -> list[float]:
    """Train on the sample, one batch after the other; the loss of each."""
    torch.manual_seed(arguments.seed)
    windows = Windows(encode(SAMPLE))
    model = Transformer(len(ALPHABET), parts=parts(arguments.repaired))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for step in range(arguments.steps):
        inputs_BT, targets_BT = windows.batch(step)
        loss = cross_entropy(model(inputs_BT), targets_BT)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # untyped in torch
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:4}  loss {sum(losses[-20:]) / 20:.4f}", flush=True)
    print(f"sample: {decode(written(model, windows.tokens))!r}")
    return losses


@torch.no_grad()
def written(model: Transformer, tokens: Tensor, number: int = 40) -> Tensor:
    """What the model writes after the beginning of the text."""
    text_T = tokens[: model.context]
    for _ in range(number):
        scores_V = model(text_T[None, -model.context :])[0, -1]
        text_T = torch.cat([text_T, torch.multinomial(scores_V.softmax(-1), 1)])
    return text_T[model.context :]


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(read_arguments(__doc__ or "", REPAIRS, steps=400))
