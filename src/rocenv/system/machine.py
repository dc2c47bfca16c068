"""Looks at the machine: its files below `ROCENV_SYSROOT` if that is set, its mounts, its C library."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from rocenv.system import WINDOWS
from rocenv.system.answers import Answers, Plain, Variables
from rocenv.system.mounts import Mount, holder, mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# File systems whose locks, links or memory maps cannot be relied on.
# Why a network home is refused: docs/design.md, "Where an env may lie".
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"}
)

# Nothing that is opened to look may block or be inherited; Windows has neither flag.
_PLAIN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_MOST_BYTES = 16 << 20  # of a text that is read whole

_T = TypeVar("_T", bound=Plain)

# At most one of them is there: what answers are kept in, and what gives them instead of the machine.
_kept: Answers | None = None
_given: Answers | None = None
_shown: Callable[[str], bool] | None = None


@contextlib.contextmanager
def recording(shown: Callable[[str], bool]) -> Iterator[Answers]:
    """Keep all that the machine is asked, and what it answers.

    Args:
        shown: Tells which variables of the environment are there for a program that goes through all.
    """
    global _kept, _shown
    assert _given is None and _kept is None
    _kept, _shown = Answers(windows=examined_windows()), shown
    try:
        yield _kept
    finally:
        _kept, _shown = None, None


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[None]:
    """Have these answers stand in for the machine; what was not asked then is not there."""
    global _given
    assert _given is None and _kept is None
    _given = answers
    try:
        yield
    finally:
        _given = None


def sysroot() -> Path:
    """Return the folder below which the machine's own files are read."""
    if _given is not None:
        return Path(os.devnull)  # nothing lies below it, so nobody takes this machine for that one
    return Path(os.environ.get("ROCENV_SYSROOT") or "/")


def machine_path(path: str) -> Path:
    """Return where the absolute `path` of the examined machine lies here."""
    return sysroot() / path.lstrip("/")


def read_text(path: str) -> str | None:
    """Return the text of a file of the examined machine, or None where it cannot be read."""
    text, error = read_attribute(path, _MOST_BYTES)
    return None if error else text.replace("\r\n", "\n")


def examined_elsewhere() -> bool:
    """Tell whether the files of another machine stand in for this one's."""
    return _given is not None or bool(os.environ.get("ROCENV_SYSROOT"))


def examined_windows() -> bool:
    """Tell whether the examined machine is a Windows one; a `windows` folder in the sysroot stands for it."""
    if _given is not None:
        return _given.windows
    return os.path.isdir(machine_path("/windows")) if examined_elsewhere() else WINDOWS


def missing_sysroot() -> str:
    """Return what `ROCENV_SYSROOT` names where that is no folder, else ""."""
    named = os.environ.get("ROCENV_SYSROOT", "")
    return named if named and _given is None and not os.path.isdir(named) else ""


def environment() -> Mapping[str, str]:
    """Return the variables of the examined machine's environment, or of this process, where it has none."""
    if _given is not None:
        return Variables(_given.variables, windows=_given.windows)
    if _kept is not None:
        return Variables(os.environ, windows=WINDOWS, seen=_kept.variables.__setitem__, shown=_shown or bool)
    return os.environ


def read_attribute(path: str, limit_bytes: int = 1 << 16) -> tuple[str, int]:
    """Return the head of a file of the examined machine, and the errno that kept it from being read, or 0.

    It never waits or fills the memory, whatever lies there.
    """
    if _given is not None:
        text, error = _given.file(path)
        return text.encode()[:limit_bytes].decode("utf-8", errors="replace"), error
    text, error = _head(path, limit_bytes)
    if _kept is not None:
        _kept.keep_file(path, text, error)
    return text, error


def _head(path: str, limit_bytes: int) -> tuple[str, int]:
    try:
        file = os.open(machine_path(path), os.O_RDONLY | _PLAIN)
        try:
            return _bytes(file, limit_bytes).decode("utf-8", errors="replace"), 0
        finally:
            os.close(file)
    except OSError as error:
        return "", error.errno or errno.EIO


def _bytes(file: int, limit: int) -> bytes:
    """Return what can be read without waiting; /proc gives no more than a page at once."""
    data = os.read(file, limit)
    with contextlib.suppress(BlockingIOError):
        while data and len(data) < limit and (more := os.read(file, limit - len(data))):
            data += more
    return data


def words(copy: str, ask: Callable[[], str | None], limit_bytes: int = 1 << 20) -> str | None:
    """Return what a program of this machine says, or a copy of it from the examined one; None = nothing.

    Args:
        copy: The file of an examined machine that holds the same, say `/windows/hipinfo.txt`.
        ask: Asks the program.
        limit_bytes: How much of the copy is read.
    """
    if examined_elsewhere():
        text, error = read_attribute(copy, limit_bytes)
        return None if error else text
    said = ask()
    if _kept is not None:
        _kept.keep_file(copy, said or "", errno.ENOENT if said is None else 0)
    return said


def keep_row(copy: str, key: str, row: object) -> None:
    """Keep what this machine said as a row of a copy that is a JSON object, where it is recorded.

    Args:
        copy: The file of an examined machine that holds the same, say `/windows/registry.json`.
        key: Of the row.
        row: Plain values.
    """
    if _kept is not None:
        _kept.rows.setdefault(copy, {})[key] = row


def tried(what: str, about: str, attempt: Callable[[], _T], unknown: _T) -> _T:
    """Return what a try gives that only works on the very machine.

    Args:
        what: Names the try, say `free bytes`.
        about: What is tried, as a rule a path.
        attempt: Does it; its answer is a plain value, so that it can be kept.
        unknown: The answer of an examined machine for which nobody tried it.
    """
    if _given is not None:
        answer = _given.tried.get((what, about), unknown)
        return answer if unknown is None or type(answer) is type(unknown) else unknown  # type: ignore[return-value]
    if examined_elsewhere():
        return unknown
    found = attempt()
    if _kept is not None:
        _kept.tried[what, about] = found
    return found


def is_there(path: str) -> bool:
    """Tell whether something of the examined machine lies there."""
    return access_errno(path) != errno.ENOENT


def open_errno(path: str) -> int:
    """Return the errno of opening a device of the examined machine to read and write, 0 where it opens."""
    if _given is not None:
        return _given.opened.get(path, errno.ENOENT)
    error = 0
    try:
        os.close(os.open(machine_path(path), os.O_RDWR | _PLAIN))
    except OSError as failure:
        error = failure.errno or errno.EIO
    if _kept is not None:
        _kept.opened[path] = error
    return error


def access_errno(path: str) -> int:
    """Return why a device could not be opened, going by its mode alone; 0 = it could.

    For devices that must not be touched only to look: opening a render node wakes a sleeping GPU.
    """
    if _given is not None:
        return _given.reached.get(path, errno.ENOENT)
    error = 0 if os.access(machine_path(path), os.F_OK) else errno.ENOENT
    if not error and not os.access(machine_path(path), os.R_OK | os.W_OK):
        error = errno.EACCES
    if _kept is not None:
        _kept.reached[path] = error
    return error


def list_folder(path: str) -> list[str]:
    """Return the sorted names in a folder of the examined machine; empty where it cannot be read."""
    return list(_listed(path)[0])


def unreadable(path: str) -> bool:
    """Tell whether something of the examined machine is there that is no folder to be listed."""
    return _listed(path)[1] not in (0, errno.ENOENT)


def is_folder(path: str) -> bool:
    """Tell whether a folder of the examined machine is there, whether or not it can be listed."""
    return _listed(path)[1] in (0, errno.EACCES, errno.EPERM)


def _listed(path: str) -> tuple[tuple[str, ...], int]:
    if _given is not None:
        return _given.folder(path)
    found: tuple[tuple[str, ...], int]
    try:
        found = tuple(sorted(os.listdir(machine_path(path)))), 0
    except OSError as error:
        found = (), error.errno or errno.EIO
    if _kept is not None:
        _kept.keep_folder(path, *found)
    return found


def glibc_version() -> tuple[int, int] | None:
    """Return the version of the C library that runs this Python, or None if that is not the GNU one."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):
        return None
    if name != "glibc":
        return None
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def mount_of(path: PurePath) -> Mount | None:
    """Return the mount that holds `path`, which need not exist; None where mounts cannot be listed."""
    text, error = read_attribute("/proc/self/mountinfo", _MOST_BYTES)
    return None if error else holder(mounts(text), _real(path))


def _real(path: PurePath) -> PurePath:
    """Return a path without the links in it."""
    if _given is not None:
        return PurePosixPath(_given.real.get(path.as_posix(), path.as_posix()))
    found = Path(os.path.realpath(path))
    if _kept is not None:
        _kept.real[path.as_posix()] = found.as_posix()
    return found


def cloud_folder(path: Path) -> str:
    """Return the folder around `path` that OneDrive keeps in its cloud, "" where it lies in none.

    Source: the variables that OneDrive sets for its user, OneDrive, OneDriveConsumer and OneDriveCommercial.
    """
    for name in ("OneDrive", "OneDriveConsumer", "OneDriveCommercial"):
        folder = environment().get(name, "")
        inside = os.path.normcase(os.path.join(folder, "")) if folder else ""
        if inside and os.path.normcase(os.path.join(path, "")).startswith(inside):
            return folder
    return ""


def free_bytes(path: Path) -> int:
    """Return the bytes that an ordinary user may still write where `path` is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
