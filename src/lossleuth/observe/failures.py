"""Internal errors: counted, reported once at the end, and kept out of the user's run."""

from __future__ import annotations


class Failures:
    """How many internal errors there were, and what the first one was."""

    def __init__(self) -> None:
        self.count = 0
        self.first: str | None = None

    def note(self, where: str, error: BaseException) -> None:
        """Count a failure.

        >>> failures = Failures()
        >>> failures.note("on_step", ValueError("no"))
        >>> failures.sentence()
        '1 internal error while watching, your run was not affected (ValueError in on_step: no)'
        """
        self.count += 1
        if self.first is None:
            self.first = f"{type(error).__name__} in {where}: {error}"

    def sentence(self) -> str | None:
        """One sentence for the end of the run, or None without errors."""
        if not self.count:
            return None
        errors = "1 internal error" if self.count == 1 else f"{self.count} internal errors"
        first = "" if self.count == 1 else "first: "
        return f"{errors} while watching, your run was not affected ({first}{self.first})"
