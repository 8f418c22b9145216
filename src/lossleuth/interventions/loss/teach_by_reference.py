"""The comparison with a teacher replaced by the one that is right by construction.

That is T² times the divergence of the student from the teacher, both softened by the same
temperature, as a mean over the positions that the program compares, times a weight. Labels ask what
they asked before. Without a teacher in the loss nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lossleuth.interventions.gradient.follow_true_gradient import put_gradients
from lossleuth.interventions.intervention import Intervention
from lossleuth.probes.distillation.teacher_loss_replay import TeacherLossReplay, find_lesson
from lossleuth.probes.distillation.teaching import plain_scores
from lossleuth.tape.roles.find_teacher import Lesson
from lossleuth.tape.roles.roles import roles_of
from lossleuth.tape.window import Backward, Window


class TeachByReference(Intervention):
    """Ask of the student's scores what the reference divergence asks of them."""

    wants_tape = True

    def __init__(self, temperature: float = 1.0, weight: float = 1.0) -> None:
        self._temperature, self._weight = float(temperature), float(weight)

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Replace autograd's gradient by the one with the reference divergence in it."""
        if window is None or run is None or run.returned:
            return
        lesson = find_lesson(window, roles_of(window.tape, run))
        if lesson is not None and lesson.student.factor and lesson.teacher.factor:
            found = TeacherLossReplay(window, lesson).retaught(self._asking(lesson))
            put_gradients(window, run, found)

    def _asking(self, lesson: Lesson) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        factor, heat = lesson.student.factor or 1.0, self._temperature

        def ask(student: Tensor, teacher: Tensor, asked: Tensor) -> Tensor:
            if student.shape != teacher.shape:
                return asked
            p_student = (student / factor / heat).softmax(-1)
            p_teacher = (plain_scores(teacher, lesson) / heat).softmax(-1)
            used = (asked.abs().sum(-1, keepdim=True) > 0).to(asked.dtype)
            # A lesson that asks for nothing anywhere is given everywhere.
            used = used if bool(used.any()) else used + 1
            return self._weight * heat / factor * used * (p_student - p_teacher) / used.sum()

        return ask
