"""Our own failures: they are counted, named once at the end, and never reach the user's run."""

from __future__ import annotations


class Failures:
    """How often something of ours went wrong, and what it was the first time."""

    def __init__(self) -> None:
        self.count = 0
        self.first: str | None = None

    def note(self, where: str, error: BaseException) -> None:
        """Count a failure.

        >>> failures = Failures()
        >>> failures.note("on_step", ValueError("no"))
        >>> failures.sentence()
        'lossleuth itself failed 1 time while watching (first: ValueError in on_step: no)'
        """
        self.count += 1
        if self.first is None:
            self.first = f"{type(error).__name__} in {where}: {error}"

    def sentence(self) -> str | None:
        """One sentence for the end of the run, or None if all went well."""
        if not self.count:
            return None
        times = "1 time" if self.count == 1 else f"{self.count} times"
        return f"lossleuth itself failed {times} while watching (first: {self.first})"
