"""`profiles/*.toml` -> `Matrix`; references between the files are checked here, once."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

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
Row = TypeVar("Row")

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
    rows: dict[str, list[Any]] = {name: [] for name in TABLES}
    for path in sorted(folder.rglob("*.toml")):
        _read_file(path, rows)
    matrix = Matrix(
        repos=_by_name(rows["repo"], "repo"),
        channels=_by_name(rows["channel"], "channel"),
        rocm=tuple(rows["rocm"]),
        torch=tuple(rows["torch"]),
        keep_out=tuple(rows["keep_out"]),
        c_libraries=tuple(rows["c_library"]),
        environment=tuple(rows["environment"]),
        watched=tuple(rows["watched"]),
    )
    _check_references(matrix)
    return matrix


def _read_file(path: Path, rows: dict[str, list[Any]]) -> None:
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
            rows[name].append(value)


def _by_name(rows: list[Any], kind: str) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for row in rows:
        if row.name in named:
            raise DataError(f"{kind} `{row.name}` is there twice")
        named[row.name] = row
    return named


def _check_references(matrix: Matrix) -> None:
    for channel in matrix.channels.values():
        for repo in channel.repos:
            if repo not in matrix.repos:
                raise DataError(f"channel `{channel.name}` names the repository `{repo}`, which is not there")
    seen = set()
    for row in matrix.rocm:
        if row.channel not in matrix.channels:
            raise DataError(f"ROCm {row.version} names the channel `{row.channel}`, which is not there")
        if (row.version, row.channel) in seen:
            raise DataError(f"ROCm {row.version} of channel `{row.channel}` is there twice")
        seen.add((row.version, row.channel))
