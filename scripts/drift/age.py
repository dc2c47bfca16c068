"""Rows whose source was last checked longer ago than their table allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from rocenv.data.load import TABLES

if TYPE_CHECKING:
    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """An outdated row."""

    table: str
    row: str  # its identity: `version=7.2.0 channel=amd`
    checked: str
    age_days: int
    allowed_days: int
    source: str


def old_rows(matrix: Matrix, today: date) -> list[Old]:
    """List the outdated rows, oldest first."""
    found = []
    for table, kind in TABLES.items():
        allowed = kind.FRESH_DAYS
        if allowed is None:
            continue
        for row in getattr(matrix, table):
            age = (today - date.fromisoformat(row.checked)).days
            if age > allowed:
                found.append(
                    Old(
                        table=table,
                        row=_identity(row),
                        checked=row.checked,
                        age_days=age,
                        allowed_days=allowed,
                        source=row.source,
                    )
                )
    return sorted(found, key=lambda old: (-old.age_days, old.table, old.row))


def _identity(row: Known) -> str:
    fields = row.IDENTITY or tuple(name for name in ("about", "pattern", "text") if hasattr(row, name))
    pairs = ((name, getattr(row, name)) for name in fields)
    return " ".join(f"{name}={_shortened(value)}" for name, value in pairs if value not in ("", ()))


def _shortened(value: object) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
