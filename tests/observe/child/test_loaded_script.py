"""The child's end of a loaded script; `tests/observe/launch/test_loaded_script.py` runs it."""

from __future__ import annotations

import torch
from torch import nn

from lossleuth.observe.child.loaded_script import has_begun


def test_a_graph_that_leads_to_a_parameter_tells_that_a_step_has_begun() -> None:
    model = nn.Linear(3, 2)
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    optimizer = torch.optim.SGD([*model.parameters(), frozen], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    assert not has_begun([optimizer, schedule])
    with torch.no_grad():
        model(torch.ones(3))
    assert not has_begun([optimizer])
    loss = model(torch.ones(3)).sum()
    assert has_begun([schedule, optimizer])
    loss.backward()
    del loss
    assert not has_begun([optimizer])
