"""Every cause has a fault in every host, or a stated reason why not."""

from __future__ import annotations

import pytest

from lossleuth.catalogue import causes
from lossleuth.labs.lab.cells import (
    HOSTS,
    INVENTED,
    Cell,
    chosen,
    every,
    invented,
    oddities,
    pairs,
    peers,
    singles,
    sound,
    unfit,
)
from lossleuth.labs.lab.programs.planting import fault_of
from lossleuth.types.errors import BadInput


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("cause", causes(), ids=lambda c: c.id)
def test_every_cause_has_a_cell_in_every_host_or_a_reason(cause: object, host: str) -> None:
    name = str(getattr(cause, "id", ""))
    reason = unfit(fault_of(name), host)
    there = [c for c in singles() if (c.host, c.name) == (host, name)]
    assert len(there) == (reason is None)
    assert reason is None or reason.endswith(".")


def test_every_script_is_there_and_no_two_cells_have_one_name() -> None:
    assert all(cell.script.is_file() for cell in every())
    assert len({cell.id for cell in every()}) == len(every())


def test_there_are_seven_pairs_five_inventions_and_the_six_of_the_comparison() -> None:
    assert (len(pairs()), len(invented()), len(peers())) == (7, 5, 6)
    assert all(len(cell.wanted) == 2 for cell in pairs())
    assert all(cell.wanted == () and cell.faults for cell in invented())
    assert set(INVENTED).isdisjoint(cause.id for cause in causes())


def test_there_are_sound_programs_that_look_sick_and_nobody_is_wanted() -> None:
    assert len(oddities()) >= 20
    assert all(cell.wanted == () and cell.faults for cell in oddities())
    assert set(sound()).isdisjoint({*INVENTED, *(cause.id for cause in causes())})


def test_a_cell_becomes_a_command_line() -> None:
    cell = Cell("plain", "label_offset", ("label_offset",), -1.0, "sgd")
    expected = ["--rule", "sgd", "--fault", "label_offset", "--dose=-1"]
    assert cell.arguments == expected and cell.id == "plain/label_offset@-1"
    assert Cell("plain", "healthy").arguments == []


def test_cells_are_chosen_by_host_and_fault() -> None:
    assert chosen() == every()
    found = chosen(("hf_loop",), ("ascent", "lr_zero"))
    assert [(c.host, c.name) for c in found] == [("hf_loop", "ascent"), ("hf_loop", "lr_zero")]
    assert chosen(only_pairs=True, only_invented=True) == [*pairs(), *invented()]


@pytest.mark.parametrize(("hosts", "faults"), [(("plane",), ()), ((), ("lr_too_purple",))])
def test_what_is_not_there_is_refused(hosts: tuple[str, ...], faults: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match="give one of"):
        chosen(hosts, faults)
