"""Looks at the machine: its files below `ROCENV_SYSROOT` if that is set, its mounts, its C library."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

# File systems whose locks, links or memory maps cannot be relied on.
# Why a network home is refused: docs/design.md, "Where an env may lie".
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"}
)

# Nothing that is opened to look may block or be inherited; Windows has neither flag.
_PLAIN = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def sysroot() -> Path:
    """Return the folder below which the machine's own files are read."""
    return Path(os.environ.get("ROCENV_SYSROOT") or "/")


def machine_path(path: str) -> Path:
    """Return where the absolute `path` of the examined machine lies here."""
    return sysroot() / path.lstrip("/")


def read_text(path: str) -> str | None:
    """Return the text of a file of the examined machine, or None where it cannot be read."""
    try:
        return machine_path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def examined_elsewhere() -> bool:
    """Tell whether the files of another machine stand in for this one's."""
    return bool(os.environ.get("ROCENV_SYSROOT"))


def read_attribute(path: str, limit_bytes: int = 1 << 16) -> tuple[str, int]:
    """Return the head of a file of the examined machine, and the errno that kept it from being read, or 0.

    Unlike `read_text` it tells what is absent from what is forbidden, and never waits or fills the memory,
    whatever lies there.
    """
    try:
        file = os.open(machine_path(path), os.O_RDONLY | _PLAIN)
        try:
            return os.read(file, limit_bytes).decode("utf-8", errors="replace"), 0
        finally:
            os.close(file)
    except OSError as error:
        return "", error.errno or errno.EIO


def open_errno(path: str) -> int:
    """Return the errno of opening a device of the examined machine to read and write, 0 where it opens."""
    try:
        os.close(os.open(machine_path(path), os.O_RDWR | _PLAIN))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def access_errno(path: str) -> int:
    """Return why a device could not be opened, going by its mode alone; 0 = it could.

    For devices that must not be touched only to look: opening a render node wakes a sleeping GPU.
    """
    if not os.access(machine_path(path), os.F_OK):
        return errno.ENOENT
    return 0 if os.access(machine_path(path), os.R_OK | os.W_OK) else errno.EACCES


def list_folder(path: str) -> list[str]:
    """Return the sorted names in a folder of the examined machine; empty where it cannot be read."""
    try:
        return sorted(os.listdir(machine_path(path)))
    except OSError:
        return []


def unreadable(path: str) -> bool:
    """Tell whether something of the examined machine is there that is no folder to be listed."""
    try:
        os.listdir(machine_path(path))
    except OSError as error:
        return error.errno != errno.ENOENT
    return False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A mounted file system."""

    point: str
    kind: str
    device: str


def mount_of(path: Path) -> Mount | None:
    """Return the mount that holds `path`, which need not exist; None where mounts cannot be listed."""
    text = read_text("/proc/self/mountinfo")
    if text is None:
        return None
    wanted = Path(os.path.realpath(path))
    best: Mount | None = None
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(tail) < 2:
            continue
        # The kernel writes space, tab, newline and backslash in octal.
        point = fields[4].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
        inside = wanted == Path(point) or Path(point) in wanted.parents
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(point=point, kind=tail[0], device=tail[1])
    return best


def cloud_folder(path: Path) -> str:
    """Return the folder around `path` that OneDrive keeps in its cloud, "" where it lies in none.

    Source: the variables that OneDrive sets for its user, OneDrive, OneDriveConsumer and OneDriveCommercial.
    """
    for name in ("OneDrive", "OneDriveConsumer", "OneDriveCommercial"):
        folder = os.environ.get(name, "")
        inside = os.path.normcase(os.path.join(folder, "")) if folder else ""
        if inside and os.path.normcase(os.path.join(path, "")).startswith(inside):
            return folder
    return ""


def free_bytes(path: Path) -> int:
    """Return the bytes that an ordinary user may still write where `path` is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
