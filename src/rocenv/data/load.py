"""`profiles/*.toml` -> `Matrix`: rocenv's own rows, and the user's, which add to them or take their place."""

from __future__ import annotations

import re
import sys
from dataclasses import fields, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from rocenv.core.codec import from_plain
from rocenv.core.errors import DataError
from rocenv.data import (
    app_builds,
    app_releases,
    app_sets,
    apps,
    checks,
    hardware,
    knobs,
    knowledge,
    recipes,
    reference,
    releases,
    rules,
    zluda,
)
from rocenv.data.folder import data_files, profiles_folder
from rocenv.data.rows import (
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

    from rocenv.data.checks import Placed
    from rocenv.data.known import Known

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
HINT = "put the row right (docs/data.md says how rows are written), or move its file away"
MOST_BYTES = 8_000_000  # of one file; rocenv's longest has 40,000
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")

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
    **zluda.TABLES,
    **knowledge.TABLES,
    **reference.TABLES,
    **apps.TABLES,
    **app_sets.TABLES,
    **app_builds.TABLES,
    **app_releases.TABLES,
    **recipes.TABLES,
    **knobs.TABLES,
    **rules.TABLES,
}

# Tables that the matrix has by the name of their rows, and what it calls them.
_NAMED = {"repo": "repos", "channel": "channels", "target": "targets"}
_FIELDS = {**_NAMED, "c_library": "c_libraries"}


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
    try:
        return _load(folder or profiles_folder(), own)
    except DataError as error:
        error.hints = error.hints or (HINT,)
        raise


def _load(folder: Path, own: Path | None) -> Matrix:
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
        try:
            _read_file(path, rows)
        except UnicodeDecodeError as error:
            raise DataError(f"cannot read `{path}`: it is not UTF-8 (byte {error.start + 1})") from error
        except RecursionError as error:
            raise DataError(f"cannot read `{path}`: its values are nested too deeply") from error
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read `{path}`: {error}") from error
    return rows


def _read_file(path: Path, rows: dict[str, list[Placed]]) -> None:
    plain = _toml(path)
    schema = plain.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:
        hint = f"the file must begin with `schema = {SCHEMA}`"
        if type(schema) is int and schema > SCHEMA:
            hint = "upgrade rocenv: `python -m pip install --upgrade rocenv`"
        raise DataError(f"`{path}` has schema {schema!r}; this rocenv reads schema {SCHEMA}", hints=(hint,))
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
            if not _is_day(value.checked):
                raise DataError(f"`checked` in `{where}` is {value.checked!r}, not a day like `2026-11-20`")
            rows[name].append(checks.Placed(where=where, row=_interned(value)))


def _toml(path: Path) -> dict[str, Any]:
    """Return the content of a file; editors of Windows put a byte order mark before it."""
    if not path.is_file():
        raise DataError(f"cannot read `{path}`: no file, or a link that leads to none")
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"cannot read `{path}`: it has more than {MOST_BYTES:,} bytes")
    return tomllib.loads(path.read_text(encoding="utf-8-sig"))


def _is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _interned(row: Known) -> Known:
    """Return a row whose strings are shared with other rows: thousands of them are the same few sources."""
    changed: dict[str, Any] = {
        item.name: sys.intern(value)
        for item in fields(row)
        if isinstance(value := getattr(row, item.name), str) and value
    }
    return replace(row, **changed)
