"""The matrix in a form that is read in milliseconds: made by the first run, and anew when a file changes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import sys
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

from rocenv.core import model
from rocenv.data.folder import data_files, profiles_folder
from rocenv.data.rows import Matrix
from rocenv.system.files import write_atomic

_STAMP_BYTES = 32

# Tables that a resolution has no use for: they and the classes of their rows are read when asked for.
_LATER = (
    *("pci", "gpu_name", "release", "kernels", "system_kernel", "index", "generic_target"),
    *(
        "incident",
        "fact",
        "variable",
        "app",
        "launcher",
        "app_packages",
        "app_build",
        "compiler",
        "app_program",
        "app_release",
        "kernel_source",
        "kernel_recipe",
        "code_objects",
        "knob",
        "never_together",
        "reclaim",
        "library",
        "rule",
        "clue",
        "advice",
        "gauge",
        "first_kernel",
    ),
)


class Later(Sequence[Any]):
    """The rows of a table, read when the first of them is asked for."""

    __slots__ = ("_packed", "_rows")

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows: Sequence[Any] | None = None
        self._packed = pickle.dumps(tuple(rows), protocol=pickle.HIGHEST_PROTOCOL)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_later, (self._packed,))

    def _read(self) -> Sequence[Any]:
        if self._rows is None:
            self._rows = _Reader(io.BytesIO(self._packed)).load()
        return self._rows

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, index: Any) -> Any:
        return self._read()[index]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == (tuple(other) if isinstance(other, Later) else other)

    __hash__ = None  # type: ignore[assignment]


def _later(packed: bytes) -> Later:
    later = Later.__new__(Later)
    later._rows, later._packed = None, packed
    return later


class _Reader(pickle.Unpickler):
    """Reads rows and nothing else: what lies in a cache folder must not be able to run anything."""

    def find_class(self, module: str, name: str) -> Any:
        # A dotted name would lead to whatever a module has imported, `os.system` too.
        if "." not in name and (module == "rocenv.core.model" or module.startswith("rocenv.data.")):
            found = super().find_class(module, name)
            if found is _later or (is_dataclass(found) and found.__module__ == module):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no row")


def compiled(cache: Path, own: Path) -> Matrix:
    """Return the matrix of rocenv's data and the user's, from its compiled form where that is up to date.

    Args:
        cache: The file of the compiled form; it need not exist, and may be unwritable.
        own: The folder of the user's rows, which need not exist.

    Raises:
        DataError: As `load` does.
    """
    folder = profiles_folder()
    stamp = _stamp(folder, own)
    matrix = _read(cache, stamp)
    if matrix is None:
        from rocenv.data.load import load

        matrix = load(folder, own)
        # Whoever cannot write here reads the files each time, which is right and slower.
        with contextlib.suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(cache, stamp + _packed(matrix))
    return matrix


def _packed(matrix: Matrix) -> bytes:
    later: dict[str, Any] = {table: Later(getattr(matrix, table)) for table in _LATER}
    return pickle.dumps(replace(matrix, **later), protocol=pickle.HIGHEST_PROTOCOL)


def _read(cache: Path, stamp: bytes) -> Matrix | None:
    try:
        content = cache.read_bytes()
        if content[:_STAMP_BYTES] != stamp:
            return None
        found = _Reader(io.BytesIO(content[_STAMP_BYTES:])).load()
    except Exception:  # a damaged pickle can fail in any way; the files are there
        return None
    return found if isinstance(found, Matrix) else None


def _stamp(folder: Path, own: Path) -> bytes:
    """Return a hash of everything that the compiled form depends on."""
    told = hashlib.sha256(ascii((sys.version_info[:3], str(folder), str(own))).encode())
    code = sorted(Path(__file__).parent.glob("*.py"))
    for path in (*data_files(folder), *data_files(own), *code, Path(model.__file__)):
        told.update(ascii((str(path), _status(path))).encode())
    return told.digest()


def _status(path: Path) -> tuple[int, ...]:
    """Return what changes when a file does: its size and time can be set back, the time of its inode not."""
    try:
        status = os.stat(path)
    except OSError:  # told by who reads it
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
