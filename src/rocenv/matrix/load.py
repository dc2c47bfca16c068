"""`profiles/*.toml` -> `Matrix`: rocenv's own rows, and the user's, which add to them or take their place."""

from __future__ import annotations

import re
import sys
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from rocenv.codec import from_plain
from rocenv.errors import DataError
from rocenv.matrix import checks, hardware, knowledge, reference, releases
from rocenv.matrix.folder import profiles_folder
from rocenv.matrix.rows import (
    Channel,
    CLibrary,
    EnvRow,
    KeepOut,
    Matrix,
    Repo,
    Watched,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocenv.matrix.checks import Placed
    from rocenv.matrix.known import Known

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
_DAY = re.compile(r"\d{4}-\d\d-\d\d")

# Table name in the files -> what its rows are.
TABLES: Mapping[str, type[Known]] = {
    "repo": Repo,
    "channel": Channel,
    "keep_out": KeepOut,
    "c_library": CLibrary,
    "environment": EnvRow,
    "watched": Watched,
    **hardware.TABLES,
    **releases.TABLES,
    **knowledge.TABLES,
    **reference.TABLES,
}

# Tables that the matrix has by the name of their rows, and what it calls them.
_NAMED = {"repo": "repos", "channel": "channels", "target": "targets"}
_FIELDS = {**_NAMED, "c_library": "c_libraries"}


def data_files(folder: Path) -> list[Path]:
    """Return the data files below a folder, in a fixed order."""
    return sorted(folder.rglob("*.toml"))


def load(folder: Path | None = None, own: Path | None = None) -> Matrix:
    """Return the matrix of all data files below a folder, by default rocenv's own, with the user's rows.

    Args:
        folder: Where rocenv's data lies.
        own: The user's folder, which need not exist. A row there takes the place of the one that is about
            the same (`checks.IDENTITY`), or is added.

    Raises:
        DataError: A file is damaged, has an unknown key, misses a source, is newer than this rocenv, refers
            to something that is not there, or contradicts another row; names the file and the key path.
    """
    folder = folder or profiles_folder()
    paths = data_files(folder)
    if not paths:
        raise DataError(f"`{folder}` holds no data files", hints=("check ROCENV_PROFILES",))
    rows = _read(paths)
    checks.require_one_each(rows)
    if own is not None and (own_paths := data_files(own)):
        own_rows = _read(own_paths)
        checks.require_one_each(own_rows)
        rows = {table: checks.merged(table, rows[table], own_rows[table]) for table in TABLES}
    if not rows["c_library"]:
        raise DataError(f"`{folder}` names no `c_library`")
    checks.check(rows)
    return _matrix(rows)


def _matrix(rows: Mapping[str, list[Placed]]) -> Matrix:
    values: dict[str, Any] = {}
    for table in TABLES:
        found = [placed.row for placed in rows[table]]
        values[_FIELDS.get(table, table)] = (
            {row.name: row for row in found} if table in _NAMED else tuple(found)
        )
    return Matrix(**values)


def _read(paths: list[Path]) -> dict[str, list[Placed]]:
    rows: dict[str, list[Placed]] = {table: [] for table in TABLES}
    for path in paths:
        _read_file(path, rows)
    return rows


def _read_file(path: Path, rows: dict[str, list[Placed]]) -> None:
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read `{path}`: {error}") from error
    schema = plain.pop("schema", None)
    if schema != SCHEMA:
        raise DataError(
            f"`{path}` has schema {schema!r}; this rocenv reads schema {SCHEMA}",
            hints=("upgrade rocenv: `python -m pip install --upgrade rocenv`",),
        )
    for name, table in plain.items():
        if name not in TABLES:
            raise DataError(f"unknown table `{name}` in `{path}`")
        if not isinstance(table, list):
            raise DataError(f"`{name}` in `{path}` is not a list of tables")
        for number, row in enumerate(table):
            where = f"{path}: {name}[{number}]"
            value = from_plain(TABLES[name], row, where)
            if not value.source.strip():
                raise DataError(f"`{where}` has no source")
            if _DAY.fullmatch(value.checked) is None:
                raise DataError(f"`checked` in `{where}` is {value.checked!r}, not a day like `2026-11-20`")
            rows[name].append(checks.Placed(where=where, row=_interned(value)))


def _interned(row: Known) -> Known:
    """Return a row whose strings are shared with other rows: thousands of them are the same few sources."""
    changed: dict[str, Any] = {
        item.name: sys.intern(value)
        for item in fields(row)
        if isinstance(value := getattr(row, item.name), str) and value
    }
    return replace(row, **changed)
