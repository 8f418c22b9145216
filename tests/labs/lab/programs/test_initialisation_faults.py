"""Faulty first weights are what their faults say."""

from __future__ import annotations

import math

import pytest
from small_hosts import differs, losses, planted_in

from lossleuth.labs.lab.cells import HOSTS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("host", "name"), planted_in("initialisation_faults.py"))
def test_it_changes_what_the_host_does(host: str, name: str) -> None:
    assert differs(host, name)


@pytest.mark.parametrize("host", HOSTS)
def test_a_dead_network_stays_at_the_logarithm_of_the_vocabulary(host: str) -> None:
    found = losses(host, "dead_network")
    assert found == pytest.approx([math.log(64)] * len(found), abs=1e-5)


@pytest.mark.parametrize("host", HOSTS)
def test_larger_weights_begin_far_above_it(host: str) -> None:
    assert losses(host, "init_too_large", dose=30)[0] > math.log(64) + 1
    assert losses(host, "init_too_large", dose=1) == losses(host)
