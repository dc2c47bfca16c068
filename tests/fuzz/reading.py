"""What an input may do to a reader."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from rocenv.core.errors import RocenvError
from tests.fuzz.targets import TARGETS

MOST_MB = 300  # that one input may add; readers take at most a few dozen for what is small


class TooMuch(Exception):
    """An input took more memory than any may."""


def read(name: str, data: bytes) -> str:
    """Have a target read an input; return why it was refused, "" if it was not.

    Raises:
        Exception: What no reader may raise; that is what fuzzing looks for.
    """
    target = TARGETS[name]
    before = _peak_mb()
    why = ""
    with tempfile.TemporaryDirectory(prefix="rocenv-fuzz-") as folder:
        try:
            target.run(data, Path(folder))
        except RocenvError as error:
            why = error.message
    if _peak_mb() - before > MOST_MB:
        raise TooMuch(f"{_peak_mb() - before} MB for {len(data)} bytes")
    return why


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
