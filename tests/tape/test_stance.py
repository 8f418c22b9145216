"""Programs run uncompiled while they are recorded, and compiled afterwards."""

from __future__ import annotations

import pytest
import torch

from lossleuth.tape.recorder import Recorder
from lossleuth.tape.stance import Stance


def runs_compiled() -> bool:
    """Whether a function that has to be compiled is."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.is_compiling() else x

    torch._dynamo.reset()
    whole = torch.compile(program, backend="eager", fullgraph=True)
    return bool(whole(torch.zeros(1)).item())


def test_a_function_that_has_to_be_compiled_runs_while_it_is_recorded() -> None:
    assert runs_compiled()
    recorder = Recorder(0)
    recorder.start()
    try:
        assert not runs_compiled()
    finally:
        recorder.stop()
    assert runs_compiled()


def test_the_last_who_wants_it_gives_it_back() -> None:
    stance = Stance()
    stance.aside()
    stance.aside()
    stance.back()
    assert not runs_compiled()
    stance.back()
    assert runs_compiled()


def test_what_the_program_wanted_of_the_compiler_comes_back() -> None:
    stance = Stance()
    with torch.compiler.set_stance("force_eager"):
        stance.aside()
        stance.back()
        assert not runs_compiled()
    assert runs_compiled()


def test_what_the_program_takes_meanwhile_stays() -> None:
    stance = Stance()
    stance.aside()
    theirs = torch.compiler.set_stance("eager_on_recompile")
    stance.back()
    try:
        assert torch._dynamo.eval_frame._stance.stance == "eager_on_recompile"
    finally:
        theirs.__exit__(None, None, None)
        torch.compiler.set_stance("default")
    assert runs_compiled()


def test_without_a_compiler_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.compiler, "set_stance")
    stance = Stance()
    stance.aside()
    assert runs_compiled()
    stance.back()
