"""Findings are known by name, and come back as they were stored."""

from __future__ import annotations

import json
import math

import pytest
from any_finding import every_kind, finding

from lossleuth.findings.finding import Finding, kinds, name_of, restored, stored
from lossleuth.findings.model import Leaks
from lossleuth.record.strict_json import dumps
from lossleuth.record.values import restore
from lossleuth.types.plain import NotOfThisType


@pytest.mark.parametrize("one", every_kind(0.25), ids=lambda f: name_of(type(f)))
def test_every_kind_comes_back_as_it_was_stored(one: Finding) -> None:
    assert restored(json.loads(json.dumps(stored(one)))) == one


def test_numbers_that_json_lacks_survive_the_record() -> None:
    plain = restore(json.loads(dumps(stored(finding(Leaks, math.inf)))))
    found = restored(plain)
    assert isinstance(found, Leaks) and found.future == math.inf


def test_a_kind_of_another_release_is_left_out_and_a_broken_one_refused() -> None:
    assert restored({"kind": "unheard_of"}) is None
    with pytest.raises(NotOfThisType, match="Leaks"):
        restored({"kind": "leaks", "future": "far"})


def test_names_are_those_of_classes() -> None:
    assert kinds()["leaks"] is Leaks
    assert all(name_of(kind) == name for name, kind in kinds().items())
