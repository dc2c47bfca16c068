"""Load `profiles/*.toml` and the user's rows as a `Matrix`, with a cache for speed.

Loading rows never runs code, not even from the cache, which is msgpack and is checked against the same types.
The cache is sealed, because rows decide what rocenv trusts: repositories, keys and hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from rocenv.core import model
from rocenv.core.codec import from_plain
from rocenv.core.errors import DataError, PrefixError
from rocenv.data.rows import Matrix
from rocenv.system.private import make_private
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.data.known import Known

SCHEMA = 1
HINT = "fix the row (docs/data.md describes the format) or remove the file"
MAX_BYTES = 8_000_000  # per file; rocenv's largest is 40,000
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CHECKED = re.compile(rb'\bchecked = "([0-9-]{10})"')
_STAMP_BYTES = 32

# Table name -> row type.
TABLES: Mapping[str, type[Known]] = {item.name: get_args(item.type)[0] for item in fields(Matrix)}


# Table -> (location, row); a location is a file, a table and a number.
_Rows = dict[str, list[tuple[str, "Known"]]]


def profiles_folder() -> Path:
    """Find the data folder: in the installed package, or in the checkout that rocenv runs from.

    `ROCENV_PROFILES` overrides it, for tests and for users who maintain their own data.
    """
    chosen = os.environ.get("ROCENV_PROFILES")
    if chosen:
        return Path(chosen)
    installed = Path(__file__).parents[1] / "profiles"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "profiles"


def data_files(folder: Path) -> list[Path]:
    """List the data files below a folder in a fixed order; the folder does not have to exist.

    Links to folders are not followed, because they could form a loop.

    Raises:
        DataError: The folder or a subfolder cannot be listed.
    """
    found = []
    for here, _, names in os.walk(folder, onerror=_refuse):
        found += [os.path.join(here, name) for name in names if name.endswith(".toml")]
    return [Path(path) for path in sorted(found)]


def load_cached(cache: Path, own: Path, key_file: Path) -> Matrix:
    """Load rocenv's rows and the user's rows from the cache, or from the files if any of them has changed.

    A cache that was not sealed with `key_file` is rebuilt. The cache and the folder with user rows do not
    have to exist. Raises the same errors as `load`.
    """
    folder = profiles_folder()
    stamp = _stamp(folder, own)
    with contextlib.suppress(OSError, ValueError, DataError):
        content = read_sealed(cache, key_file)
        if content[:_STAMP_BYTES] == stamp:
            return msgspec.msgpack.decode(memoryview(content)[_STAMP_BYTES:], type=Matrix)
    matrix = load(folder, own)
    # If the cache is not writable, the files are read every time: slower but correct.
    with contextlib.suppress(OSError, PrefixError):
        make_private(key_file.parent)
        cache.parent.mkdir(exist_ok=True)
        write_sealed(cache, stamp + msgspec.msgpack.encode(matrix), key_file)
    return matrix


def load(folder: Path | None = None, own: Path | None = None) -> Matrix:
    """Read all data files in a folder, by default rocenv's, and the user's rows.

    A user row replaces rocenv's row with the same `IDENTITY`, or is added if there is none.

    Raises:
        DataError: A file is damaged or needs a newer rocenv, or a row has an unknown key, no source or a
            broken reference, or contradicts another row. The message names the file and the row.
    """
    try:
        return _load(folder or profiles_folder(), own)
    except DataError as error:
        error.hints = error.hints or (HINT,)
        raise


def newest_day(folder: Path | None = None) -> date | None:
    """Return the latest `checked` date in rocenv's rows, or None if there are no rows.

    Unlike a loaded matrix, this ignores the user's rows.

    Raises:
        DataError: The folder cannot be listed.
    """
    days: set[bytes] = set()
    for path in data_files(folder or profiles_folder()):
        with contextlib.suppress(OSError):
            days.update(_CHECKED.findall(path.read_bytes()))
    valid = [day.decode() for day in days if _is_day(day.decode())]
    return max(map(date.fromisoformat, valid), default=None)


def _load(folder: Path, own: Path | None) -> Matrix:
    paths = data_files(folder)
    if not paths:
        raise DataError(f"`{folder}` does not contain any data files", hints=("check ROCENV_PROFILES",))
    rows = _read(paths)
    if own is not None and (own_paths := data_files(own)):
        own_rows = _read(own_paths)
        rows = {table: _merged(rows[table], own_rows[table]) for table in TABLES}
    if not rows["c_library"]:
        raise DataError(f"`{folder}` does not contain a `c_library` row")
    tables: dict[str, Any] = {table: tuple(row for _, row in found) for table, found in rows.items()}
    matrix = Matrix(**tables)
    for found in rows.values():
        _require_sound(found, matrix)
    return matrix


def _read(paths: list[Path]) -> _Rows:
    rows: _Rows = {table: [] for table in TABLES}
    for path in paths:
        try:
            _read_file(path, rows)
        except UnicodeDecodeError as error:
            raise DataError(f"cannot read `{path}`: byte {error.start + 1} is not UTF-8") from error
        except RecursionError as error:
            raise DataError(f"cannot read `{path}`: it is nested too deeply") from error
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read `{path}`: {error}") from error
    for found in rows.values():
        _require_unique(found)
    return rows


def _read_file(path: Path, rows: _Rows) -> None:
    plain = _parse(path)
    schema = plain.pop("schema", None)
    if type(schema) is not int or schema != SCHEMA:
        hint = f"the file must start with `schema = {SCHEMA}`"
        if type(schema) is int and schema > SCHEMA:
            hint = "upgrade rocenv or remove the file"
        raise DataError(f"`{path}` has schema {schema!r}; this rocenv reads schema {SCHEMA}", hints=(hint,))
    for name, table in plain.items():
        if name not in TABLES:
            raise DataError(f"unknown table `{name}` in `{path}`")
        if not isinstance(table, list):
            raise DataError(f"`{name}` in `{path}` is not an array of tables")
        for number, plain_row in enumerate(table):
            where = f"{path}: {name}[{number}]"
            row = from_plain(TABLES[name], plain_row, where)
            if not row.source.strip():
                raise DataError(f"`{where}` has no source")
            if not _is_day(row.checked):
                raise DataError(f"`checked` in `{where}` is {row.checked!r}, not a date such as `2026-11-20`")
            rows[name].append((where, row))


def _parse(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    if not path.is_file():
        raise DataError(f"cannot read `{path}`: it is not a file, or it is a broken link")
    if path.stat().st_size > MAX_BYTES:
        raise DataError(f"cannot read `{path}`: it is larger than {MAX_BYTES:,} bytes")
    return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # Windows editors add a byte order mark


def _is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _require_unique(rows: list[tuple[str, Known]]) -> None:
    """Raise DataError if two rows describe the same thing."""
    seen: dict[object, str] = {}
    for where, row in rows:
        other = seen.setdefault(row.identity, where) if row.identity else where
        if other != where:
            values = ((name, getattr(row, name)) for name in row.IDENTITY)
            about = ", ".join(f"{name} = {value!r}" for name, value in values if value)
            raise DataError(f"`{where}` duplicates `{other}`: {about}")


def _merged(rows: list[tuple[str, Known]], own: list[tuple[str, Known]]) -> list[tuple[str, Known]]:
    """Add the user's rows and drop the rows that they replace."""
    replaced = {row.identity for _, row in own} - {None}
    claimed = {about for _, row in own for about, _ in row.claims()}
    kept = [
        (where, reduced)
        for where, row in rows
        if row.identity not in replaced and (reduced := row.reduced_by(claimed)) is not None
    ]
    return [*kept, *own]


def _require_sound(rows: list[tuple[str, Known]], matrix: Matrix) -> None:
    """Raise DataError if a row is invalid or contradicts another row in its table."""
    said: dict[tuple[str, ...], tuple[str, str]] = {}
    for where, row in rows:
        for fault in row.all_faults(matrix):
            raise DataError(f"{fault} (`{where}`)")
        for about, value in row.claims():
            other, other_value = said.setdefault(about, (where, value)) if value else ("", "")
            if value != other_value:
                subject = ", ".join(filter(None, about))
                raise DataError(f"`{where}` has `{value}` for {subject}, but `{other}` has `{other_value}`")


def _stamp(folder: Path, own: Path) -> bytes:
    """Hash everything that the cache depends on."""
    stamp = hashlib.sha256(ascii((sys.version_info[:3], str(folder), str(own))).encode())
    code = sorted(Path(__file__).parent.glob("*.py"))
    for path in (*data_files(folder), *data_files(own), *code, Path(model.__file__)):
        stamp.update(ascii((str(path), _status(path))).encode())
    return stamp.digest()


def _status(path: Path) -> tuple[int, ...]:
    """Collect metadata that reveals changes to a file; unlike its mtime, a file's ctime cannot be set."""
    try:
        status = os.stat(path)
    except OSError:  # reading the file reports the error
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise DataError(
            f"cannot list the data files in `{error.filename}`: {error.strerror}",
            hints=("make it a readable folder or remove it",),
        ) from error
