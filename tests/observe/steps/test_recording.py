"""Recording chosen steps of a running program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import read, train

from lossleuth.findings.gradient import BackwardHook, GradientTruth, StaleGradient
from lossleuth.findings.loss import TrueLoss
from lossleuth.findings.recorded_step import RecordedStep
from lossleuth.findings.update import UpdateTruth
from lossleuth.observe.patches.hooks import Hooks
from lossleuth.observe.session import Session
from lossleuth.observe.steps.observer import Observer
from lossleuth.observe.steps.pacing import Pacing
from lossleuth.probes.analysis import RunMemory
from lossleuth.probes.run import run_probes
from lossleuth.record.recorded_steps import recorded_steps
from lossleuth.record.write import RecordWriter
from lossleuth.tape.capture.recorder import Recorder
from lossleuth.tape.window import Window


def taped(
    folder: Path,
    steps: tuple[int, ...],
    count: int = 5,
    program: Callable[[], list[float]] | None = None,
) -> tuple[list[float], Observer]:
    session = Session()
    observer = Observer(lambda: RecordWriter.create(folder, {}, print), session, steps)
    hooks = Hooks(observer)
    hooks.install()
    try:
        losses = train(count) if program is None else program()
    finally:
        observer.finish({"how": "test"})
        session.close()
    return losses, observer


def found_in(folder: Path) -> list[RecordedStep]:
    """Steps of the record of which everything was looked at, all without an error."""
    found = recorded_steps(read(folder), ["tape"])
    assert not any(step.errored for step in found)
    return found


def truths(step: RecordedStep) -> list[GradientTruth]:
    """Of every backward pass: none of them is untested."""
    assert step.reasons(GradientTruth) == []
    return step.all(GradientTruth)


def test_chosen_steps_are_looked_at_and_no_loss_changes(tmp_path: Path) -> None:
    bare = train(5)
    losses, observer = taped(tmp_path / "run", (1, 3))
    assert losses == bare
    assert observer.session.failures.count == 0
    found = found_in(tmp_path / "run")
    assert [step.step for step in found] == [1, 3]
    (truth,) = truths(found[0])
    names = {row.name for row in truth.parameters}
    assert names == {"0.weight", "1.weight", "1.bias"}
    assert truth.error < 10 * truth.floor


def test_our_own_derivatives_and_updates_are_not_taken_for_the_programs(tmp_path: Path) -> None:
    taped(tmp_path / "run", (1, 2, 3))
    record = read(tmp_path / "run")
    assert record.steps.tolist() == [0, 1, 2, 3, 4]
    assert set(record.series("backwards")) == {1}
    assert set(record.series("updates")) == {1}
    assert record.events("settings")[-1].data["idle_optimizers"] == []
    # 4 rows of 5 targets each: cross-entropies of our own are not counted.
    assert set(record.series("supervised")) == {20}


def test_the_mode_is_gone_afterwards(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    taped(tmp_path / "run", (1, 2, 4))
    assert _get_current_dispatch_mode_stack() == []


def test_optimizers_that_step_in_turn_make_one_step_also_where_the_next_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows: list[Window] = []

    def look(window: Window, memory: RunMemory) -> RecordedStep:
        windows.append(window)
        return run_probes(window, memory)

    monkeypatch.setattr("lossleuth.observe.steps.recording.run_probes", look)

    def alternating() -> list[float]:
        torch.manual_seed(0)
        a, b = torch.nn.Parameter(torch.randn(4)), torch.nn.Parameter(torch.randn(4))
        one, two = torch.optim.SGD([a], lr=0.1), torch.optim.Adam([b], lr=0.1)
        losses = []
        for _ in range(4):
            loss = (a * b).square().sum()
            one.zero_grad()
            two.zero_grad()
            loss.backward()
            one.step()
            two.step()
            losses.append(loss.item())
        return losses

    bare = alternating()
    losses, observer = taped(tmp_path / "run", (0, 1, 2), program=alternating)
    assert losses == bare and observer.session.failures.count == 0
    found = found_in(tmp_path / "run")
    assert [step.step for step in found] == [0, 1, 2]
    assert len(windows) == 3
    for window in windows:
        # The second update belongs to the step before, and nothing else writes.
        forward = window.tape.operations[: window.backwards[0].at]
        assert forward and not any(operation.written for operation in forward)
    for step in found:
        assert len(step.all(UpdateTruth)) == 2 and step.reasons(UpdateTruth) == []
        (truth,) = truths(step)
        assert len(truth.parameters) == 2 and truth.error < 10 * truth.floor + 1e-9


@pytest.mark.parametrize("broken", ["begin_backward", "end_backward", "before_update"])
def test_a_failure_of_ours_ends_the_recording_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    bare = train(5)

    def fail(*_args: object, **_more: object) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(Recorder, broken, fail)
    losses, observer = taped(tmp_path / "run", (1,))
    assert losses == bare
    assert observer.session.failures.count == 1
    assert read(tmp_path / "run").events("tape") == []


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("steps", [(2,), (1, 2, 3)])
def test_a_forward_of_bare_functions_is_recorded_where_updates_are_by_hand(
    tmp_path: Path, steps: tuple[int, ...], parts: int
) -> None:
    """As tutorials write it: no module, no optimizer, an index into a table; also accumulated."""

    def bare() -> list[float]:
        torch.manual_seed(0)
        table, head = torch.randn(7, 5, requires_grad=True), torch.randn(5, 7, requires_grad=True)
        losses = []
        for _ in range(5):
            for parameter in (table, head):
                parameter.grad = None
            for _ in range(parts):
                tokens = torch.randint(0, 7, (4, 6))
                scores = torch.tanh(table[tokens[:, :-1]]) @ head
                loss = torch.nn.functional.cross_entropy(
                    scores.flatten(0, 1), tokens[:, 1:].flatten()
                )
                (loss / parts).backward()
            for parameter in (table, head):
                assert parameter.grad is not None
                parameter.data += -0.1 * parameter.grad
            losses.append(loss.item())
        return losses

    expected = bare()
    losses, observer = taped(tmp_path / "run", steps, program=bare)
    assert losses == expected and observer.session.failures.count == 0
    found = found_in(tmp_path / "run")
    assert [step.step for step in found] == list(steps)
    for step in found:
        assert len(truths(step)) == parts
        for truth in truths(step):
            assert len(truth.parameters) == 2
            assert truth.error < 10 * truth.floor
        assert [stale.share for stale in step.all(StaleGradient)] == [0]


def test_no_window_opens_inside_inference_mode(tmp_path: Path) -> None:
    session = Session()
    observer = Observer(lambda: RecordWriter.create(tmp_path / "run", {}, print), session, (0, 1))
    with torch.inference_mode():
        observer.recording.begin(1)
    assert observer.recording.capture is None


def evaluating(
    mode: Any, steps: tuple[int, ...], folder: Path
) -> tuple[list[RecordedStep], Session]:
    """Train with an evaluation after each update, in a mode without gradients."""
    session = Session()
    observer = Observer(lambda: RecordWriter.create(folder, {}, print), session, steps)
    hooks = Hooks(observer)
    hooks.install()
    try:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(5):
            x = torch.randint(0, 11, (4, 6))
            logits = model(x[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with mode():
                model(x).sum().item()
    finally:
        observer.finish({"how": "test"})
        session.close()
    return found_in(folder), session


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_evaluation_between_steps_is_no_obstacle(mode: Any, tmp_path: Path) -> None:
    found, session = evaluating(mode, (1, 3), tmp_path / "run")
    assert session.failures.count == 0
    assert [step.step for step in found] == [1, 3]
    for step in found:
        (truth,) = truths(step)
        assert truth.error < 10 * truth.floor


def test_the_very_first_step_can_be_recorded(tmp_path: Path) -> None:
    taped(tmp_path / "run", (0,))
    (step,) = found_in(tmp_path / "run")
    assert step.step == 0
    assert truths(step)[0].error < 1e-5


def test_backward_hooks_of_modules_are_named(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 3)
    module.register_full_backward_hook(lambda _m, gradients, _o: (gradients[0] * 2,))
    session = Session()
    folder = tmp_path / "run"
    observer = Observer(lambda: RecordWriter.create(folder, {}, print), session, (1,))
    hooks = Hooks(observer)
    hooks.install()
    try:
        first = torch.nn.Linear(3, 3)
        optimizer = torch.optim.SGD([*first.parameters(), *module.parameters()], lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            module(first(torch.ones(2, 3))).square().sum().backward()
            optimizer.step()
    finally:
        observer.finish({"how": "test"})
        session.close()
    (step,) = found_in(folder)
    assert truths(step)[0].error > 0.1
    assert any(__file__ in place for hook in step.all(BackwardHook) for place in hook.places)


def test_a_backward_that_fails_is_the_programs_and_leaves_nothing_of_ours(tmp_path: Path) -> None:
    session = Session()
    folder = tmp_path / "run"
    observer = Observer(lambda: RecordWriter.create(folder, {}, print), session, (1,))
    hooks = Hooks(observer)
    hooks.install()
    try:
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for step in range(4):
            loss = weight.square().sum()
            if step == 1:
                loss.backward(retain_graph=False)
                with pytest.raises(RuntimeError, match="second time"):
                    loss.backward()
            else:
                loss.backward()
            optimizer.step()
    finally:
        observer.finish({"how": "test"})
        session.close()
    assert session.failures.count == 0
    assert len(read(folder)) == 4
    assert read(folder).events("tape") == []
    assert observer.recording.capture is None


def test_a_later_optimizer_begins_a_phase_whose_steps_are_looked_at_too(tmp_path: Path) -> None:
    def phases() -> list[float]:
        return [loss for count in (24, 12, 2) for loss in train(count)]

    _, observer = taped(tmp_path / "run", (1,), program=phases)
    assert observer.session.failures.count == 0
    found = [step.step for step in found_in(tmp_path / "run")]
    # An optimizer made after 24 steps is made before step 24, the first of its own is 24 + 1.
    assert found == [1, 24, 31, 36]


def test_without_steps_to_look_at_no_phase_is_looked_at(tmp_path: Path) -> None:
    _, observer = taped(tmp_path / "run", ())
    observer.recording.wanted.new_phase(100)
    observer.recording.begin(101)
    assert observer.recording.window is None


def test_of_some_steps_the_loss_alone_is_measured(tmp_path: Path) -> None:
    bare = train(5)
    session = Session()
    observer = Observer(
        lambda: RecordWriter.create(tmp_path / "run", {}, print), session, (1,), loss_steps=(1, 3)
    )
    hooks = Hooks(observer)
    hooks.install()
    try:
        losses = train(5)
    finally:
        observer.finish({"how": "test"})
        session.close()
    assert losses == bare and session.failures.count == 0
    whole, alone = recorded_steps(read(tmp_path / "run"))
    assert (whole.step, whole.part) == (1, "tape") and truths(whole)
    assert (alone.step, alone.part) == (3, "true_loss")
    assert [type(finding) for finding in alone.findings] == [TrueLoss]
    measured = alone.first(TrueLoss)
    assert measured is not None and measured.loss == pytest.approx(bare[3], rel=1e-6)


def test_paced_steps_are_recorded_in_every_phase_from_its_first_on(tmp_path: Path) -> None:
    def phases() -> list[float]:
        return [loss for count in (24, 24) for loss in train(count)]

    bare = phases()
    session = Session()
    observer = Observer(
        lambda: RecordWriter.create(tmp_path / "run", {}, print), session, pacing=Pacing(1e6)
    )
    hooks = Hooks(observer)
    hooks.install()
    try:
        losses = phases()
    finally:
        observer.finish({"how": "test"})
        session.close()
    assert losses == bare and session.failures.count == 0
    found = recorded_steps(read(tmp_path / "run"))
    assert [step.step for step in found] == [0, 1, 4, 16, 24, 25, 28, 40]
    # The model of the second phase is made after the last update of the first: it is a leaf.
    for step in found:
        true = step.first(TrueLoss)
        assert true is not None and true.loss == pytest.approx(bare[step.step], rel=1e-6)
        (truth,) = truths(step)
        assert truth.error <= 10 * truth.floor


@pytest.mark.parametrize("asked", [(), (24,)])
def test_the_first_step_of_a_phase_begins_when_its_model_is_there(
    tmp_path: Path, asked: tuple[int, ...]
) -> None:
    kinds: dict[int, list[str]] = {}

    def look(window: Window) -> RecordedStep:
        kinds[window.step] = [str(operation.kind) for operation in window.tape.operations]
        return RecordedStep(window.step)

    session = Session()
    observer = Observer(
        lambda: RecordWriter.create(tmp_path / "run", {}, print), session, asked, pacing=Pacing(1e6)
    )
    observer.recording._look = look
    hooks = Hooks(observer)
    hooks.install()
    try:
        train(24)
        train(4)
    finally:
        observer.finish({"how": "test"})
        session.close()
    # Its batch is drawn within the step, its weights before it.
    assert "randint" in kinds[24][0]
    assert not any("uniform" in kind or "normal" in kind for kind in kinds[24])


def test_of_a_long_evaluation_before_a_recorded_step_only_the_end_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lossleuth.observe.steps.evaluations.MAX_OPERATIONS", 200)
    sizes: list[int] = []

    def look(window: Window, memory: RunMemory) -> RecordedStep:
        sizes.append(len(window.tape.operations))
        return run_probes(window, memory)

    monkeypatch.setattr("lossleuth.observe.steps.recording.run_probes", look)

    def evaluating() -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(11, 8), torch.nn.Linear(8, 11))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        tokens, losses = torch.randint(11, (4, 6)), []
        for _ in range(3):
            scores = model(tokens[:, :-1]).flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(scores, tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            with torch.no_grad():
                for _ in range(500):
                    model(tokens)
        return losses

    bare = evaluating()
    losses, observer = taped(tmp_path / "run", (1,), program=evaluating)
    assert losses == bare
    assert observer.session.failures.count == 0
    (step,) = found_in(tmp_path / "run")
    assert truths(step)
    assert sizes[0] < 400
