"""What was not tested, settings, environment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from made_runs import verdict

from lossleuth.report.document.facts import Facts
from lossleuth.report.document.limits import limits

SETTINGS = {
    "optimizers": [
        {
            "class": "Adam",
            "place": "train.py:9",
            "groups": [{"eps": 1e-8, "betas": [0.9, 0.999], "foreach": None}],
        }
    ],
    "schedulers": [{"class": "CosineAnnealingLR", "T_max": 100, "place": "train.py:10"}],
}
HEADER = {
    "script": "my train.py",
    "arguments": ["--size", "a b"],
    "python": "3.11",
    "platform": "linux",
    "git": {"commit": "abc", "changed": True},
    "started": 0.0,
}


def test_untested_causes_and_our_failures_have_their_reasons() -> None:
    words = repr(limits(Facts(verdict(), problem="cut at byte 7"))[0])
    assert "no step with tokens was recorded" in words
    assert "ZeroDivisionError: of ours" in words
    assert "The record is not whole: cut at byte 7." in words
    nothing = repr(limits(Facts(replace(verdict(), judgements={})))[0])
    assert "Every cause of the catalogue was tested." in nothing


def test_the_rate_is_told_from_first_to_last() -> None:
    rates = {"lr": np.array([np.nan, 0.1, 0.02])}
    facts = Facts(verdict(), steps=np.arange(3.0), series=rates)
    assert "['learning rate', '0.1 at first, 0.02 at last', '']" in repr(limits(facts)[1])


def test_settings_have_value_and_source() -> None:
    origins = {
        "settings": {"eps": {"file": "config.yaml", "line": 3}},
        "weights": {"files": [{"file": "start.pt", "share": 0.5}]},
        "tokens": {"file": "tokens.bin"},
    }
    words = repr(limits(Facts(verdict(), settings=SETTINGS, origins=origins))[1])
    assert "['Adam: eps', '1e-08', 'config.yaml:3']" in words
    assert "['Adam: betas', '[0.9, 0.999]', 'train.py:9']" in words
    assert "foreach" not in words
    assert "['CosineAnnealingLR: T_max', '100', 'train.py:10']" in words
    assert "('start.pt', '50% of all weights')" in words
    assert "The tokens stand in tokens.bin." in words
    assert "No optimizer of torch has made an update." in repr(limits(Facts(verdict()))[1])


def test_the_environment_ends_with_the_command_that_runs_it_again() -> None:
    words = repr(limits(Facts(verdict(), header=HEADER, packages={"torch": "2.13"}))[2])
    assert "abc with changes" in words
    assert "1970-01-01 00:00 UTC" in words
    assert "lossleuth run 'my train.py' --size 'a b'" in words
    assert "['torch', '2.13']" in words
