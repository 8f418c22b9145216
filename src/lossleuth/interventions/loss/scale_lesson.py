"""What a teacher asks of its student made larger or smaller; 0 is to go without the teacher.

Labels ask what they asked before. Without a teacher in the loss nothing is changed.
"""

from __future__ import annotations

from lossleuth.interventions.gradient.follow_true_gradient import put_gradients
from lossleuth.interventions.intervention import Intervention
from lossleuth.probes.distillation.teacher_loss_replay import TeacherLossReplay, find_lesson
from lossleuth.tape.roles.roles import roles_of
from lossleuth.tape.window import Backward, Window


class ScaleLesson(Intervention):
    """Multiply the part of the gradient that comes from the comparison with the teacher."""

    wants_tape = True

    def __init__(self, factor: float) -> None:
        self._factor = float(factor)

    def backward_ends(self, window: Window | None, run: Backward | None) -> None:
        """Replace autograd's gradient by the one with the scaled part."""
        if window is None or run is None or run.returned:
            return
        lesson = find_lesson(window, roles_of(window.tape, run))
        if lesson is not None:
            found = TeacherLossReplay(window, lesson).retaught(
                lambda _, __, asked: asked * self._factor
            )
            put_gradients(window, run, found)
