"""Answer, proof, and ruled-out causes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from made_runs import EFFECT, verdict

from lossleuth.judge.gain import Gain
from lossleuth.judge.verdict import Verdict
from lossleuth.judge.yardstick import Comparison
from lossleuth.report.document.answer import answer, challenges, proof, ruled_out, trial_chart
from lossleuth.report.document.blocks import Bullets, Chart, Folded, Paragraph, Source, Table
from lossleuth.report.document.facts import Facts, TrialRun
from lossleuth.types.challenge import Bias
from lossleuth.types.change import Change
from lossleuth.types.judgement import Judgement, Status, Where, Wrongness


def texts(blocks: object) -> str:
    """All words of some blocks."""
    return repr(blocks)


def trial(changes: tuple[Change, ...], seed: int, steps: int = 8) -> TrialRun:
    return TrialRun(changes, seed, steps, np.linspace(3.0, 2.0, steps))


def test_the_answer_has_the_cause_its_place_and_the_source(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("loss = f(x)\n")
    blocks = answer(Facts(verdict(script=str(script)))).blocks
    assert f"The cause is label_offset: targets are not the next token, at {script}:1." in texts(
        blocks
    )
    assert any(isinstance(b, Source) and b.lines[0] == "loss = f(x)" for b in blocks)
    assert "Also found: lr_too_high (proven)." in texts(blocks)


def test_without_an_answer_the_user_reads_what_to_do_next() -> None:
    unknown = answer(Facts(verdict("cannot_tell"))).blocks
    assert "1 cause was not tested" in texts(unknown)
    assert "A larger --budget usually decides it" in texts(unknown)
    all_tested = replace(verdict("cannot_tell"), judgements={})
    assert "try a larger --budget" in texts(answer(Facts(all_tested)).blocks)


def test_a_run_far_behind_its_reference_is_told_to_become_like_it() -> None:
    behind = Comparison(2.6, 2.1, 0.3, 1.5, rate=1e-2)
    found = answer(Facts(replace(verdict("cannot_tell"), yardstick=behind))).blocks
    assert "The reference trains by AdamW at a rate of 0.01" in texts(found)
    near = answer(Facts(replace(verdict("cannot_tell"), yardstick=replace(behind, run=2.2)))).blocks
    assert "AdamW" not in texts(near)


def test_the_proof_has_invariant_trial_remedy_and_page() -> None:
    runs = [trial(c, seed) for seed in range(3) for c in ((), (EFFECT.change,))]
    section = proof(Facts(verdict(), trials=runs))
    assert section is not None
    tables = [b for b in section.blocks if isinstance(b, Table)]
    assert tables[0].rows[0] == ["expected", "1"]
    assert tables[1].rows[1] == ["measured", "inf"]
    assert tables[0].rows[2] == ["rounding floor", "0"]
    # The other floor is not known.
    assert len(tables[1].rows) == 2
    (chart,) = [b for b in section.blocks if isinstance(b, Chart)]
    assert len(chart.series) == 6
    words = texts(section.blocks)
    assert "true loss 2 instead of 2.5 after 8 steps, 0.5 ± 0.02 nats better over 3" in words
    assert "No trial was needed" in words
    assert "Remedy: Shift once." in words
    assert [b.anchor for b in section.blocks if isinstance(b, Folded)] == [
        "label_offset",
        "lr_too_high",
    ]


def test_a_fault_in_a_file_that_is_no_script_is_said_to_be_there() -> None:
    section = proof(Facts(verdict(script="tokens.bin", line=None)))
    assert section is not None
    assert "The fault is not in the script but in tokens.bin." in texts(section.blocks)


def test_a_challenge_that_gains_is_shown_with_its_trial_and_is_the_next_step() -> None:
    effect = EFFECT._replace(steps=8)
    gain = Gain("with everything trained", Bias.NONE, effect, counts=True)
    runs = [trial(c, seed) for seed in (1, 2, 3) for c in ((), (effect.change,))]
    held_back = replace(verdict("cannot_tell"), headroom=(gain,))
    section = challenges(Facts(held_back, trials=runs))
    assert section is not None
    assert "It does better with everything trained, by" in texts(section.blocks)
    (chart,) = [b for b in section.blocks if isinstance(b, Chart)]
    assert len(chart.series) == 6
    assert section.title in texts(answer(Facts(held_back)).blocks)
    # What says little is told, and is no answer.
    told = replace(held_back, headroom=(replace(gain, counts=False),))
    assert section.title not in texts(answer(Facts(told)).blocks)
    assert challenges(Facts(verdict("healthy"))) is None


def test_where_nothing_is_there_no_proof_is_claimed() -> None:
    assert proof(Facts(verdict("healthy"))) is None


def test_a_trial_is_drawn_only_from_pairs_of_its_own_length() -> None:
    other = Change.of("hold_lr")
    runs = [trial((), 0, 9), trial((EFFECT.change,), 0), trial((other,), 0), trial((), 1)]
    assert trial_chart(EFFECT, runs) is None
    chart = trial_chart(EFFECT, [*runs, trial((EFFECT.change,), 1)])
    assert chart is not None
    assert [s.name for s in chart.series] == ["unchanged, seed 2", "scale_lr(factor=0.1), seed 2"]
    # On top of a cure, the pair has the cure too.
    cured = [trial((other,), 0), trial((other, EFFECT.change), 0), trial((), 0)]
    pair = trial_chart(EFFECT, cured)
    assert pair is not None
    assert len(pair.series) == 2


def test_refuted_causes_have_their_number_and_harmless_ones_their_trial() -> None:
    section = ruled_out(Facts(verdict()))
    assert section is not None
    bullets = [b for b in section.blocks if isinstance(b, Bullets)]
    assert bullets[0].items == [("overflow", "All of 8 losses are finite.")]
    assert bullets[1].items[0][0] == "clip_too_tight"
    assert "over 3 paired runs" in bullets[1].items[0][1]
    assert ruled_out(Facts(replace(verdict(), judgements={}))) is None


def test_a_cause_of_another_version_is_no_crash() -> None:
    unknown = Judgement(Status.PROVEN, "1 is not 2", Where(__file__, 1))
    strange = replace(verdict(), judgements={"of_tomorrow": unknown}, ranked=["of_tomorrow"])
    section = proof(Facts(strange))
    assert section is not None
    assert "does not know this cause" in texts(section.blocks)
    assert any(isinstance(b, Paragraph) for b in section.blocks)


EXACT = Judgement(Status.PROVEN, "1 is not 0", wrongness=Wrongness("share", 1.0, 0.0, 0.0))


def test_why_there_was_no_trial_is_said_as_it_is() -> None:
    found = {
        name: repr(proof(Facts(Verdict("proven", {name: EXACT}, [name], 60, 1.0))))
        for name in ("label_offset", "teacher_trained")
    }
    assert "the loss itself is meaningless" in found["label_offset"]
    assert "the number above is exact" in found["teacher_trained"]


def test_a_wrong_metric_needs_no_trial() -> None:
    wrong = Judgement(Status.PROVEN, "2.5 is printed, 2.1 is true")
    found = replace(verdict(), judgements={"mean_of_means": wrong}, ranked=["mean_of_means"])
    section = proof(Facts(found))
    assert section is not None
    assert "the weights do not depend on this number" in texts(section.blocks)
