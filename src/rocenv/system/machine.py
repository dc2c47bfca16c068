"""Query this machine, or a copy or recording of a different one.

Queries go to this machine, to a copy of another machine's files (`ROCENV_SYSROOT`), or to recorded answers
(`answering`). `recording` stores this machine's answers for the support bundle.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import TypeVar

from rocenv.system import WINDOWS

# Filesystems with unreliable locks, links or memory maps. docs/design.md, "Where an env can be", explains why
# network homes are rejected.
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"}
)

# Opening a file must not block, and children must not inherit it; Windows has neither flag.
_PLAIN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_MAX_BYTES = 16 << 20  # size limit for `read_text`

Plain = str | int | bool | None  # results that `tried` can record
_T = TypeVar("_T", bound=Plain)


def plain_path(path: str) -> str:
    """Normalize an absolute path for recording."""
    return path if "\\" in path else posixpath.normpath("/" + path.lstrip("/"))


@dataclass(slots=True)
class Answers:
    """One machine's recorded answers, by query; numbers are errnos, or 0 for success."""

    windows: bool = False  # it is a Windows machine
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    folders: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)  # like `opened`, but judging by the mode alone
    real: dict[str, str] = field(default_factory=dict)  # paths with links resolved
    tried: dict[tuple[str, str], Plain] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    shown: Callable[[str], bool] = bool  # variables to list while recording
    rows: dict[str, dict[str, object]] = field(default_factory=dict)  # answers in JSON files, by key

    def keep_file(self, path: str, text: str, error: int) -> None:
        """Record the result of reading a file; if it was read before, keep the longer text."""
        path = plain_path(path)
        if len(text) >= len(self.files.get(path, ("", 0))[0]):
            self.files[path] = (text, error)

    def file(self, path: str) -> tuple[str, int]:
        """Return a file's text and the errno from reading it."""
        return self.files.get(plain_path(path), ("", errno.ENOENT))

    def folder(self, path: str) -> tuple[tuple[str, ...], int]:
        """Return the names in a folder and the errno from listing it."""
        return self.folders.get(plain_path(path), ((), errno.ENOENT))


class Variables(Mapping[str, str]):
    """A machine's environment variables; on Windows, names are case-insensitive.

    `seen` records each lookup. Iteration yields only variables that `shown` accepts; otherwise a recording
    would contain the user's whole environment.
    """

    def __init__(
        self,
        values: Mapping[str, str],
        *,
        windows: bool = False,
        seen: Callable[[str, str], None] = lambda _name, _value: None,
        shown: Callable[[str], bool] = lambda _name: True,
    ) -> None:
        self._values = {name.upper() if windows else name: value for name, value in values.items()}
        self._windows, self._seen, self._shown = windows, seen, shown

    def __getitem__(self, name: str) -> str:
        key = name.upper() if self._windows else name
        value = self._values[key]
        self._seen(key, value)
        return value

    def __iter__(self) -> Iterator[str]:
        return filter(self._shown, self._values)

    def __len__(self) -> int:
        return sum(1 for _ in self)


# At most one is set: the recording in progress, or the answers that replace the machine.
_kept: Answers | None = None
_given: Answers | None = None


@contextlib.contextmanager
def recording(shown: Callable[[str], bool]) -> Iterator[Answers]:
    """Record all queries and answers, but only variables that `shown` accepts."""
    global _kept
    assert _given is None and _kept is None
    _kept = Answers(windows=examined_windows(), shown=shown)
    try:
        yield _kept
    finally:
        _kept = None


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[None]:
    """Use recorded answers instead of the machine; whatever was not recorded is treated as missing."""
    global _given
    assert _given is None and _kept is None
    _given = answers
    try:
        yield
    finally:
        _given = None


def sysroot() -> Path:
    """The root folder of the examined machine's files."""
    if _given is not None:
        return Path(os.devnull)  # has no files below it, so this machine's files are never used instead
    return Path(os.environ.get("ROCENV_SYSROOT") or "/")


def machine_path(path: str) -> Path:
    """Map an absolute `path` on the machine being examined to this machine."""
    return sysroot() / path.lstrip("/")


def examined_elsewhere() -> bool:
    """Whether rocenv is examining a machine other than this one."""
    return _given is not None or bool(os.environ.get("ROCENV_SYSROOT"))


def examined_windows() -> bool:
    """Whether the machine being examined runs Windows: the sysroot contains a `windows` folder."""
    if _given is not None:
        return _given.windows
    return os.path.isdir(machine_path("/windows")) if examined_elsewhere() else WINDOWS


def missing_sysroot() -> str:
    """The value of `ROCENV_SYSROOT` if it is not a folder, otherwise ""."""
    named = os.environ.get("ROCENV_SYSROOT", "")
    return named if named and _given is None and not os.path.isdir(named) else ""


def environment() -> Mapping[str, str]:
    """The environment variables from the recorded answers, or this process's if there are none."""
    if _given is not None:
        return Variables(_given.variables, windows=_given.windows)
    if _kept is not None:
        return Variables(os.environ, windows=WINDOWS, seen=_kept.variables.__setitem__, shown=_kept.shown)
    return os.environ


def read_attribute(path: str, limit_bytes: int = 1 << 16) -> tuple[str, int]:
    """Read the beginning of a file; return its text and the errno, or 0 for success.

    Never blocks, and reads at most `limit_bytes`, even from an endless file.
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
    data = os.read(file, limit)
    with contextlib.suppress(BlockingIOError):
        while data and len(data) < limit and (more := os.read(file, limit - len(data))):
            data += more  # /proc returns at most one page per read
    return data


def read_text(path: str) -> str | None:
    """Read a whole text file, or return None if that fails."""
    text, error = read_attribute(path, _MAX_BYTES)
    return None if error else text.replace("\r\n", "\n")


def program_output(copy: str, ask: Callable[[], str | None], limit_bytes: int = 1 << 20) -> str | None:
    """Return a program's output, which `ask` gets on this machine, or None if there is none.

    If rocenv is examining another machine, return the text of its file `copy`, such as
    `/windows/hipinfo.txt`.
    """
    if examined_elsewhere():
        text, error = read_attribute(copy, limit_bytes)
        return None if error else text
    output = ask()
    if _kept is not None:
        _kept.keep_file(copy, output or "", errno.ENOENT if output is None else 0)
    return output


def keep_row(copy: str, key: str, row: object) -> None:
    """Record an answer under a key in a JSON file such as `/windows/registry.json`."""
    if _kept is not None:
        _kept.rows.setdefault(copy, {})[key] = row


def tried(what: str, about: str, attempt: Callable[[], _T], unknown: _T, *, of_home: bool = False) -> _T:
    """Call `attempt`, which works only on the machine itself, and return its result; `what` names the result.

    The result is a plain value, so that it can be recorded; `unknown` is returned if another machine is
    being examined and no result was recorded. rocenv's own home (`of_home`) is on this machine even if
    `ROCENV_SYSROOT` is set.
    """
    if _given is not None:
        answer = _given.tried.get((what, about), unknown)
        return answer if unknown is None or type(answer) is type(unknown) else unknown  # type: ignore[return-value]
    if examined_elsewhere() and not of_home:
        return unknown
    found = attempt()
    if _kept is not None:
        _kept.tried[what, about] = found
    return found


def open_errno(path: str) -> int:
    """Open a device for reading and writing, and return the errno, or 0 for success."""
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
    """Return the errno that opening a device would produce, judging by its mode alone.

    Use it for devices that must not be opened, such as render nodes: opening one wakes a sleeping GPU.
    """
    if _given is not None:
        return _given.reached.get(path, errno.ENOENT)
    error = 0 if os.access(machine_path(path), os.F_OK) else errno.ENOENT
    if not error and not os.access(machine_path(path), os.R_OK | os.W_OK):
        error = errno.EACCES
    if _kept is not None:
        _kept.reached[path] = error
    return error


def is_there(path: str) -> bool:
    """Whether the path exists."""
    return access_errno(path) != errno.ENOENT


def list_folder(path: str) -> list[str]:
    """Return the sorted names in a folder, or an empty list if it cannot be read."""
    return list(_listed(path)[0])


def unreadable(path: str) -> bool:
    """Whether the path exists but cannot be listed as a folder."""
    return _listed(path)[1] not in (0, errno.ENOENT)


def is_folder(path: str) -> bool:
    """Whether a folder exists, readable or not."""
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
        _kept.folders[plain_path(path)] = found
    return found


def parent_name() -> str:
    """Return the parent process's name, truncated to 15 bytes by the kernel, or "" if unknown."""
    if WINDOWS:  # Windows has no /proc
        return ""
    return (read_text(f"/proc/{os.getppid()}/comm") or "").rstrip("\n")


def glibc_version() -> tuple[int, int] | None:
    """Return the version of this Python's C library, or None if it is not glibc."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, ValueError, OSError):
        return None
    if name != "glibc":
        return None
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mounted filesystem."""

    point: str
    kind: str
    device: str


def mounts(text: str) -> Iterator[Mount]:
    """Parse `/proc/self/mountinfo`; a later mount at the same point hides an earlier one.

    Source: proc_pid_mountinfo(5)
    """
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) >= 5 and len(tail) >= 2:
            yield Mount(point=_unescaped(fields[4]), kind=tail[0], device=tail[1])


def _unescaped(text: str) -> str:
    """Decode a path from the kernel, which writes spaces, tabs, newlines and backslashes in octal."""
    path = re.sub(
        rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8) & 0xFF]), text.encode(errors="replace")
    )
    return path.decode("utf-8", "replace")


def holder(listed: Iterable[Mount], path: PurePath) -> Mount | None:
    """Return the mount that contains an absolute path without links."""
    best: Mount | None = None
    for mount in listed:
        inside = path == type(path)(mount.point) or type(path)(mount.point) in path.parents
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def mount_of(path: PurePath) -> Mount | None:
    """Return the mount that contains `path`, which need not exist, or None if mounts cannot be listed."""
    text, error = read_attribute("/proc/self/mountinfo", _MAX_BYTES)
    return None if error else holder(mounts(text), _real(path))


def _real(path: PurePath) -> PurePath:
    if _given is not None:
        return PurePosixPath(_given.real.get(path.as_posix(), path.as_posix()))
    found = Path(os.path.realpath(path))
    if _kept is not None:
        _kept.real[path.as_posix()] = found.as_posix()
    return found


def cloud_folder(path: Path) -> str:
    """Return the OneDrive folder that contains `path`, or "".

    Source: the environment variables that OneDrive sets for the signed-in user
    """
    for name in ("OneDrive", "OneDriveConsumer", "OneDriveCommercial"):
        folder = environment().get(name, "")
        inside = os.path.normcase(os.path.join(folder, "")) if folder else ""
        if inside and os.path.normcase(os.path.join(path, "")).startswith(inside):
            return folder
    return ""


def free_bytes(path: Path) -> int:
    """Return the free space for ordinary users at `path`, in bytes; `path` does not have to exist."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
