"""What probes of one step share."""

from __future__ import annotations

from steps import recorded_step

from lossleuth.probes.analysis import Analysis, RunMemory
from lossleuth.tape.roles.loss_roles import best_roles


def test_what_is_worked_out_is_kept_while_it_is_open_and_forgotten_afterwards() -> None:
    window = recorded_step()
    with Analysis(window) as analysis:
        assert analysis.loss_roles is best_roles(window)
        assert window.shared
    assert window.shared is None
    assert best_roles(window) is not best_roles(window)


def test_a_place_is_looked_for_until_it_is_found() -> None:
    memory, answers = RunMemory(), iter([None, "train.py:3", "train.py:9"])
    found = [memory.place("leak", lambda: next(answers)) for _ in range(3)]
    assert found == [None, "train.py:3", "train.py:3"]
    assert next(answers) == "train.py:9"
