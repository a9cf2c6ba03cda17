"""Errors that a person can act on.

    KeyelabError            what was expected, what was found, where; exit code 1
    ├── UsageError          the request itself is wrong (unknown key, bad type); exit code 2
    ├── CommandFailed       a program ran and failed
    ├── ProgramMissing      a program is not on PATH
    └── NeedsPhase          an earlier phase has left no facts

An expected failure is one of these and is printed as one sentence and one hint; anything
else is a bug and keeps its traceback.
"""

from __future__ import annotations

from pathlib import Path


class KeyelabError(Exception):
    """An expected failure: `message` says expected, found and where; `hint` what to type next.

    `diagnosis` is markdown that a record shows besides: what the logs say.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "", diagnosis: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class UsageError(KeyelabError):
    """The request is wrong before anything was done."""

    exit_code = 2


class CommandFailed(KeyelabError):
    """A program ended with an exit status that was not asked for, or ran out of time."""

    def __init__(
        self, message: str, hint: str, *, returncode: int | None, log: Path | None
    ) -> None:
        super().__init__(message, hint)
        self.returncode = returncode
        self.log = log


class ProgramMissing(KeyelabError):
    """A program is not on the PATH it was looked up on."""


class NeedsPhase(KeyelabError):
    """The facts of an earlier phase are needed and not there."""
