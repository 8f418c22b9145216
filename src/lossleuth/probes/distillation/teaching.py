"""Teacher quality, teacher input, and the gradient of the teacher loss.

The lesson is judged as a function: wherever it comes from, it has to be at rest where the student
says what the teacher says. The teacher is judged by its own loss on the student's targets.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn import functional as F

from lossleuth.findings.distillation import TeacherQuality, Teaching
from lossleuth.probes.distillation.teacher_loss_replay import TeacherLossReplay, find_lesson
from lossleuth.probes.distillation.teacher_quality import (
    is_distribution,
    known_by,
    log_probabilities,
)
from lossleuth.probes.loss.true_loss import targets_by_place
from lossleuth.probes.probe import Probe
from lossleuth.probes.update.owners import held_by_optimizers
from lossleuth.tape.replay.errors import CannotReplay
from lossleuth.tape.roles.find_teacher import Lesson
from lossleuth.tape.roles.loss_roles import best_roles
from lossleuth.tape.roles.roles import Roles, recorded_value
from lossleuth.tape.roles.row_places import sent
from lossleuth.tape.roles.tokens import tokens_behind
from lossleuth.tape.window import Window, dense

# Temperatures at which the same batch is measured again.
TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
# Parameters that a finding names: as many as a sentence holds.
MAX_NAMES = 4


def teaching(window: Window, roles: Roles | None) -> Teaching | None:
    """Measure the teacher loss of a step; None if there is no teacher."""
    lesson = find_lesson(window, roles)
    if lesson is None:
        return None
    replay = TeacherLossReplay(window, lesson)
    student, teacher = replay.recorded()
    rows = student.numel() // student.shape[-1]
    maker = window.tape.makers().get(lesson.teacher.logits)
    share, names, whole = _moved_target(window, lesson)
    common = {
        "made_at": None if maker is None or maker.place is None else str(maker.place),
        "teacher_at": lesson.teacher.place,
        "student_at": lesson.student.place,
        "mixed_at": lesson.mixed_at,
        "classes": lesson.classes,
        "has_labels": lesson.has_labels,
        "student_temperature": _temperature(lesson.student.factor),
        "teacher_temperature": _temperature(lesson.teacher.factor),
        "target_share": share,
        "target_parameters": names,
        "target_whole": whole,
        "micro_batches": len(window.backwards),
    }
    if student.shape != teacher.shape:
        reason = f"the student's scores are {tuple(student.shape)}, the teacher's differ"
        return Teaching(**common, **_unknown(reason))  # type: ignore[arg-type]  # by name
    targets = _targets(window, lesson, rows)
    asked = replay.gradient(student)
    weight, fit = _weight(student, teacher, asked)
    pull, to_labels = _pull(replay, lesson, teacher, asked, targets)
    label_weight = _label_weight(window, replay)
    same, other = _input(window, lesson, replay, targets)
    own = replay.scores(lesson.teacher, dropout=False)
    return Teaching(
        **common,  # type: ignore[arg-type]  # by name
        pull_at_goal=pull,
        pull_to_labels=to_labels,
        weight=weight,
        weight_fit=fit,
        label_weight=label_weight,
        dropout=_divergence(log_probabilities(own), log_probabilities(teacher)),
        same_input=same,
        levels=_levels(lesson, student, teacher),
        knowledge=_knowledge(lesson, student, own, targets),
        with_same_input=other,
    )


def _unknown(reason: str) -> dict[str, object]:
    names = (
        *("pull_at_goal", "pull_to_labels", "weight", "weight_fit", "label_weight"),
        *("dropout", "same_input"),
    )
    return {**dict.fromkeys(names), "levels": {}, "incomparable": reason}


def _temperature(factor: float | None) -> float | None:
    return None if not factor else 1 / factor


def _moved_target(window: Window, lesson: Lesson) -> tuple[float, tuple[str, ...], bool]:
    """How much of the gradient moves the target itself, what of it, and whether all of it."""
    if not lesson.teacher.requires_grad:
        return 0.0, (), False
    tape, run = window.tape, lesson.run
    makers = tape.makers()
    behind: list[set[int]] = []
    for side in (lesson.teacher, lesson.student):
        operations = tape.needed_for([side.scores], side.at)
        behind.append({i for op in operations for i in op.inputs if i in run.before})
    only = behind[0] - behind[1]
    added = run.added()
    sizes = {i: float(dense(g).square().sum()) for i, g in added.items() if g is not None}
    whole = sum(sizes.values())
    held = held_by_optimizers()
    # A parameter in no optimizer gets a gradient but no update.
    only = {i for i in only if id(tape.leaves[i]) in held}
    moved = {i: sizes.get(i, 0.0) for i in only if sizes.get(i, 0.0) > 0}
    if not whole or lesson.teacher.logits not in makers:
        return 0.0, (), False
    operations = tape.needed_for([lesson.teacher.scores], lesson.teacher.at)
    used = {i for op in operations for i in op.inputs if i in tape.leaves}
    fixed = [i for i in used if isinstance(tape.leaves[i], Parameter) and i not in run.before]
    largest = sorted(moved, key=lambda i: -moved[i])[:MAX_NAMES]
    names = tuple(window.name_of(i) for i in largest)
    return sum(moved.values()) / whole, names, not fixed


def _targets(window: Window, lesson: Lesson, rows: int) -> Tensor | None:
    """For each row of the lesson its place among the tokens, and what is true of all places."""
    roles = best_roles(window)
    if roles is None:
        return None
    try:
        by_place = targets_by_place(window, roles)
        shape = window.tape.layouts[lesson.student.logits].shape
        count = by_place.numel()
        if count * lesson.classes != torch.Size(shape).numel():
            return None
        side = lesson.student
        moved = sent(window, side.logits, count, side.scores, side.at)
    except CannotReplay:
        return None
    # Numbers of rows are scaled as the logits are.
    places = moved.reshape(rows, -1).median(-1).values / (side.factor or 1.0)
    near = places.round()
    if bool(((places - near).abs() > 1e-6 * count).any() or (near < 0).any()):
        return None
    at = near.long().clamp(max=count - 1)
    padded = torch.full((by_place.shape[0], by_place.shape[1] + 4), -100)
    padded[:, 2:-2] = by_place
    row, column = at // by_place.shape[1], at % by_place.shape[1]
    # The target of a row, and of the places up to two before and after it.
    return torch.stack([padded[row, column + 2 + offset] for offset in range(-2, 3)])


def _knowledge(
    lesson: Lesson, student: Tensor, teacher: Tensor, targets: Tensor | None
) -> TeacherQuality | None:
    if targets is None:
        return None
    ours = student / (lesson.student.factor or 1.0)
    return known_by(plain_scores(teacher, lesson), ours, targets)


def plain_scores(teacher: Tensor, lesson: Lesson) -> Tensor:
    """The teacher's logits at temperature 1, whether given as logits or as probabilities."""
    return (
        log_probabilities(teacher)
        if is_distribution(teacher)
        else teacher / (lesson.teacher.factor or 1.0)
    )


def _divergence(one: Tensor, other: Tensor) -> float:
    """Mean divergence of the second from the first in nats."""
    share = one.exp()
    return float(torch.where(share > 0, share * (one - other), 0.0).sum(-1).mean())


def _weight(student: Tensor, teacher: Tensor, asked: Tensor) -> tuple[float | None, float | None]:
    """What multiplies the divergence of each position, and the cosine of that fit."""
    wanted = torch.softmax(student, -1) - log_probabilities(teacher).exp()
    used = asked.flatten(0, -2).abs().sum(-1) > 0
    rows = int(used.sum())
    square, size = float(wanted.flatten(0, -2)[used].square().sum()), float(asked.norm())
    if not rows:
        return 0.0, None
    dot = float((asked * wanted).sum())
    if not square or not size:
        return None, None
    return dot / square * rows, dot / (square**0.5 * size)


def _pull(
    replay: TeacherLossReplay,
    lesson: Lesson,
    teacher: Tensor,
    asked: Tensor,
    targets: Tensor | None,
) -> tuple[float | None, float | None]:
    """What is asked for at the goal, against now; the part of it that pulls to the labels."""
    size, factor = float(asked.norm()), lesson.student.factor or 1.0
    if not size:
        return None, None
    goal = plain_scores(teacher, lesson) * factor
    if not bool(torch.isfinite(goal).all()):
        return None, None
    there = replay.gradient(goal)
    if not bool(torch.isfinite(there).all()):
        return None, None
    pull = float(there.norm()) / size
    if targets is None or not pull:
        return pull, None
    own = targets[2]
    known = own >= 0
    here, asked_here = goal.flatten(0, -2)[known], there.flatten(0, -2)[known]
    towards = here.softmax(-1) - F.one_hot(own[known], here.shape[-1])
    product = float(towards.norm() * asked_here.norm())
    return pull, float((towards * asked_here).sum()) / product if product else 0.0


def _label_weight(window: Window, replay: TeacherLossReplay) -> float | None:
    """What multiplies the cross-entropy of a position."""
    logits, _, rest = replay.demands()
    roles = best_roles(window)
    if roles is None or not float(rest.norm()):
        return None
    try:
        targets = targets_by_place(window, roles).reshape(-1)
    except CannotReplay:
        return None
    flat, asked = logits.flatten(0, -2), rest.flatten(0, -2)
    known = (targets >= 0) & (asked.abs().sum(-1) > 0) if len(targets) == len(flat) else None
    if known is None or not bool(known.any()):
        return None
    wanted = flat[known].softmax(-1) - F.one_hot(targets[known], flat.shape[-1])
    return float((wanted * asked[known]).sum() / wanted.square().sum()) * len(wanted)


def _input(
    window: Window, lesson: Lesson, replay: TeacherLossReplay, targets: Tensor | None
) -> tuple[float | None, TeacherQuality | None]:
    """Whether the teacher sees what the student sees, and what it would know if it did."""
    tape = window.tape
    ours = tokens_behind(tape, lesson.student.logits, lesson.classes)
    theirs = tokens_behind(tape, lesson.teacher.logits, lesson.classes)
    if ours is None or theirs is None:
        return None, None
    seen, shown = recorded_value(tape, *ours), recorded_value(tape, *theirs)
    if seen.shape != shown.shape:
        return None, None
    same = float((seen == shown).double().mean())
    if same == 1 or targets is None:
        return same, None
    instead = {theirs[0]: lambda _, __: seen.to(shown.dtype)}
    try:
        student = replay.scores(lesson.student)
        corrected = replay.scores(lesson.teacher, instead, dropout=False)
    except CannotReplay:
        return same, None
    return same, _knowledge(lesson, student, corrected, targets)


def _levels(lesson: Lesson, student: Tensor, teacher: Tensor) -> dict[str, tuple[float, float]]:
    """The same batch at other temperatures: T²·divergence, and T²·gradient of the logits."""
    ours, theirs = student / (lesson.student.factor or 1.0), plain_scores(teacher, lesson)
    own = _temperature(lesson.teacher.factor) or 1.0
    found = {}
    for heat in sorted({*TEMPERATURES, own}):
        log_p_student, log_p_teacher = (
            (ours / heat).log_softmax(-1),
            (theirs / heat).log_softmax(-1),
        )
        length = float((log_p_student.exp() - log_p_teacher.exp()).norm(dim=-1).mean())
        found[f"{heat:g}"] = (heat**2 * _divergence(log_p_teacher, log_p_student), heat * length)
    return found


PROBE = Probe(Teaching, lambda a: teaching(a.window, a.roles))
