"""What a step without autograd is made of."""

from __future__ import annotations

import torch
from hand_programs import Program, recorded

from lossleuth.probes.no_autograd.hand_parts import (
    gradient_of,
    parameters_of,
    scalars_of,
    values_of,
)


def test_parameters_are_what_is_used_and_overwritten() -> None:
    window, names = recorded(Program(momentum=True))
    found = [p.number for p in parameters_of(window.tape)]
    assert {names[i] for i in found if i in names} == {"table", "inner", "bias", "outer"}
    # The tokens are used and stay as they are.
    assert all(window.tape.layouts[i].dtype.is_floating_point for i in found)


def test_the_likeliest_loss_depends_on_all_parameters_and_comes_before_their_update() -> None:
    window, _ = recorded(Program())
    parameters = parameters_of(window.tape)
    (first, *_) = scalars_of(window.tape, parameters)
    assert window.tape.makers()[first].name == "neg"
    assert window.tape.makers()[first].number < min(p.at for p in parameters)


def test_gradients_are_those_of_torch() -> None:
    program = Program()
    window, names = recorded(program)
    parameters = [p.number for p in parameters_of(window.tape) if p.number in names]
    loss = scalars_of(window.tape, parameters_of(window.tape))[0]
    truth = gradient_of(window.tape, loss, parameters)
    w = {names[i]: window.tape.value(i).double().clone().requires_grad_() for i in parameters}
    x, y = program.tokens[:-1], program.tokens[1:]
    act = torch.tanh(w["table"][x] @ w["inner"] + w["bias"])
    own = torch.nn.functional.cross_entropy(act @ w["outer"], y)
    own.backward()
    assert abs(truth.value - own.item()) < 1e-12
    for i in parameters:
        torch.testing.assert_close(truth.of[i], w[names[i]].grad, rtol=1e-10, atol=1e-14)


def test_values_may_be_had_with_parameters_somewhere_else() -> None:
    window, names = recorded(Program())
    loss = scalars_of(window.tape, parameters_of(window.tape))[0]
    inner = next(i for i, name in names.items() if name == "inner")
    here = values_of(window.tape, [loss])[loss]
    there = values_of(window.tape, [loss], {inner: torch.zeros(4, 5, dtype=torch.float64)})[loss]
    assert float(here) != float(there)
