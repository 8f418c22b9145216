"""A distillation from settings to student, as `lossleuth distil` carries it out."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from torch import nn

from lossleuth.reference.distil.assembly import Assembly, assemble
from lossleuth.reference.distil.average import Average
from lossleuth.reference.distil.export import export_student, forget_student
from lossleuth.reference.distil.loop import DistilStep, EmptyStep, distil
from lossleuth.reference.distil.measure import (
    comparison_table,
    component_table,
    components,
    nearness,
    true_loss,
)
from lossleuth.reference.distil.outputs import LogitsOnly
from lossleuth.reference.distil.settings import DistilSettings
from lossleuth.reference.distil.state import FILE_NAME, Progress, State, save_state
from lossleuth.reference.train import run_directory, step_log
from lossleuth.reference.train.data import Batch, make_batch
from lossleuth.reference.train.evaluate import Evaluation, window_sums
from lossleuth.reference.train.loop import Step
from lossleuth.reference.train.nonfinite import bad_parameter
from lossleuth.reference.train.progress import Display, display
from lossleuth.reference.train.resume import refuse_changes
from lossleuth.reference.train.session import interruptible, say_settings
from lossleuth.reference.train.step_log import StepLog
from lossleuth.settings import Resolved
from lossleuth.types.errors import BadInput


class Session:
    """One distillation: its directory, its data, its models.

    Making one checks everything first, and only then writes into the directory.
    """

    def __init__(
        self,
        resolved: Resolved[DistilSettings],
        directory: Path,
        console: Console,
        *,
        resumed: State | None = None,
        record: bool = False,
    ) -> None:
        self.settings = resolved.values
        self.directory = directory
        self.progress = resumed.progress if resumed else Progress()
        self.first_step = self.progress.step
        self._console = console
        self._last_bad: str | None = None
        self._log_path = directory / step_log.FILE_NAME if record else None
        if resumed:
            refuse_changes(resumed.saved_settings(), resolved, self.first_step)
            if self._log_path:
                step_log.lines_up_to(self._log_path, self.first_step)
        say_settings(console, resolved)
        self.assembly: Assembly = assemble(self.settings)
        prepared = self.assembly.prepared
        if resumed and resumed.data != prepared.fingerprint:
            raise BadInput(
                f"the data that the run was made with (fingerprint {resumed.data})",
                f"{self.assembly.corpus.source} (fingerprint {prepared.fingerprint})",
                "give the same text, or start a new run",
            )
        horizon = self.settings.average * self.settings.steps
        student = self.assembly.student
        self.average = Average(student, horizon) if self.settings.average else None
        if resumed:
            resumed.restore(self.assembly.trainable, self.assembly.optimizer, self.average)
        tokens = run_directory.begin(
            directory, prepared.tokens, resolved, resumed=resumed is not None
        )
        if not resumed:
            forget_student(directory)
            (directory / FILE_NAME).unlink(missing_ok=True)
        self.assembly.prepared = replace(prepared, tokens=tokens)
        for sentence in self.assembly.sentences():
            console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def load(self, k: int) -> Batch:
        """The k-th micro-batch of the run."""
        prepared = self.assembly.prepared
        return make_batch(prepared.tokens, prepared.training, self.assembly.order.at(k))

    def run(self) -> Evaluation:
        """Distil to the last step, or to where nothing gets better; return the best evaluation."""
        settings, assembly = self.settings, self.assembly
        with (
            display(self._console, words, self.first_step, settings.steps) as shown,
            self._step_log(shown) as log,
            interruptible(shown) as interrupted,
        ):
            best = Evaluation(math.inf, math.nan, 0, None)
            for step in distil(
                assembly.student,
                assembly.optimizer,
                self.load,
                assembly.objective,
                first_step=self.first_step,
            ):
                self._take(step, shown, log)
                last = self.progress.step == settings.steps
                if self.progress.step % settings.evaluate_every == 0 or last:
                    found = self._evaluate(shown, log)
                    if self.progress.best_step == self.progress.step:
                        best = found
                    last = last or self._out_of_patience(shown)
                if last:
                    break
                if self.progress.step % settings.checkpoint_every == 0:
                    self._save_or_warn(shown)
                if interrupted():
                    self._stop_early()
            shown.say(
                f"best true loss {_shown(self.progress.best_loss)} at step "
                f"{self.progress.best_step}; "
                f"{self.progress.bad_steps} non-finite steps, {self.progress.empty_batches} "
                f"batches without a supervised token"
            )
            assembly.teacher.check_unchanged()
            self._save()
        return best

    def final_sums(self) -> NDArray[np.float64]:
        """Loss of each validation window at the last step, for a comparison pair by pair."""
        prepared, settings = self.assembly.prepared, self.settings
        return window_sums(
            LogitsOnly(self.assembly.student),
            prepared.tokens,
            prepared.validation,
            batch=settings.batch,
            precision=settings.precision,
            kernel=settings.loss_kernel,
        )

    def _take(self, step: DistilStep | EmptyStep, shown: Display, log: StepLog | None) -> None:
        """Count a step and say what is worth a line."""
        self.progress = replace(
            self.progress,
            step=step.step + 1,
            empty_batches=self.progress.empty_batches + step.empty_batches,
        )
        if isinstance(step, EmptyStep):
            shown.say(f"step {step.step + 1} was left out: no supervised token in its batches")
            if log:
                log.write({"kind": "empty", "step": step.step + 1, "batches": step.empty_batches})
            return
        self._last_bad = step.first_bad
        shown.step(step)
        if log:
            log.step(step)
        if step.applied:
            if self.average:
                self.average.update(self.assembly.student)
                self.progress = replace(self.progress, averaged=self.average.updates)
            return
        self.progress = replace(self.progress, bad_steps=self.progress.bad_steps + 1)
        shown.say(
            f"step {step.step + 1} was not applied: {step.first_bad} is not finite; "
            f"windows {step.windows}"
        )
        if self.progress.bad_steps > self.settings.bad_steps_allowed:
            raise BadInput(
                f"at most {self.settings.bad_steps_allowed} non-finite steps",
                f"{self.progress.bad_steps}, the last at step {step.step + 1}: {step.first_bad}",
                "lower --lr, or look at the windows named above",
            )

    def _measured(self) -> nn.Module:
        """The student as it would be used: with averaged weights where they are kept."""
        if self.average is None or not self.average.updates:
            return self.assembly.student
        twin = copy.deepcopy(self.assembly.student)
        self.average.put_into(twin)
        return twin

    def _evaluate(self, shown: Display, log: StepLog | None) -> Evaluation:
        settings, assembly, step = self.settings, self.assembly, self.progress.step
        model = self._measured()
        how = settings.batch, settings.precision, settings.loss_kernel
        found = true_loss(model, assembly.prepared, *how)
        near = nearness(model, assembly.teacher, assembly.prepared, *how)
        parts = components(assembly.objective, assembly.student, self.load(0), 0, step - 1)
        shown.say(f"validation at step {step}:")
        rows = {"student": found, "teacher": assembly.teacher_result}
        for line in comparison_table(rows | {"untrained": assembly.untrained}):
            shown.say(line)
        if near:
            shown.say(f"  {near.sentence()}")
        for line in component_table(parts):
            shown.say(line)
        if log:
            log.write(
                {
                    "kind": "evaluation",
                    "step": step,
                    **asdict(found),
                    "nearness": asdict(near) if near else None,
                    "parts": [asdict(part) | {"weighted": part.weighted} for part in parts],
                    "teacher": asdict(assembly.teacher_result),
                    "untrained": asdict(assembly.untrained),
                }
            )
        self._keep_if_best(found, model, shown)
        return found

    def _keep_if_best(self, found: Evaluation, model: nn.Module, shown: Display) -> None:
        """The best student is the one of the lowest true loss, whatever was minimised."""
        best = self.progress.best_loss
        if not math.isfinite(found.loss) or (best is not None and found.loss >= best):
            self.progress = replace(self.progress, waited=self.progress.waited + 1)
            return
        self.progress = replace(
            self.progress, best_loss=found.loss, best_step=self.progress.step, waited=0
        )
        try:
            with run_directory.naming(self.directory):
                export_student(
                    self.directory,
                    model,
                    self.assembly.prepared,
                    self.assembly.of_student,
                    self.progress.step,
                )
        except BadInput as refusal:
            shown.say(f"the student of step {self.progress.step} is not saved: {refusal}")

    def _out_of_patience(self, shown: Display) -> bool:
        patience, waited = self.settings.patience, self.progress.waited
        if not patience or waited < patience:
            return False
        shown.say(f"stopped: {waited} evaluations without a better true loss")
        return True

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

    def _save(self) -> None:
        path, trainable = self.directory / FILE_NAME, self.assembly.trainable
        bad = self._last_bad or bad_parameter(trainable)
        if bad:
            left = f"{path} is of an earlier step" if path.exists() else "nothing is saved"
            raise BadInput(
                f"finite numbers at step {self.progress.step} to save",
                f"that {bad} is not finite",
                f"{left}; lower --lr",
            )
        with run_directory.naming(path):
            save_state(
                path,
                self.progress,
                self.settings,
                self.assembly.prepared.fingerprint,
                trainable,
                self.assembly.optimizer,
                self.average,
            )

    def _save_or_warn(self, shown: Display) -> None:
        """A state that cannot be written in mid-run is no reason to stop the run."""
        try:
            self._save()
        except BadInput as refusal:
            shown.say(f"no state at step {self.progress.step}: {refusal}; distillation goes on")

    def _stop_early(self) -> None:
        self._save()
        raise BadInput(
            f"{self.settings.steps} steps",
            f"Ctrl-C after step {self.progress.step}, which is saved",
            f"go on with: lossleuth distil --resume {self.directory}",
        )


def _shown(loss: float | None) -> str:
    return "none that is finite" if loss is None else f"{loss:.4f}"


def words(step: Step) -> str:
    """What is minimised, part by part: not a loss that could be compared with anything."""
    if not isinstance(step, DistilStep):
        return f"minimised {step.loss:.4f}"
    sum_of_parts = " + ".join(
        f"{step.weights[name]:.2f} {name} {value:.3f}" for name, value in step.parts.items()
    )
    return f"minimised {step.loss:.4f} = {sum_of_parts}  T {step.temperature:.2f}"
