"""When memory can be let go."""

from __future__ import annotations

from steps import recorded_step

from lossleuth.tape.replay.liveness import endings, plan_at, plan_for
from lossleuth.tape.replay.replay import Replay
from lossleuth.tape.roles.roles import find_roles


def test_nothing_is_let_go_before_its_last_use_and_everything_after() -> None:
    window = recorded_step()
    tape, roles = window.tape, find_roles(window)
    assert roles is not None and roles.scores is not None
    operations = tape.needed_for([roles.scores], roles.scores_at)
    found = endings(tape, operations, [roles.scores])
    gone: set[int] = set()
    for operation in operations:
        used = {*operation.inputs, *(o for o in operation.outputs if o is not None)}
        assert not gone & {tape.groups[i] for i in used}
        gone.update(found.get(operation.number, ()))
    everything = {tape.groups[i] for op in operations for i in (*op.inputs, *op.outputs)}
    assert gone == everything - {tape.groups[roles.scores]}


def test_what_is_wanted_is_kept() -> None:
    window = recorded_step()
    roles = find_roles(window)
    assert roles is not None and roles.scores is not None and roles.logits is not None
    made = Replay(window.tape, gradients=False).run(
        [roles.logits, roles.scores], before=roles.scores_at
    )
    assert made[roles.logits].numel() == made[roles.scores].numel()


def test_what_is_looked_at_on_the_way_is_kept_until_then_and_no_longer() -> None:
    window = recorded_step()
    tape, roles = window.tape, find_roles(window)
    assert roles is not None and roles.scores is not None and roles.scores_at is not None
    operations = tape.needed_for([roles.scores], roles.scores_at)
    early = next(o for op in operations for o in op.outputs if o is not None)
    plan = plan_at(tape, {roles.scores_at: [roles.scores, early]})
    gone = {group for groups in plan.endings.values() for group in groups}
    assert set(plan.endings_at_points) == {roles.scores_at}
    at_point = set(plan.endings_at_points[roles.scores_at])
    assert at_point == {tape.groups[roles.scores], tape.groups[early]}
    assert not gone & at_point
    assert list(plan.operations) == operations


def test_a_plan_is_made_once_and_again_when_the_tape_has_changed() -> None:
    window = recorded_step()
    tape, roles = window.tape, find_roles(window)
    assert roles is not None and roles.scores is not None
    plan = plan_for(tape, {roles.scores}, roles.scores_at, 0)
    assert plan_for(tape, [roles.scores], roles.scores_at, 0) is plan
    tape.replace_operation(tape.operations[0])
    assert plan_for(tape, {roles.scores}, roles.scores_at, 0) is not plan
