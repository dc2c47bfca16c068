"""What the env's Python noted of the libraries that it loads, while an app ran.

`rocenv.install.venv_start` writes it, a line each: `load PATH`, then `loaded PATH` or `failed PATH: why`; and
`torch` once that is imported. All Pythons of an app write to one file; what counts is how it ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

VARIABLE = "ROCENV_TRACE"  # names the file
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How a trace ends."""

    last: str = ""  # the library that was loaded last; "" = none
    inside: bool = False  # its loading never came to an end
    failed: str = ""  # it could not be loaded, and why: "PATH: why"
    torch: bool = False  # torch was imported after that
    lines: tuple[str, ...] = ()  # all of it

    @property
    def is_bad(self) -> bool:
        """It ends with a library that did not load."""
        return self.inside or bool(self.failed)


def parse_trace(text: str) -> Trace:
    """Return how a trace ends; a line that makes no sense is passed over."""
    last, inside, failed, torch = "", False, "", False
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "load":
            last, inside, failed, torch = rest.strip(), True, "", False
        elif word == "loaded" and rest.strip() == last:
            inside = False
        elif word == "failed":
            inside, failed = False, rest.strip()
        elif word == "torch":
            torch = True
    return Trace(last=last, inside=inside, failed=failed, torch=torch, lines=tuple(text.splitlines()))


def read_trace(path: Path | None) -> Trace:
    """Return how the trace in a file ends; empty where there is none."""
    if path is None:
        return Trace()
    try:
        with path.open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - _MOST_BYTES))
            return parse_trace(stream.read().decode("utf-8", "replace"))
    except OSError:
        return Trace()
