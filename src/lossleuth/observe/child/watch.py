"""Starting to watch inside a process: the script's own, or one that it spawned.

A process reads from its environment what to record, so that children started by `spawn`, torchrun
or a launcher are watched like their parent; each writes a record of its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lossleuth.observe.child.torch_import import after_torch_import
from lossleuth.observe.import_list import note_imports
from lossleuth.observe.provenance.opened_files import Provenance, audit
from lossleuth.observe.request import VARIABLE, WatchRequest
from lossleuth.observe.session import Session
from lossleuth.observe.stop import Limit
from lossleuth.run_directory import BATCHES, PROCESSES
from lossleuth.types.change import Change

if TYPE_CHECKING:
    from lossleuth.observe.no_autograd.watch import ByHand
    from lossleuth.observe.patches.hooks import Hooks
    from lossleuth.observe.steps.observer import Observer

# An optimizer or a schedule, the line that made it, and the user's calls that led to it.
Made = tuple[Any, str, Hashable]
OWN_CHILD = "lossleuth.observe.child.run"
# Reported as missing if no patch could be applied.
EVERYTHING = "everything"


class Watch:
    """Watching in one process."""

    def __init__(
        self, request: WatchRequest, *, main: bool, loaded: Sequence[Made] | None = None
    ) -> None:
        """`loaded` is what the program made for its training before it was forked, if it was."""
        self.session = Session()
        self._loaded = loaded
        self.provenance = Provenance()
        self.observer: Observer | None = None
        self._hooks: Hooks | None = None
        self._by_hand: ByHand | None = None
        self._request = request
        self._main = main
        self._process = os.getpid()
        self._finished = False
        self._warnings: list[str] = []

    def start(self, *, until_exit: bool = True) -> None:
        """Start listening, and hook into torch as soon as it is imported.

        What is not ended before is ended with the process, unless the caller surely ends it.
        """
        self.provenance.listen()
        self.session.on_close(self.provenance.stop)
        self.session.on_close(after_torch_import(self._install))
        if until_exit:
            atexit.register(self.finish, {"how": "exit"})
            self.session.on_close(lambda: atexit.unregister(self.finish))

    def finish(self, reason: dict[str, Any]) -> None:
        """Close the record with how the run ended, and undo all patches; once only."""
        if self._finished or os.getpid() != self._process:
            return
        self._finished = True
        self.provenance.stop()
        failures = self.session.failures
        try:
            self._end_record(reason)
        except Exception as error:
            failures.note("finish", error)
        finally:
            self._close()
        for sentence in filter(None, [*self._warnings, failures.sentence()]):
            print(f"lossleuth: {sentence}", file=sys.stderr)

    def _end_record(self, reason: dict[str, Any]) -> None:
        if self._by_hand is not None:
            self._by_hand.finish(reason)
        elif self.observer is None:
            if self._main and self.session.missing:
                # Nothing can be watched: the record says why.
                failures = {"failures": self.session.failures.sentence()}
                self._open_writer().end(reason | {"steps": 0} | failures)
        elif self._main or self.observer.steps:
            if not self._request.is_trial:
                summary = self.provenance.summary()
                files = [*summary["files_read"], *summary["files_mapped"]]
                self.observer.write_event("provenance", summary)
                self.observer.trace_origins(list(dict.fromkeys(files)))
            self.observer.finish(reason)

    def _close(self) -> None:
        try:
            self.session.close()
        except Exception as error:
            self.session.failures.note("close", error)

    def adopt(self, thing: Any) -> None:
        """Register an optimizer made before the watch began; ignore anything else."""
        try:
            import torch

            if self._hooks is not None and isinstance(thing, torch.optim.Optimizer):
                self._hooks.adopt(thing)
        except Exception as error:
            self.session.failures.note("adopt", error)

    def leave(self) -> NoReturn:
        """End the record and this process, whatever the script still wants to do."""
        self.finish({"how": "stopped"})
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(0)

    def _install(self) -> None:
        watch = self._watch_hands if self._request.by_hand else self._watch_hooks
        self.session.attempt(EVERYTHING, watch)

    def _watch_hooks(self) -> None:
        """Find steps by the torch functions that make them."""
        from lossleuth.interventions.registry import make
        from lossleuth.observe.patches.hooks import Hooks
        from lossleuth.observe.steps.observer import Observer
        from lossleuth.observe.steps.pacing import Pacing
        from lossleuth.observe.steps.tokens.batches import Batches
        from lossleuth.record.kept_batches import KeptBatches
        from lossleuth.tape.capture.compiler_marks import never_compile

        never_compile(audit)
        request = self._request
        seconds = request.stop_seconds
        kept = Path(request.directory, BATCHES)
        observer = Observer(
            self._open_writer,
            self.session,
            request.tape,
            request.loss_steps,
            until=request.ends_at,
            pacing=Pacing(seconds) if request.paced and seconds is not None else None,
            batches=Batches(KeptBatches(kept) if request.keeps_batches and self._main else None),
        )
        self._hooks = Hooks(
            observer,
            activations=request.activations,
            interventions=[make(Change.of(name, **o)) for name, o in request.changes],
            from_step=request.from_step,
            limit=Limit(request.stop_steps, request.stop_seconds, request.ends_at),
            seed_shift=request.seed_shift,
            begins=self._loaded is None,
        )
        self._hooks.give_up = self.leave
        self._hooks.install()
        for instance, place, calls in self._loaded or ():
            self._hooks.adopt_made(instance, place, calls)
        self.observer = observer

    def _watch_hands(self) -> None:
        """Find steps that show only in their writes to tensors."""
        from lossleuth.observe.no_autograd.watch import ByHand

        request = self._request
        limit = Limit(request.stop_steps, request.stop_seconds, request.ends_at)
        self._by_hand = ByHand(
            self._open_writer, request.tape, limit, self.session, request.ends_at
        )
        self._by_hand.start(request.seed_shift)

    def _open_writer(self) -> Any:
        from lossleuth.record.write import RecordWriter

        directory = Path(self._request.directory)
        header = dict(self._request.header, process=os.getpid(), started=time.time())
        if self.session.missing:
            header["missing_patches"] = dict(self.session.missing)
        if self._request.seed_shift is not None:
            # What makes this run different from another of the same script.
            header["changes"] = list(self._request.changes)
            header["seed_shift"] = self._request.seed_shift
            header["stop_steps"] = self._request.stop_steps
            if self._request.from_step:
                header["from_step"] = self._request.from_step
        if not self._main:
            directory = directory / PROCESSES / str(os.getpid())
            header["parent"] = self._request.process
        elif self._may_be_forked():
            note_imports(directory)
        return RecordWriter.create(directory, header, self._warnings.append)

    def _may_be_forked(self) -> bool:
        """Whether later runs may be forked from a process with the same imports."""
        import torch

        # A GPU's state does not survive a fork.
        fit = sys.platform == "linux" and torch.version.cuda is None and torch.version.hip is None
        return fit and self._request.scratch is not None and not self.provenance.variables


def start_from_environment() -> None:
    """Watch this process if its environment says so; never fail."""
    if OWN_CHILD in sys.orig_argv:
        # The script's own process, which begins to watch by itself.
        return
    try:
        request = WatchRequest.read(os.environ[VARIABLE])
        if request.process != os.getpid():
            Watch(request, main=False).start()
    except Exception as error:
        print(f"lossleuth: this process is not watched: {error!r}", file=sys.stderr)
