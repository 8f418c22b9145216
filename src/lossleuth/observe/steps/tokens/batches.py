"""What a step trains on: the tokens that were looked up, and the targets of its losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from lossleuth.native.handles import is_inside_transform
from lossleuth.native.tokens import TokenReader
from lossleuth.observe.provenance.value_origins import token_run
from lossleuth.observe.steps.step import StepWindow, integer_tensors
from lossleuth.observe.steps.tokens.bigram import TokenPairs
from lossleuth.observe.steps.tokens.unigram import TargetCounts
from lossleuth.record.kept_batches import KeptBatches
from lossleuth.torch_internals import outside_transforms, unwrapped, version_of

# Keep at most this many tensors alive; process them early if there are more.
MAX_WAITING = 8
# Runs of tokens of the first batches, to look for in files at the end.
MAX_RUNS = 4


class Batches:
    """Keeps the tensors of a forward pass until it is differentiated, and looks at them then.

    Looking at all of them at once costs a third of looking at each where it is used. One that was
    changed in the meantime says nothing any more and is left out.
    """

    def __init__(self, kept: KeptBatches | None = None) -> None:
        # Where all of it is kept, if it is.
        self._kept = kept
        self._tokens: list[tuple[Tensor, int]] = []
        self._targets: list[tuple[Tensor, int, int, int, bool]] = []
        self._reader = TokenReader()
        self._counts = TargetCounts()
        self._pairs = TokenPairs()
        self.runs: list[NDArray[np.int64]] = []
        self.target_runs: list[NDArray[np.int64]] = []
        # Length of a row of tokens.
        self.row: int | None = None
        self._sees_lookups = False

    def loaded(self, batch: Any) -> None:
        """A data loader gave a batch; it counts until tokens are seen in a lookup."""
        if not self._sees_lookups:
            self._tokens.extend((tensor, version_of(tensor)) for tensor in integer_tensors(batch))

    def looked_up(self, tokens: Any) -> bool:
        """Integers were looked up in a table; whether the time has come to look at them."""
        if isinstance(tokens, Tensor) and not tokens.is_floating_point() and tokens.dim():
            if not self._sees_lookups:
                self._sees_lookups = True
                self._tokens.clear()
            tokens = unwrapped(tokens)
            self._tokens.append((tokens, version_of(tokens)))
        return len(self._tokens) > MAX_WAITING

    def compared(self, scores: Tensor, targets: Any, ignored: int, *, is_mean: bool = True) -> bool:
        """A cross-entropy was taken; whether the time has come to look at its targets."""
        if isinstance(targets, Tensor) and not targets.is_floating_point():
            shape = scores.shape
            classes = shape[0 if len(shape) == 1 else 1]
            targets = unwrapped(targets)
            self._targets.append((targets, version_of(targets), ignored, classes, is_mean))
        return len(self._targets) > MAX_WAITING

    def look(self, window: StepWindow) -> None:
        """Add what was used since the last call to the step."""
        if not self._tokens and not self._targets:
            return
        if is_inside_transform():
            # Inside a transform of `torch.func` every result of ours would be wrapped too.
            with outside_transforms():
                self._look(window)
        else:
            self._look(window)

    def end_micro_batch(self, window: StepWindow) -> None:
        """What was used until now belongs to one backward pass."""
        self.look(window)
        window.end_micro_batch()
        if self._kept is not None:
            self._kept.end_micro_batch()

    def end_step(self, number: int) -> None:
        """What was used until now belongs to one step."""
        if self._kept is not None:
            self._kept.end_step(number)

    def close(self) -> None:
        """The run is over."""
        if self._kept is not None:
            self._kept.close()

    def count_anew(self) -> None:
        """Forget what was counted: another training may have other texts."""
        self._counts, self._pairs = TargetCounts(), TokenPairs()

    def floors(self) -> dict[str, float]:
        """Unigram and bigram entropy of the tokens seen, in nats per token."""
        return self._pairs.floors()

    def _look(self, window: StepWindow) -> None:
        tokens, self._tokens = self._tokens, []
        targets, self._targets = self._targets, []
        for tensor, version in tokens:
            if version_of(tensor) == version:
                seen = self._reader.fingerprint(tensor)
                # Position ids ascend by one along a row; they say nothing about the batch.
                # Neither does a lookup that is the same everywhere.
                if not seen.consecutive and seen.largest > seen.smallest:
                    window.lookups.append(seen)
                    if self._kept is not None and (values := self._values(tensor)) is not None:
                        self._kept.lookup(values, seen.hash)
                    if window.is_sampled:
                        self._pairs.add(tensor)
                    if len(self.runs) < MAX_RUNS:
                        _keep_run(self.runs, tensor)
                        self.row = int(tensor.shape[-1])
        for tensor, version, ignored, classes, is_mean in targets:
            window.classes = classes
            if version_of(tensor) == version:
                count = self._reader.supervised(tensor, ignored)
                window.supervised = (window.supervised or 0) + count
                window.unsupervised += not count
                # A sum over no target adds nothing, as in a loss that is taken in chunks.
                window.empty_sums += not count and not is_mean
                if self._kept is not None and (values := self._values(tensor)) is not None:
                    self._kept.targets(values, ignored, classes)
                if len(self.target_runs) < MAX_RUNS and tensor.dim():
                    _keep_run(self.target_runs, tensor)
                if window.is_sampled:
                    self._counts.add(tensor, ignored)
                    window.unigram = self._counts.entropy()

    def _values(self, tensor: Tensor) -> NDArray[np.integer[Any]] | None:
        """What is to be kept of a tensor; one that has no numbers to give ends the keeping."""
        try:
            found: NDArray[np.integer[Any]] = tensor.detach().cpu().numpy()
        except Exception:
            self.close()
            self._kept = None
            return None
        return found


def _keep_run(runs: list[NDArray[np.int64]], tokens: Tensor) -> None:
    run = token_run(tokens)
    if run is not None and not any(np.array_equal(run, kept) for kept in runs):
        runs.append(run)
