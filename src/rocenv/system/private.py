"""What nobody else may read or change: folders, files and the umask; Windows has other rights."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from rocenv.system import WINDOWS

_of_user: list[int] = []


def add_to_umask(mask: int) -> int:
    """Add `mask` to the umask of this process, and return what it was before."""
    before = os.umask(0o077)
    os.umask(before | mask)
    _of_user[:] = [before]
    return before


def umask_of_user() -> int:
    """The umask that this process was started with; -1 if it was not changed."""
    return _of_user[0] if _of_user else -1


def make_private(folder: Path) -> None:
    """Create a folder, and those missing above it, that only this user can enter; leave what is there."""
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_private(folder.parent)
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileExistsError as error:  # a file
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def make_closed(folder: Path) -> None:
    """Create a folder below a home that only those can enter who may write to the folder above it."""
    make_private(folder.parent)
    make_private(folder)
    if WINDOWS:
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    wanted = mode | 0o070 if folder.parent.stat().st_mode & stat.S_IWGRP else mode & ~0o077
    if wanted != mode:
        with contextlib.suppress(PermissionError):  # another member of the group made it
            folder.chmod(wanted)


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a regular file of rocenv's own; raise OSError where a link or something else is there."""
    plain = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags | plain, mode)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def open_to_others(folder: Path) -> bool:
    """Whether somebody else can write to a folder, or owns it; absent is fine."""
    try:
        info = folder.stat()
    except OSError:
        return False
    return bool(info.st_mode & 0o022) or info.st_uid != os.geteuid()


def keep_others_out(folder: Path) -> str | None:
    """Take the right to write from all but the owner, here and below.

    Returns:
        The path of something below that belongs to another user, "" if there is nothing; None where the file
        system keeps no modes, such as Windows' drives in WSL: nothing changes there.
    """
    mode = stat.S_IMODE(folder.stat().st_mode)
    with contextlib.suppress(OSError):
        folder.chmod(mode & ~0o022)
    if folder.stat().st_mode & 0o022:
        return None
    foreign = ""
    for here, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):  # gone by now
                path = Path(here, name)
                info = path.lstat()
                if info.st_uid not in (0, os.geteuid()):
                    foreign = foreign or str(path)
                elif info.st_mode & 0o022 and not stat.S_ISLNK(info.st_mode):
                    path.chmod(stat.S_IMODE(info.st_mode) & ~0o022)
    return foreign
