"""What can go wrong in a way that a person can do something about.

Every error names the thing it is about; `hints` are things to do next, preferably commands that can be
pasted. Bad news from hardware is no error: it is a `RungResult`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.logins import mask_logins

if TYPE_CHECKING:
    from rocenv.core.model import Rejection, Suggestion


class RocenvError(Exception):
    """An expected failure: printed as text without a traceback, exit code 1.

    Attributes:
        message: One sentence, no final period, without passwords in addresses.
        hints: What to do next, one line each; without passwords too.
        code: A stable word for `--json`.
    """

    code = "failed"
    exit_code = 1

    def __init__(self, message: str, *, hints: tuple[str, ...] = (), code: str | None = None) -> None:
        self.message = mask_logins(message)
        super().__init__(self.message)
        self.hints = tuple(map(mask_logins, hints))
        if code is not None:
            self.code = code


class WrongUsage(RocenvError):
    """The command line asks for something that does not exist or makes no sense."""

    code = "usage"
    exit_code = 2


class DataError(RocenvError):
    """A data file (profile, record, lock, configuration) is not what it must be; names file and key path."""

    code = "data-invalid"


class ResolutionImpossible(RocenvError):
    """No set of the matrix fits the request.

    Attributes:
        rejections: Why each candidate was dropped.
        suggestions: What would work, best first.
    """

    code = "resolution-impossible"

    def __init__(
        self,
        message: str,
        *,
        rejections: tuple[Rejection, ...] = (),
        suggestions: tuple[Suggestion, ...] = (),
        hints: tuple[str, ...] = (),
    ) -> None:
        commands = tuple(suggestion.command for suggestion in suggestions)
        super().__init__(message, hints=hints or commands)
        self.rejections = rejections
        self.suggestions = suggestions


class NotAvailable(RocenvError):
    """A source does not have a part of a set as it was asked for."""

    code = "set-incomplete"


class FetchError(RocenvError):
    """A download failed, or is not the file that was promised."""

    code = "fetch-failed"


class ArchiveError(RocenvError):
    """A package is damaged or holds a member that must not be unpacked."""

    code = "archive-refused"


class PrefixError(RocenvError):
    """An env exists, is missing, is incomplete, is in use, or its files cannot be changed."""

    code = "env"
