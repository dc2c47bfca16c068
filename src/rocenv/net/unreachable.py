"""Remember for some minutes which channels and indices are unreachable, to spare commands the timeout."""

from __future__ import annotations

import contextlib
import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocenv.core.codec import load_json
from rocenv.core.errors import DataError, FetchError
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.config import Mirrors
    from rocenv.home import Home

REMEMBERED_FOR_S = 600


@contextmanager
def tracked(place: str, home: Home, mirrors: Mirrors, *, ask_anyway: bool, hint: str = "") -> Iterator[None]:
    """Remember whether `place`, a channel or the host of an index, answers in the body.

    Args:
        place: What is asked.
        home: Where failures are kept.
        mirrors: Those set now; a failure with others does not count.
        ask_anyway: Ask even if it did not answer some minutes ago.
        hint: What to do instead of waiting.

    Raises:
        FetchError: It did not answer some minutes ago, or the body raised this.
    """
    known = None if ask_anyway else recall(place, home, mirrors, hint=hint)
    if known is not None:
        raise known
    try:
        yield
    except FetchError as failure:
        remember(place, failure, home, mirrors)
        raise
    forget(place, home)


def recall(channel: str, home: Home, mirrors: Mirrors, *, hint: str = "") -> FetchError | None:
    """Return how a channel failed some minutes ago; None if it did not, or mirrors have changed since."""
    try:
        note = load_json(_file(channel, home))
        age_s = time.time() - float(note["at_s"])
        same_mirrors = note["mirrors"] == repr(mirrors)
        message = str(note["message"])
    except (OSError, DataError, KeyError, TypeError, ValueError):
        return None
    if not 0 <= age_s < REMEMBERED_FOR_S or not same_mirrors:
        return None
    return FetchError(
        f"{message} (tried {age_s / 60:.0f} min ago)",
        hints=(hint or f"try again now: `--channel {channel}`",),
        code="unreachable",
    )


def remember(channel: str, failure: FetchError, home: Home, mirrors: Mirrors) -> None:
    """Note that a channel is unreachable; other failures are not noted."""
    if failure.code != "unreachable":
        return
    note = {"at_s": time.time(), "message": failure.message, "mirrors": repr(mirrors)}
    # Without the note the next command waits once more, no worse.
    with contextlib.suppress(OSError):
        home.indices.mkdir(parents=True, exist_ok=True)
        write_atomic(_file(channel, home), json.dumps(note).encode())


def forget(channel: str, home: Home) -> None:
    """Note that a channel answers."""
    with contextlib.suppress(OSError):
        _file(channel, home).unlink()


def _file(channel: str, home: Home) -> Path:
    return home.indices / f"unreachable-{channel.replace(':', '_')}.json"
