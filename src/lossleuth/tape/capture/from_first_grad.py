"""A tape that begins with a forward pass, where nothing tells when an update by hand is over."""

from __future__ import annotations

from typing import Any

import torch

from lossleuth.tape.capture.compiler_marks import never_compile
from lossleuth.tape.capture.dispatch import Capture
from lossleuth.tape.op_schemas import tensors_in
from lossleuth.torch_internals import OpOverload, plain_dispatch


class PatientCapture(Capture):  # type: ignore[no-untyped-call]  # untyped base
    """Lets everything pass until something is computed that has a gradient."""

    waiting = True

    @never_compile
    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record an operation, if it is time, and carry it out."""
        if self.waiting and not self.own.depth:
            tensors = tensors_in((args, kwargs or {}))
            # `.data` detaches: what comes of it has no gradient.
            cut = func is torch.ops.aten.detach.default or not torch.is_grad_enabled()
            if cut or not any(t.requires_grad for t in tensors):
                return func(*args, **(kwargs or {}))
            self.waiting = False
        return super().__torch_dispatch__(func, types, args, kwargs)


PatientCapture.__torch_dispatch__ = plain_dispatch(PatientCapture)  # type: ignore[method-assign]  # as written
