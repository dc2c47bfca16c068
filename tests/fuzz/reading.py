"""Resource limits for parsing one input."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from rocenv.core.errors import RocenvError
from tests.fuzz.targets import TARGETS

MOST_MB = 300  # per input; small inputs need no more than a few dozen MB


class TooMuch(Exception):
    """Raised for an input that takes too much memory."""


def read(name: str, data: bytes) -> str:
    """Run a target on an input; return why it was rejected, or "" if it was accepted.

    Raises:
        Exception: Any exception other than RocenvError; fuzzing looks for these.
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
