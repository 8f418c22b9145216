"""A probe: what it finds, and how it runs on a recorded step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lossleuth.findings.finding import Finding, name_of
from lossleuth.probes.analysis import Analysis

Found = Finding | Iterable[Finding] | None


@dataclass(frozen=True)
class Probe:
    """One measurement. Every file in a folder of this package that has a `PROBE` is one."""

    finds: type[Finding]
    run: Callable[[Analysis], Found]
    # Whether it looks at steps of programs without autograd, which the others cannot.
    without_autograd: bool = False

    @property
    def id(self) -> str:
        """Its name: that of what it finds, and of its file."""
        return name_of(self.finds)
