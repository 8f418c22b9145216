"""Not tested, settings, environment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from made_runs import verdict

from lossleuth.report.document.appendix import appendix
from lossleuth.report.document.facts import Facts, GitState, Header
from lossleuth.types.observed import FoundIn, Origins, WeightOrigins

SETTINGS = {
    "optimizers": [
        {
            "class": "Adam",
            "place": "train.py:9",
            "groups": [{"eps": 1e-8, "betas": [0.9, 0.999], "foreach": None}],
        }
    ],
    "schedulers": [
        {
            "class": "LambdaLR",
            "module": "torch.optim.lr_scheduler",
            "settings": {"base_lrs": [0.1]},
            "functions": ["train.py:4"],
            "place": "train.py:10",
        }
    ],
}
HEADER = Header(
    script="my train.py",
    arguments=("--size", "a b"),
    python="3.11",
    platform="linux",
    git=GitState("abc", changed=True),
    started=0.0,
)


def test_untested_causes_and_internal_errors_have_their_reasons() -> None:
    words = repr(appendix(Facts(verdict(), problem="cut at byte 7"))[0])
    assert "No step with tokens was recorded." in words
    assert "Internal errors while judging:" in words
    assert "ZeroDivisionError: of ours" in words
    assert "The record is damaged: cut at byte 7." in words
    nothing = repr(appendix(Facts(replace(verdict(), judgements={})))[0])
    assert "Every cause in the catalogue was tested." in nothing


def test_the_learning_rate_is_shown_from_start_to_end() -> None:
    rates = {"lr": np.array([np.nan, 0.1, 0.02])}
    facts = Facts(verdict(), steps=np.arange(3.0), series=rates)
    assert "['learning rate', '0.1 at the start, 0.02 at the end', '']" in repr(appendix(facts)[1])
    warmed_up = replace(facts, series={"lr": np.array([0.1, 0.5, 0.02])})
    expected = "'0.1 at the start, 0.02 at the end, 0.5 at its peak'"
    assert expected in repr(appendix(warmed_up)[1])


def test_settings_have_value_and_source() -> None:
    origins = Origins(
        weights=WeightOrigins([FoundIn("start.pt", share=0.5)]),
        tokens=FoundIn("tokens.bin"),
        settings={"eps": FoundIn("config.yaml", line=3)},
    )
    words = repr(appendix(Facts(verdict(), settings=SETTINGS, origins=origins))[1])
    assert "['Adam: eps', '1e-08', 'config.yaml:3']" in words
    assert "['Adam: betas', '[0.9, 0.999]', 'train.py:9']" in words
    assert "foreach" not in words
    assert "['LambdaLR: base_lrs', '[0.1]', 'train.py:10']" in words
    assert "['LambdaLR: function', '', 'train.py:4']" in words
    assert "Initial weights were loaded from:" in words
    assert "('start.pt', '50% of all weights')" in words
    assert "Tokens were read from tokens.bin." in words
    assert "No torch optimizer made an update." in repr(appendix(Facts(verdict()))[1])


def test_the_environment_ends_with_the_command_that_runs_it_again() -> None:
    words = repr(appendix(Facts(verdict(), header=HEADER, packages={"torch": "2.13"}))[2])
    assert "abc with uncommitted changes" in words
    assert "1970-01-01 00:00 UTC" in words
    assert "lossleuth run 'my train.py' --size 'a b'" in words
    assert "['torch', '2.13']" in words
