"""`profiles/*.toml` -> `Matrix`; references between the files are checked here, once."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from rocenv.codec import from_plain
from rocenv.errors import DataError
from rocenv.matrix.rows import Channel, CLibrary, EnvRow, KeepOut, Matrix, Repo, RocmSet, TorchSet, Watched

if TYPE_CHECKING:
    from collections.abc import Mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA = 1
Rows = dict[str, list[tuple[str, Any]]]  # of each table: where a row stands, and the row

# Table name in the files -> what its rows are.
TABLES: Mapping[str, type] = {
    "repo": Repo,
    "channel": Channel,
    "rocm": RocmSet,
    "torch": TorchSet,
    "keep_out": KeepOut,
    "c_library": CLibrary,
    "environment": EnvRow,
    "watched": Watched,
}


def profiles_folder() -> Path:
    """Return the folder of the data: beside the installed package, or in the checkout it is run from.

    `ROCENV_PROFILES` names a folder to read instead: for tests, and for who keeps a matrix of their own.
    """
    chosen = os.environ.get("ROCENV_PROFILES")
    if chosen:
        return Path(chosen)
    installed = Path(__file__).parents[1] / "profiles"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "profiles"


def load(folder: Path | None = None) -> Matrix:
    """Return the matrix of all data files below a folder, by default rocenv's own.

    Raises:
        DataError: A file is damaged, has an unknown key, misses a source, is newer than this rocenv, or
            refers to something that is not there; names the file and the key path.
    """
    folder = folder or profiles_folder()
    rows: Rows = {name: [] for name in TABLES}
    paths = sorted(folder.rglob("*.toml"))
    if not paths:
        raise DataError(f"`{folder}` holds no data files", hints=("check ROCENV_PROFILES",))
    for path in paths:
        _read_file(path, rows)
    matrix = Matrix(
        repos=_by_name(rows["repo"]),
        channels=_by_name(rows["channel"]),
        rocm=_values(rows["rocm"]),
        torch=_values(rows["torch"]),
        keep_out=_values(rows["keep_out"]),
        c_libraries=_values(rows["c_library"]),
        environment=_values(rows["environment"]),
        watched=_values(rows["watched"]),
    )
    if not matrix.c_libraries:
        raise DataError(f"`{folder}` names no `c_library`")
    _check_sources(matrix, rows)
    _check_sets(matrix, rows)
    return matrix


def _read_file(path: Path, rows: Rows) -> None:
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
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
            value: Any = from_plain(TABLES[name], row, where)
            if not value.source or not value.checked:
                raise DataError(f"`{where}` has no source, or not the day it was checked")
            rows[name].append((where, value))


def _values(rows: list[tuple[str, Any]]) -> tuple[Any, ...]:
    return tuple(value for _, value in rows)


def _by_name(rows: list[tuple[str, Any]]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for where, row in rows:
        _require(row.name not in named, where, f"`name`: `{row.name}` is there twice")
        named[row.name] = row
    return named


def _check_sources(matrix: Matrix, rows: Rows) -> None:
    for where, repo in rows["repo"]:
        trusted = bool(repo.fingerprints) if repo.key_url else bool(repo.keyrings)
        _require(trusted, where, "`keyrings`, or `key_url` with `fingerprints`, must say whom to trust")
        for fingerprint in repo.fingerprints:
            _require(
                re.fullmatch("[0-9A-F]{40,64}", fingerprint) is not None,
                where,
                f"`fingerprints`: `{fingerprint}` is not written as 40 hexadecimal digits in capitals",
            )
    for where, channel in rows["channel"]:
        for name in channel.repos:
            _require(name in matrix.repos, where, f"`repos` names `{name}`, which is not there")


def _check_sets(matrix: Matrix, rows: Rows) -> None:
    seen = set()
    for where, row in rows["rocm"]:
        _require(
            row.channel in matrix.channels, where, f"`channel` names `{row.channel}`, which is not there"
        )
        _require((row.version, row.channel) not in seen, where, f"ROCm {row.version} is there twice")
        _require(bool(row.packages), where, "`packages` is empty")
        _require(
            not row.floating or bool(row.version_package), where, "`version_package` is missing: it floats"
        )
        seen.add((row.version, row.channel))
    for table in ("rocm", "torch"):
        for where, row in rows[table]:
            _require(_is_version(row.version), where, f"`version`: `{row.version}` is no version")


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _require(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise DataError(f"{what} (`{where}`)")
