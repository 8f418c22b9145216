"""A training run from settings to checkpoint, as `lossleuth train` carries it out."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lossleuth.reference.train import checkpoint as checkpoints
from lossleuth.reference.train import resume, run_directory, step_log
from lossleuth.reference.train.checkpoint import Checkpoint
from lossleuth.reference.train.checkpoint_check import Header
from lossleuth.reference.train.corpus import read_corpus
from lossleuth.reference.train.data import BatchOrder, make_batch, misaligned
from lossleuth.reference.train.evaluate import Evaluation, evaluate
from lossleuth.reference.train.loop import Step, make_optimizer, train
from lossleuth.reference.train.loss import who_computes
from lossleuth.reference.train.memory import check_memory
from lossleuth.reference.train.model import LanguageModel, ModelShape
from lossleuth.reference.train.nonfinite import bad_parameter
from lossleuth.reference.train.precision import choose_device
from lossleuth.reference.train.prepare import Prepared, prepare
from lossleuth.reference.train.progress import Display, beside_floors, display
from lossleuth.reference.train.settings import TrainSettings
from lossleuth.reference.train.step_log import StepLog
from lossleuth.reference.train.tokenizer import Tokenizer
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput


class Session:
    """One run: its directory, its data, its model.

    Making one checks everything first, and only then writes into the directory.
    """

    def __init__(
        self,
        resolved: Resolved[TrainSettings],
        directory: Path,
        console: Console,
        *,
        resumed: Checkpoint | None = None,
        record: bool = False,
    ) -> None:
        self.settings = resolved.values
        self.directory = directory
        self.console = console
        self.resumed = resumed
        self.first_step = resumed.header.step if resumed else 0
        self.step = self.first_step
        self.bad_steps = resumed.header.bad_steps if resumed else 0
        self._last_bad: str | None = None
        self._log_path = directory / step_log.FILE_NAME if record else None
        if resumed:
            resume.check_settings(resumed, resolved)
            resume.check_weights(resumed)
            if self._log_path:
                step_log.lines_up_to(self._log_path, self.first_step)
        say_settings(console, resolved)

        corpus = read_corpus(self.settings.data)
        self.prepared: Prepared = prepare(
            corpus, self.settings, resumed.tokenizer() if resumed else None
        )
        self.tokenizer = self.prepared.tokenizer
        if resumed:
            resume.check_data(resumed, self.prepared.fingerprint, corpus.source)
        self.shape = model_shape(self.settings, self.tokenizer)
        device = choose_device(self.settings.device)
        check_memory(self.shape, self.settings, device)
        self.model, self.optimizer = self._start(device)
        self.order = BatchOrder(
            len(self.prepared.training), self.settings.batch, self.settings.seed
        )
        self._check_alignment()

        tokens = run_directory.begin(
            directory, self.prepared.tokens, resolved, resumed=resumed is not None
        )
        self.prepared = replace(self.prepared, tokens=tokens)
        for sentence in self._describe():
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def run(self) -> Evaluation:
        """Train to the last step and return the final evaluation."""
        settings, floors = self.settings, self.prepared.floors
        with (
            display(self.console, beside_floors(floors), self.first_step, settings.steps) as shown,
            self._step_log(shown) as log,
            interruptible(shown) as interrupted,
        ):
            clipped = skipped = 0
            result = None
            stepped = self.model
            if settings.compile:
                stepped = cast(LanguageModel, torch.compile(self.model))
            for step in train(
                stepped,
                self.optimizer,
                lambda k: make_batch(
                    self.prepared.tokens, self.prepared.training, self.order.at(k)
                ),
                settings,
                first_step=self.first_step,
            ):
                self.step = step.step + 1
                clipped += step.clipped
                self._last_bad = step.first_bad
                shown.step(step)
                if log:
                    log.step(step)
                if not step.applied:
                    skipped += 1
                    self._count_bad_step(shown, step)
                last = self.step == settings.steps
                if self.step % settings.evaluate_every == 0 or last:
                    result = self._evaluate(shown, log)
                if self.step % settings.checkpoint_every == 0 and not last:
                    self._checkpoint_or_warn(shown)
                if interrupted() and not last:
                    self._stop_early()
            made = settings.steps - self.first_step
            shown.say(f"clipped {clipped} of {made} steps; skipped {skipped} non-finite steps")
            # Still inside: a first Ctrl-C must not end the process while it saves.
            self._checkpoint()
        assert result is not None
        return result

    def _start(self, device: torch.device) -> tuple[LanguageModel, torch.optim.AdamW]:
        """A fresh model, or the one of the checkpoint."""
        if self.resumed is None:
            torch.manual_seed(self.settings.seed)
            model = LanguageModel(self.shape).to(device)
            return model, make_optimizer(model, self.settings)
        model = self.resumed.model().to(device)
        optimizer = make_optimizer(model, self.settings)
        self.resumed.restore_optimizer(model, optimizer)
        self.resumed.restore_random_state()
        return model, optimizer

    def _check_alignment(self) -> None:
        """Every position of the first batch has the next token as its target."""
        prepared = self.prepared
        batch = make_batch(prepared.tokens, prepared.training, self.order.at(0))
        wrong = misaligned(batch, prepared.tokens, prepared.training)
        if wrong:
            raise RuntimeError(f"{wrong} positions of the first batch have a wrong target")
        self._aligned = batch.inputs_BT.numel()

    def _describe(self) -> Iterator[str]:
        floors = self.prepared.floors
        parameters = sum(p.numel() for p in self.model.parameters())
        yield from self.prepared.sentences
        yield f"alignment: all {self._aligned:,} positions of the first batch are right"
        yield (
            f"floors in nats per token: ln V {floors.uniform:.4f}, "
            f"unigram {floors.unigram:.4f}, bigram {floors.bigram:.4f}"
        )
        yield f"model: {parameters:,} parameters; run directory: {self.directory}"
        device = next(self.model.parameters()).device.type
        yield who_computes(self.settings.loss_kernel, device)
        warmup, steps = self.settings.warmup, self.settings.steps
        if warmup >= steps:
            yield f"note: a warm-up of {warmup} steps in a run of {steps}: the rate only rises"
        before = resume.saved_settings(self.resumed).device if self.resumed else None
        if before not in (None, self.settings.device):
            yield f"note: device {before} before, {self.settings.device} now: not bit for bit"

    @contextmanager
    def _step_log(self, shown: Display) -> Iterator[StepLog | None]:
        if self._log_path is None:
            yield None
            return
        with run_directory.naming(self._log_path):
            step_log.forget_after(self._log_path, self.first_step)
            log = StepLog(self._log_path, shown.say)
        try:
            yield log
        finally:
            log.close()

    def _count_bad_step(self, shown: Display, step: Step) -> None:
        """Say which step was not applied and why; end the run where there are too many."""
        self.bad_steps += 1
        sentence = (
            f"step {step.step + 1} was not applied: {step.first_bad} is not finite; "
            f"windows {step.windows}"
        )
        shown.say(sentence)
        if self.bad_steps > self.settings.bad_steps_allowed:
            raise BadInput(
                f"at most {self.settings.bad_steps_allowed} non-finite steps",
                f"{self.bad_steps}, the last at step {step.step + 1}: {step.first_bad}",
                "lower --lr, or look at the windows named above",
            )

    def _evaluate(self, shown: Display, log: StepLog | None) -> Evaluation:
        prepared = self.prepared
        result = evaluate(
            self.model,
            prepared.tokens,
            prepared.validation,
            batch=self.settings.batch,
            target_bytes=prepared.validation_bytes,
            unknown_share=prepared.validation_unknown,
            precision=self.settings.precision,
            kernel=self.settings.loss_kernel,
        )
        shown.say(f"validation at step {self.step}: {result.sentence()}")
        if log:
            log.write({"kind": "evaluation", "step": self.step, **asdict(result)})
        return result

    def _checkpoint(self) -> None:
        path = self.directory / checkpoints.FILE_NAME
        self._check_worth_saving(path)
        header = Header(
            step=self.step,
            settings=asdict(self.settings),
            shape=asdict(self.shape),
            tokenizer=self.tokenizer.to_json(),
            data=self.prepared.fingerprint,
            bad_steps=self.bad_steps,
        )
        with run_directory.naming(path):
            checkpoints.save_checkpoint(path, header, self.model, self.optimizer)

    def _check_worth_saving(self, path: Path) -> None:
        """A state from which nothing finite follows must not replace a good one."""
        bad = self._last_bad or bad_parameter(self.model)
        if bad:
            left = f"{path} is of an earlier step" if path.exists() else "nothing is saved"
            raise BadInput(
                f"finite numbers at step {self.step} to save",
                f"that the {bad} is not finite",
                f"{left}; lower --lr",
            )

    def _checkpoint_or_warn(self, shown: Display) -> None:
        """A checkpoint that cannot be written in mid-run is no reason to stop the run."""
        try:
            self._checkpoint()
        except BadInput as refusal:
            shown.say(f"no checkpoint at step {self.step}: {refusal}; training goes on")

    def _stop_early(self) -> None:
        self._checkpoint()
        raise BadInput(
            f"{self.settings.steps} steps",
            f"Ctrl-C after step {self.step}, which is saved",
            f"go on with: lossleuth train --resume {self.directory}",
        )


def say_settings(console: Console, resolved: Resolved[Any]) -> None:
    """Print every setting with its value and its source."""
    table = Table("setting", "value", "source", box=None, pad_edge=False)
    for name, value, source in resolved.rows():
        # Text, since a file's name may look like rich's markup.
        table.add_row(name, Text(str(value)), Text(source))
    console.print(table)


def model_shape(settings: TrainSettings, tokenizer: Tokenizer) -> ModelShape:
    """The model that these settings ask for."""
    return ModelShape(
        vocabulary=tokenizer.size,
        context=settings.context,
        layers=settings.layers,
        heads=settings.heads,
        width=settings.width,
        positions=settings.positions,
        tied=settings.tied,
        dropout=settings.dropout,
    )


@contextmanager
def interruptible(shown: Display) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C asks the run to end after its step; the second ends it at once."""
    asked = False

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        shown.say("ending after this step; Ctrl-C again to stop at once")

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
