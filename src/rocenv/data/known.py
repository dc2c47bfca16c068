"""What every row of the matrix has: where it was read, when, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

# `maker`: stated by who makes the thing. `tested`: run by this project. `reported`: users or third parties
# say so. `inferred`: follows from other facts, read nowhere.
Status = Literal["maker", "tested", "reported", "inferred"]

# How much a status counts for, best first.
STATUS_RANK: dict[Status, int] = {"maker": 0, "tested": 0, "reported": 1, "inferred": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A fact with its source; a row without one does not load."""

    provided_by: ClassVar[str] = ""  # the entry of `rocenv.sources.SOURCES` that has the files of such a row

    status: Status
    source: str
    checked: str  # "2026-11-20"
