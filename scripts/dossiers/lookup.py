"""Finding one row of the matrix, and comparing what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

Row = Mapping[str, Any]
Check = Callable[[Row, "Matrix"], None]  # raises Fault


class Fault(Exception):
    """A row is not in `profiles/`, or not as the dossier has it; the text says what."""


def rows_of(matrix: Matrix, table: str) -> Iterable[Any]:
    found = getattr(matrix, {"target": "targets"}.get(table, table))
    return found.values() if isinstance(found, Mapping) else found


def one(matrix: Matrix, table: str, key: Row) -> Any:
    for row in rows_of(matrix, table):
        if all(plain(getattr(row, name)) == plain(value) for name, value in key.items()):
            return row
    raise Fault("not there: " + ", ".join(f"{name} = {value!r}" for name, value in key.items()))


def plain(value: Any) -> Any:
    """Return a value as it compares: what is left out in one file may be empty, or a dash, in the other."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value)) or None
    return None if value in ("", "-", 0, False) else value


def same(row: Any, values: Row) -> None:
    for name, value in values.items():
        if plain(getattr(row, name)) != plain(value):
            raise Fault(f"`{name}` is {getattr(row, name)!r}, and {value!r} in the dossier")


def carried(table: str, key: str, values: str = "", **constants: str) -> Check:
    """Return the check of rows that were taken over as they are.

    Args:
        table: Of profiles/.
        key: Fields that find the row; `target=gfx` = what the dossier calls `gfx` is `target` here.
        values: Fields that must agree.
        **constants: More of the key.
    """

    def picked(fields: str, row: Row) -> dict[str, Any]:
        pairs = [field.partition("=") for field in fields.split()]
        return {ours: row.get(theirs or ours) for ours, _, theirs in pairs}

    def check(row: Row, matrix: Matrix) -> None:
        same(one(matrix, table, {**picked(key, row), **constants}), picked(values, row))

    return check


def fact(about: str, text: str, key: str = "") -> Check:
    """Return the check of rows that became facts: `text` and `key` have places for their fields."""

    def check(row: Row, matrix: Matrix) -> None:
        whole, of = text.format(**row), (about, key.format(**row))
        # Some were cut where they began to speak of something else.
        if not any((found.about, found.key) == of and whole.startswith(found.text) for found in matrix.fact):
            raise Fault(f"no fact about {' '.join(of).strip()}: {whole}")

    return check
