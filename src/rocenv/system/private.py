"""Keep files private to their owner through modes and the umask; Windows uses other permissions."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_of_user: list[int] = []


def add_to_umask(mask: int) -> int:
    """Add `mask` to this process's umask and return the old one."""
    before = os.umask(0o077)
    os.umask(before | mask)
    _of_user[:] = [before]
    return before


def umask_of_user() -> int:
    """Return the umask that this process started with, or -1 if it is unchanged."""
    return _of_user[0] if _of_user else -1


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents for this user only; leave existing folders unchanged."""
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_private(folder.parent)
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileExistsError as error:  # it is a file
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def make_closed(folder: Path) -> None:
    """Create a folder in a home, accessible only to users who can write to its parent."""
    make_private(folder.parent)
    make_private(folder)
    if WINDOWS:
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    wanted = mode | 0o070 if folder.parent.stat().st_mode & stat.S_IWGRP else mode & ~0o077
    if wanted != mode:
        with contextlib.suppress(PermissionError):  # another group member owns it
            folder.chmod(wanted)


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open one of rocenv's own files; raise OSError if it is a link or not a regular file."""
    plain = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | plain, mode)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def is_exposed(folder: Path, owners: Collection[int], mask: int) -> bool:
    """Whether a folder's owner is not in `owners` or its mode has a bit in `mask`; False if missing."""
    try:
        info = folder.stat()
    except OSError:
        return False
    return info.st_uid not in owners or bool(info.st_mode & mask)


def close_folder(folder: Path, mask: int) -> bool:
    """Remove the permissions in `mask` from a folder; return whether that succeeded.

    It fails on filesystems without modes, such as Windows drives in WSL, and on read-only ones.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        _close(descriptor, mask)
        return not os.fstat(descriptor).st_mode & mask
    finally:
        os.close(descriptor)


def close_below(folder: Path, mask: int) -> str:
    """Remove the permissions in `mask` from everything below a folder, without following links.

    Returns:
        The path of a file that belongs to neither this user nor root, or "" if there is none.
    """
    owners = (0, os.geteuid())
    foreign = ""
    for here, folders, names, descriptor in os.fwalk(folder):
        _close(descriptor, mask)
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # already removed
                info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if info.st_uid not in owners:
                    foreign = foreign or os.path.join(here, name)
                elif info.st_mode & mask and stat.S_ISREG(info.st_mode):
                    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
                    try:
                        _close(file, mask)
                    finally:
                        os.close(file)
    return foreign


def _close(descriptor: int, mask: int) -> None:
    info = os.fstat(descriptor)
    if stat.S_ISDIR(info.st_mode) and hasattr(os, "removexattr"):
        with contextlib.suppress(OSError):  # a default ACL would let others access files created later
            os.removexattr(descriptor, "system.posix_acl_default")
    if info.st_mode & mask:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(info.st_mode) & ~mask)
