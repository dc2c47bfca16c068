"""Remember unreachable channels and indexes for a few minutes to avoid repeated timeouts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, FetchError
from rocenv.core.foreign import load_json
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.config import Mirrors
    from rocenv.context import Context

REMEMBERED_FOR_S = 600
_MINUTE_S = 60


@contextlib.contextmanager
def tracked(place: str, context: Context, *, named: bool = False, hint: str = "") -> Iterator[None]:
    """Record whether the body of a `with` statement can reach `place`.

    Args:
        place: The channel or index host that the body contacts.
        context: Its home stores the record; failures recorded with different mirrors are ignored.
        named: Whether the user specified `place`; if so, earlier failures are ignored.
        hint: What to do instead of waiting.

    Raises:
        FetchError: The host was unreachable a few minutes ago, or a request in the body fails.
    """
    mirrors = context.network.mirrors
    file = context.home.indices / f"unreachable-{place.replace(':', '_')}.json"
    if context.max_age_s and not named and not context.network.is_offline:
        _require_no_failure(file, mirrors, hint or f"to try it again now, add `--channel {place}`")
    try:
        yield
    except FetchError as failure:
        if failure.code == "unreachable":
            note = {"at_s": time.time(), "message": failure.message, "mirrors": _digest(mirrors)}
            # If this fails, the next command has to wait for the timeout again.
            with contextlib.suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(file, json.dumps(note).encode())
        raise
    with contextlib.suppress(OSError):
        file.unlink()


def _require_no_failure(file: Path, mirrors: Mirrors, hint: str) -> None:
    """Raise a failure recorded in the last few minutes, unless the mirrors have changed since then."""
    try:
        note = load_json(file)
        age_s = time.time() - float(note["at_s"])
        same_mirrors = note["mirrors"] == _digest(mirrors)
        ago = f"{age_s / 60:.0f} min ago" if age_s >= _MINUTE_S else "just now"
        message = f"{note['message']} (tried {ago})"
    except (OSError, DataError, KeyError, TypeError, ValueError):
        return
    if 0 <= age_s < REMEMBERED_FOR_S and same_mirrors:
        raise FetchError(message, hints=(hint,), code="unreachable")


def _digest(mirrors: Mirrors) -> str:
    """Hash the mirrors, so that the passwords in their URLs are not stored."""
    return hashlib.sha256(repr(mirrors).encode()).hexdigest()
