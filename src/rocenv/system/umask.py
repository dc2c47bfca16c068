"""The umask: what this process makes, nobody else can write to; programs of the user have the user's own."""

from __future__ import annotations

import os

_of_user: list[int] = []


def limit(mask: int) -> int:
    """Add `mask` to the umask of this process, and return what it was before."""
    before = os.umask(0o077)
    os.umask(before | mask)
    _of_user[:] = [before]
    return before


def of_user() -> int:
    """The umask that this process was started with; -1 if it was not changed."""
    return _of_user[0] if _of_user else -1
