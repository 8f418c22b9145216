"""Faults are found by walking, are planted in order, and know their lines."""

from __future__ import annotations

import pytest
from small_hosts import losses, small

from lossleuth.catalogue import causes
from lossleuth.labs.lab.cells import HOSTS, INVENTED, PAIRS, sound
from lossleuth.labs.lab.programs.planting import SGD_RATE, Planted, asked, fault_of, faults, planted
from lossleuth.types.errors import BadInput

FAULTY = sorted(set(faults()) - set(sound()))


def test_every_cause_has_a_fault_and_the_rest_is_invented_or_sound() -> None:
    assert set(faults()) == {cause.id for cause in causes()} | {*INVENTED, *sound()}


@pytest.mark.parametrize("name", sound())
def test_what_is_sound_says_so_and_has_no_wrong_line(name: str) -> None:
    assert (fault_of(name).plant.__doc__ or "").endswith(".")
    assert not any(fault_of(name).lines(host) for host in HOSTS)


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_says_what_it_is_and_where_in_every_host(name: str) -> None:
    fault = fault_of(name)
    assert (fault.plant.__doc__ or "").endswith(".")
    for host in HOSTS:
        lines = fault.lines(host)
        assert bool(lines) is (host not in fault.unfit), host
        first = fault.source.splitlines()[0].strip()
        assert first.startswith("@fault")
    source = fault.file.read_text(encoding="utf-8").splitlines()
    assert all(source[line - 1].strip() for host in HOSTS for line in fault.lines(host))


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_in_the_file_of_its_stage(name: str) -> None:
    stages = {cause.id: cause.stage.value for cause in causes()}
    assert fault_of(name).file.stem == f"{stages.get(name, 'invented')}_faults"


def test_a_dose_is_on_its_ladder_and_ladders_go_one_way_from_plain_to_hardly_there() -> None:
    for fault in faults().values():
        if fault.ladder:
            assert fault.dose in fault.ladder, fault.id
            assert len(set(fault.ladder)) == len(fault.ladder)


def test_a_fault_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BadInput, match="lr_too_purple"):
        fault_of("lr_too_purple")


def test_the_command_line_chooses_settings_faults_and_doses() -> None:
    words = ["--steps", "7", "--seed", "3", "--rule", "sgd", "--fault", "lr_too_low"]
    found = asked(small("plain"), "A program.", [*words, "--dose=0.5"])
    assert (found.settings.steps, found.settings.seed) == (7, 3)
    assert found.settings.rate == SGD_RATE
    model = found.model(found.settings)
    assert found.optimizer(model, found.settings).param_groups[0]["lr"] == 0.5 * SGD_RATE


def test_without_a_fault_the_parts_stay_as_they_are() -> None:
    parts = small("plain")
    assert planted(parts, []) is parts
    assert asked(parts, "A program.", []).loss is parts.loss


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_each_of_two_faults_still_does_something_beside_the_other(pair: tuple[str, str]) -> None:
    both = losses("plain", *pair)
    assert both != losses("plain", pair[0]) and both != losses("plain", pair[1])


def test_two_faults_are_both_in() -> None:
    chosen = [Planted(fault_of("label_offset"), 0), Planted(fault_of("lr_too_high"), None)]
    parts = small("plain")
    found = planted(parts, chosen)
    assert found.batches is not parts.batches and found.optimizer is not parts.optimizer
