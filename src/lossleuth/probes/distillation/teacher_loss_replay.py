"""Replay a teacher loss with other logits: which gradient it gives the student.

Everything else stays as it was recorded, and what labels ask of the same scores is kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.find_teacher import Lesson, Side, find_lessons
from lossleuth.tape.roles.roles import Roles
from lossleuth.tape.window import Backward, Gradients, Window

Given = dict[int, Callable[[int, Tensor], Tensor]]


class TeacherLossReplay:
    """The teacher loss of a recorded step, replayed with other logits."""

    def __init__(self, window: Window, lesson: Lesson) -> None:
        self._tape, self._lesson, self._run = window.tape, lesson, lesson.run
        self._roots = [root for root in lesson.run.roots if root is not None]
        self._operations = self._tape.needed_for(self._roots, lesson.run.at)

    def recorded(self, *, dropout: bool = True) -> tuple[Tensor, Tensor]:
        """The student's and the teacher's scores as they were compared."""
        sides = self._lesson.student, self._lesson.teacher
        student, teacher = (self.scores(side, dropout=dropout) for side in sides)
        return student, teacher

    def scores(self, side: Side, inputs: Given | None = None, *, dropout: bool = True) -> Tensor:
        """The scores of one side, perhaps of another input."""
        replay = Replay(self._tape, gradients=False, dropout=dropout)
        made = replay.run([side.scores], before=side.at, inputs=inputs)
        return made[side.scores].detach().double().clone()

    def gradient(self, student: Tensor, teacher: Tensor | None = None) -> Tensor:
        """What the lesson asks of the student's scores, were they and the teacher's these."""
        leaf = student.detach().double().clone().requires_grad_()
        inputs = self._for_the_lesson(self._lesson.student.scores, leaf)
        if teacher is not None:
            given = teacher.detach().double()
            inputs |= self._for_the_lesson(self._lesson.teacher.scores, given)
        return self._differentiated(leaf, inputs)

    def demands(self) -> tuple[Tensor, Tensor, Tensor]:
        """The student's logits, what the lesson asks of them, and what all the rest does."""
        number = self._lesson.student.logits
        maker = self._tape.makers().get(number)
        before = 0 if maker is None else maker.number + 1
        made = Replay(self._tape, gradients=False).run([number], before=before)[number]
        leaf = made.detach().double().clone().requires_grad_()
        lesson = self._differentiated(leaf, self._for_the_lesson(number, leaf))
        whole = self._differentiated(leaf, {number: lambda _, __: leaf})
        return leaf.detach(), lesson, whole - lesson

    def _differentiated(self, leaf: Tensor, inputs: Given) -> Tensor:
        with torch.inference_mode(mode=False):
            made = Replay(self._tape).run(self._roots, before=self._run.at, inputs=inputs)
            total = torch.stack([made[root].sum() for root in self._roots]).sum()
            if not total.requires_grad:
                return torch.zeros_like(leaf)
            (found,) = torch.autograd.grad(total, leaf, allow_unused=True)
        return torch.zeros_like(leaf) if found is None else found.detach()

    def _frontier(self, start: int) -> dict[int, int]:
        """Tensors that the lesson alone takes up from what labels see too; when first."""
        made = {start}
        found: dict[int, int] = {}
        for op in self._operations:
            used = [i for i in op.inputs if i in made]
            if not used:
                continue
            if op.number in self._lesson.own:
                for i in used:
                    found.setdefault(i, op.number)
            else:
                made.update(o for o in op.outputs if o is not None)
        return found

    def _for_the_lesson(self, start: int, value: Tensor) -> Given:
        """Put a value in the place of a tensor, as far as the lesson is concerned."""
        frontier = self._frontier(start)
        values = {start: value}
        wanted = [i for i in frontier if i != start]
        if wanted:
            # Beyond what labels see too, the lesson gets what would be made of the value.
            whole: Given = {start: lambda _, __: value}
            last = max(frontier.values())
            values |= Replay(self._tape).run(wanted, before=last, inputs=whole)
        own = self._lesson.own

        def put(number: int) -> Callable[[int, Tensor], Tensor]:
            return lambda op, tensor: values[number].reshape(tensor.shape) if op in own else tensor

        return {number: put(number) for number in frontier}

    def retaught(self, ask: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Gradients:
        """The gradient of all that is trained, were the lesson another.

        `ask` gets the student's and the teacher's scores and what the lesson asks of the first,
        and says what it should ask.
        """
        tape, run = self._tape, self._run
        scores, teacher_scores = self._lesson.student.scores, self._lesson.teacher.scores
        replay = Replay(tape)
        with torch.inference_mode(mode=False):
            leaves = {i: replay.leaf(tape.value(i)) for i in run.before}
        taken: dict[int, Tensor] = {}

        def take(number: int) -> Callable[[int, Tensor], Tensor]:
            def given(op: int, tensor: Tensor) -> Tensor:
                if op not in self._lesson.own:
                    return tensor
                return taken.setdefault(number, tensor.view_as(tensor))

            return given

        inputs = {number: take(number) for number in self._frontier(scores)}
        kept = [scores, teacher_scores]
        made = replay.run(self._roots, before=run.at, leaves=leaves, inputs=inputs, kept=kept)
        roots = [made[root] for root in self._roots]
        seeds = _seeds(run, roots)
        asked = _pulled_back(roots, seeds, list(taken.values()), made[scores])
        wanted = ask(made[scores].detach(), made[teacher_scores].detach(), asked)
        outputs = [*roots, made[scores]]
        differentiable = [
            (o, s)
            for o, s in zip(outputs, [*seeds, wanted - asked], strict=True)
            if o.requires_grad
        ]
        found = torch.autograd.grad(
            [o for o, _ in differentiable],
            list(leaves.values()),
            [s for _, s in differentiable],
            allow_unused=True,
        )
        return dict(zip(leaves, found, strict=True))


def _pulled_back(
    roots: list[Tensor], seeds: list[Tensor], taken: list[Tensor], scores: Tensor
) -> Tensor:
    """What the roots ask of some scores, through the tensors that were taken up."""
    if not taken:
        return torch.zeros_like(scores)
    given = torch.autograd.grad(roots, taken, seeds, retain_graph=True, allow_unused=True)
    pairs = [(t, g) for t, g in zip(taken, given, strict=True) if g is not None]
    if not pairs:
        return torch.zeros_like(scores)
    (asked,) = torch.autograd.grad(
        [t for t, _ in pairs],
        scores,
        [g for _, g in pairs],
        retain_graph=True,
        allow_unused=True,
    )
    return torch.zeros_like(scores) if asked is None else asked


def _seeds(run: Backward, roots: list[Tensor]) -> list[Tensor]:
    given = [seed for root, seed in zip(run.roots, run.seeds, strict=True) if root is not None]
    return [
        torch.ones_like(root) if seed is None else seed.to(root.dtype)
        for root, seed in zip(roots, given, strict=True)
    ]


def find_lesson(window: Window, roles: Roles | None) -> Lesson | None:
    """The teacher loss in a backward pass; None if there is no teacher.

    Where nobody has labels and both are trained, it is the student who is drawn to the other.
    """
    found = find_lessons(window, roles)
    return min(found, key=lambda lesson: _reluctance(window, lesson)) if found else None


def _reluctance(window: Window, lesson: Lesson) -> float:
    """How far the student is from being drawn straight to the teacher: the sine of that angle."""
    if lesson.has_labels or not lesson.teacher.requires_grad:
        return 0.0
    replay = TeacherLossReplay(window, lesson)
    student, teacher = replay.recorded()
    if student.shape != teacher.shape:
        return 1.0
    wanted = student.softmax(-1) - teacher.softmax(-1)
    asked = replay.gradient(student)
    product = float(asked.norm() * wanted.norm())
    cosine = float((asked * wanted).sum()) / product if product else 0.0
    return math.sqrt(max(0.0, 1 - cosine**2))
