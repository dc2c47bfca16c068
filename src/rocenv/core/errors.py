"""Errors that users can act on.

Each error identifies the file, env or value at fault. `hints` are the next steps, preferably commands to
paste. A failing GPU is reported as a `RungResult`, not as an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.logins import mask_logins

if TYPE_CHECKING:
    from rocenv.core.model import Lock, Rejection, Suggestion


class RocenvError(Exception):
    """An expected failure, printed without a traceback; the exit code is 1 unless a subclass overrides it.

    Attributes:
        message: One sentence without a final period; passwords in URLs are masked.
        hints: Next steps, one line each; passwords are masked here too.
        code: A stable identifier for `--json`.
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
    """Invalid command-line arguments."""

    code = "usage"
    exit_code = 2


class Declined(RocenvError):
    """The user answered no, so nothing was changed."""

    code = "declined"

    def __init__(self) -> None:
        super().__init__("nothing was changed because you answered no")


class DataError(RocenvError):
    """An invalid data file (profile, record, lock, configuration); the message shows the file and the key."""

    code = "data-invalid"


class ResolutionImpossible(RocenvError):
    """No set in the matrix satisfies the request.

    Attributes:
        rejections: Why each candidate was rejected.
        suggestions: Commands that would work, best first.
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
        commands = tuple(
            f"{each.label}: `{each.command}`" if each.label else each.command for each in suggestions
        )
        super().__init__(message, hints=hints or commands)
        self.rejections = rejections
        self.suggestions = suggestions


class NotAvailable(RocenvError):
    """A source does not have a requested component, or part of it."""

    code = "set-incomplete"


class FetchError(RocenvError):
    """A download failed, or does not match the expected hash."""

    code = "fetch-failed"


class OnlyFallback(RocenvError):
    """The preferred set cannot be downloaded, but a worse one can; `lock` is the plan for the worse set."""

    code = "fallback"

    def __init__(self, message: str, *, lock: Lock, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints)
        self.lock = lock


class ArchiveError(RocenvError):
    """A package is damaged or contains an entry that is unsafe to unpack."""

    code = "archive-refused"


class PrefixError(RocenvError):
    """An env already exists or is missing, incomplete or in use, or its files cannot be changed."""

    code = "env"


class NoSpace(PrefixError):
    """A disk is full, or too full for a set; `commands.no_space` replaces the hint with this disk's figures.

    Attributes:
        place: A path on that disk.
        needed_bytes: Space that the set needs, or 0 if unknown.
        free_bytes: Free space, or 0 if none or unknown.
        keep: The hashes of the set's files, which a second attempt needs.
    """

    code = "no-space"

    def __init__(
        self,
        message: str,
        place: str,
        *,
        needed_bytes: int = 0,
        free_bytes: int = 0,
        keep: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(message, hints=("`rocenv gc` and `rocenv cache clear` free disk space",))
        self.place = place
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        self.keep = keep
