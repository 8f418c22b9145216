"""The process in which a script stands before its first training step, and is forked for trials.

Until then the script runs as it is, with its seeds shifted, and nothing of it is observed. Each
fork gets a watch of its own and goes on from there.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lossleuth.guardian import guard
from lossleuth.observe.child.fork_fitness import part_from_parent, why_not_to_fork
from lossleuth.observe.child.overlay import protect_fork
from lossleuth.observe.child.serving import Requests, answer, redirect_output, serve
from lossleuth.observe.child.torch_import import after_torch_import
from lossleuth.observe.child.watch import Made, Watch
from lossleuth.observe.request import CANNOT_GO_ON, VARIABLE, WatchRequest
from lossleuth.observe.session import Session
from lossleuth.places import user_place

if TYPE_CHECKING:
    import torch


class LoadedScript:
    """Has the script run up to its first training step, and watches it from there on in forks."""

    def __init__(
        self, request: WatchRequest, folders: Sequence[str], *, is_protected: bool
    ) -> None:
        self._request = request
        self._folders = list(folders)
        self._is_protected = is_protected
        self._session = Session()
        self._made: list[Made] = []
        self._channel = socket.socket(socket.AF_UNIX)
        # In a fork.
        self._watch: Watch | None = None

    def start(self) -> None:
        """Wait for the script to import torch."""
        self._channel.connect(f"\0{self._request.channel}")
        scratch = os.path.realpath(self._request.scratch or "/")
        if self._is_protected and any(is_within(scratch, folder) for folder in self._folders):
            # The overlay of a fork would be made of layers that lie inside each other.
            self._refuse("it lies in the folder for temporary files")
        self._session.on_close(after_torch_import(self._install))

    def finish(self, reason: dict[str, Any]) -> None:
        """The script has ended."""
        if self._watch is not None:
            self._watch.finish(reason)
        else:
            self._refuse("it ended before its first training step")

    def leave(self) -> NoReturn:
        """End the record and this process."""
        if self._watch is not None:
            self._watch.leave()
        os._exit(0)

    def _install(self) -> None:
        """Shift seeds, and count what the script makes for its training."""
        import torch
        from torch.optim.lr_scheduler import LRScheduler

        from lossleuth.observe.patches.rebind_importers import reach_importers
        from lossleuth.observe.seeds import shift_seeds
        from lossleuth.torch_internals import RUN_BACKWARD, run_backward_function

        if self._request.seed_shift is not None:
            shift_seeds(self._request.seed_shift, self._session.replace)
        for kind in (torch.optim.Optimizer, LRScheduler):
            self._count(kind)
        original = run_backward_function()

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            self._refuse("it trains before it has made what it made when it was observed")
            assert original is not None
            return original(*args, **kwargs)

        self._session.replace(torch.autograd, RUN_BACKWARD, run_backward)
        self._session.on_close(reach_importers(self._session.replaced))

    def _count(self, kind: type[Any]) -> None:
        from lossleuth.observe.steps.trainees import calls_of_user

        original = kind.__init__
        made = self._made

        @wraps(original)
        def init(instance: Any, *args: Any, **kwargs: Any) -> None:
            frame = sys._getframe(1)
            original(instance, *args, **kwargs)
            made.append((instance, user_place(frame) or "", calls_of_user(frame)))
            if len(made) == self._request.forked_after:
                self._stand()

        self._session.replace(kind, "__init__", init)

    def _stand(self) -> None:
        """Fork for every request; returns in forks only."""
        import torch

        channel = self._channel.fileno()
        reason = why_not_to_fork({channel}, torch.get_num_threads())
        if reason is None and has_begun([instance for instance, _, _ in self._made]):
            reason = "its first training step has begun"
        if reason is not None:
            self._refuse(reason)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        here = os.getpid()
        answer(channel, {"state": "ready"})
        request = serve(Requests(channel), channel)
        if request is None:
            os._exit(0)
        self._channel.close()
        guard(here, request["scratch"])
        self._go_on(request)

    def _go_on(self, asked: dict[str, Any]) -> None:
        """Be the process that runs the script from its beginning, at this point of it."""
        try:
            os.environ[VARIABLE] = asked["environment"][VARIABLE]
            request = WatchRequest.read(os.environ[VARIABLE])
            part_from_parent()
            if self._is_protected and request.scratch is not None:
                before, kept = self._request.scratch or "", request.directory
                reason = protect_fork(self._folders, before, request.scratch, kept)
                if reason is not None:
                    raise OSError(reason)
            # Not before: the file would be one of the overlay until now.
            redirect_output(asked["output"])
            self._watch = Watch(request, main=True, loaded=self._made)
            self._watch.start()
        except Exception as error:
            print(f"lossleuth: this run could not go on: {error!r}", file=sys.stderr)
            os._exit(CANNOT_GO_ON)

    def _refuse(self, reason: str) -> NoReturn:
        answer(self._channel.fileno(), {"state": reason})
        os._exit(0)


def is_within(path: str, folder: str) -> bool:
    """Whether a path lies in a folder.

    >>> is_within("/tmp/a/b", "/tmp/a"), is_within("/tmp/ab", "/tmp/a")
    (True, False)
    """
    return Path(path).is_relative_to(os.path.realpath(folder))


def has_begun(made: Iterable[Any]) -> bool:
    """Whether a graph is alive that leads to a parameter of one of these optimizers."""
    for one in made:
        for group in getattr(one, "param_groups", ()):
            if any(_is_in_graph(p) for p in group["params"] if p.requires_grad):
                return True
    return False


def _is_in_graph(parameter: torch.Tensor) -> bool:
    """A graph keeps the node at which a parameter's gradient arrives; else it is made anew."""
    from torch.autograd.graph import get_gradient_edge

    mark = "lossleuth"
    _notes_of(get_gradient_edge(parameter).node)[mark] = True
    node = get_gradient_edge(parameter).node
    return _notes_of(node).pop(mark, None) is not None


def _notes_of(node: Any) -> dict[str, Any]:
    notes: dict[str, Any] = node.metadata
    return notes
