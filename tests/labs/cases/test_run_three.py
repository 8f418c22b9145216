"""Founding case 5: no update, one batch without labels, and a perplexity of everything."""

from __future__ import annotations

import math

import pytest
import torch
from faults import asked, mean

from lossleuth.labs.cases import run_three
from lossleuth.labs.cases.distillation import batches, make_texts
from lossleuth.labs.cases.run_three import (
    Accumulation,
    CountedBatches,
    Distiller,
    PlainDistiller,
    distillation_loss,
    load_config,
)
from lossleuth.labs.cases.text import Language


@pytest.mark.parametrize("every", [2, 4, 8])
def test_a_counter_that_is_asked_twice_never_says_yes_at_first(every: int) -> None:
    accumulation = Accumulation(every)
    first = []
    for _ in range(1000):
        first.append(accumulation.should_step())
        accumulation.should_step()
    assert not any(first)
    counted, said = CountedBatches(every), []
    for _ in range(1000):
        counted.new_batch()
        said.append(counted.should_step() and counted.should_step())
    assert sum(said) == 1000 // every


def test_nothing_moves_and_the_log_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_three.train(asked(64))
    said = capsys.readouterr().out
    assert run.updates == 0
    assert run.evaluations[0] == run.evaluations[1]
    assert run.totals[:32] == run.totals[32:]
    assert said.count("lr 0.000e+00") == 16
    assert said.count("lm_loss produced nan; clamping to zero") == 2
    assert 18 < min(run.totals) < max(run.totals) < 30
    total, perplexity = run.evaluations[0]
    assert perplexity == math.exp(total) > 1e8


def test_each_repair_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_three.train(asked(16, "steps")).updates == 2
    capsys.readouterr()
    run_three.train(asked(16, "labels"))
    assert "nan" not in capsys.readouterr().out
    (_, perplexity), *_ = run_three.train(asked(32, "perplexity")).evaluations
    assert perplexity == pytest.approx(4096, rel=0.5)


def test_the_loader_s_temperature_wins_over_the_default() -> None:
    assert run_three.Config().temperature == 3.0
    assert load_config({}).temperature == 4.0


def test_the_temperature_hardly_matters() -> None:
    torch.manual_seed(0)
    language = Language.made(4096, run_three.WIDTH)
    model = Distiller(language)
    batch = batches(make_texts(language, seed=1))[0]
    student, target = model.student(batch.tokens_BT), model.target(batch.tokens_BT).detach()
    found, slopes = [], []
    for temperature in (2.0, 3.0, 4.0):
        scores = student.detach().flatten(0, 1).requires_grad_()
        loss = distillation_loss(scores, target.flatten(0, 1), temperature)
        (slope,) = torch.autograd.grad(loss, scores)
        found.append(loss.item())
        slopes.append(float(slope.norm()))
    assert max(found) / min(found) < 1.05
    assert slopes[0] > slopes[1] > slopes[2]


def test_the_target_is_trained_unless_repaired() -> None:
    torch.manual_seed(0)
    language = Language.made(50, 8)
    tokens = batches(make_texts(language, seed=1))[0].tokens_BT
    assert Distiller(language).target(tokens).requires_grad
    plain = PlainDistiller(language)
    assert not plain.target(tokens).requires_grad
    assert {name.split(".")[0] for name, p in plain.named_parameters() if p.requires_grad} == {
        "student"
    }


@pytest.mark.slow
def test_student_and_target_meet_even_with_a_teacher_of_noise() -> None:
    noise = Language(torch.randn(4096, run_three.WIDTH), torch.randn(4096, run_three.WIDTH))
    run = run_three.train(asked(600, "steps"), noise)
    assert mean(run.divergences[-32:]) < 0.5 * mean(run.divergences[:32])


@pytest.mark.slow
def test_the_repaired_run_learns() -> None:
    run = run_three.train(asked(320, *run_three.REPAIRS))
    perplexities = [perplexity for _, perplexity in run.evaluations]
    assert run.updates == 40
    assert perplexities[-1] < 0.5 * perplexities[0]
