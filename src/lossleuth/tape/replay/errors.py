"""The error of a replay."""


class CannotReplay(Exception):
    """We cannot reproduce what an operation means. The reason is shown to the user."""
