"""File operations: hashing, links, renaming, removal, atomic writes, and disk errors."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import NoSpace, PrefixError
from rocenv.system import WINDOWS
from rocenv.system.windows_files import unlink_read_only, users_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK_BYTES = 1 << 20
_NAME_SURROGATE = 0x20000000  # set for links and junctions, but not for cloud files. Source: ntifs.h
_RETRY_FOR_S = 5.0  # virus scanners briefly open newly written files
_PAUSE_S = 0.05
_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]+\.removing", re.S)
# Source: learn.microsoft.com, "Naming Files, Paths, and Namespaces"
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\..*)?", re.I)


def file_chunks(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yield a file's bytes from position `start` in chunks of at most 1 MiB."""
    with path.open("rb", buffering=0) as stream:
        stream.seek(start)
        while data := stream.read(CHUNK_BYTES):
            yield data


def hash_of(path: Path, algorithm: str) -> bytes:
    """Hash a file's contents."""
    digest = hashlib.new(algorithm)
    for data in file_chunks(path):
        digest.update(data)
    return digest.digest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 hash of a file's contents in lowercase hex."""
    return hash_of(path, "sha256").hex()


def clone_file(source: Path, destination: Path) -> str:
    """Copy `source` to `destination`, which must not exist, without duplicating data if possible.

    Returns the method used: `hardlink`, `reflink` or `copy`. If hard links do not work (in some cloud
    folders, on exFAT, across devices, or at a file's link limit), it tries the other methods.
    """
    try:
        os.link(source, destination)
        return "hardlink"
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
    if _reflink(source, destination):
        return "reflink"
    shutil.copy2(source, destination)
    return "copy"


def _reflink(source: Path, destination: Path) -> bool:
    if WINDOWS:
        return False
    import fcntl

    ficlone = 0x40049409  # Source: linux/fs.h, FICLONE
    with source.open("rb") as old, destination.open("xb") as new:
        try:
            fcntl.ioctl(new.fileno(), ficlone, old.fileno())
        except OSError:
            pass
        else:
            shutil.copystat(source, destination)
            return True
    destination.unlink()
    return False


def move(source: Path, destination: Path) -> None:
    """Rename a file, replacing any existing one, or rename a folder to an unused name.

    On Windows, retry for a few seconds, because virus scanners can keep new files open.
    """
    # `os.rename` can change just the case of a folder's name, and on Windows never overwrites.
    rename = os.rename if os.path.isdir(source) else os.replace
    end = time.monotonic() + (_RETRY_FOR_S if WINDOWS else 0.0)
    while True:
        try:
            rename(source, destination)
        except PermissionError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def move_unused(folder: Path, destination: Path) -> None:
    """Rename a folder; on Windows, raise PrefixError if a program has a file open in it."""
    try:
        move(folder, destination)
    except PermissionError as error:
        if not WINDOWS:
            raise
        raise in_use(folder, folder.rglob("*")) from error


def in_use(folder: Path, files: Iterable[Path]) -> PrefixError:
    """Return the error for a folder with open files, listing the programs if known."""
    programs = (str(path) for path in files if path.suffix.lower() in (".dll", ".exe", ".pyd"))
    users = next((found for path in programs if (found := users_of(path))), ())
    return PrefixError(
        f"a file in `{folder}` is in use by {' and '.join(users) or 'another program'}",
        hints=("close that program, or `cd` elsewhere in other terminals; then run the command again",),
        code="in-use",
    )


def require_unused(folder: Path) -> None:
    """On Windows, raise PrefixError if a program has a file open in a folder that will be removed.

    The check renames the folder and then renames it back; `set_aside` recognizes the temporary name after an
    interruption.
    """
    if not WINDOWS:
        return
    aside = beside(folder, "removing")
    move_unused(folder, aside)
    move_unused(aside, folder)


def set_aside(name: str) -> str:
    """Return the original name of a folder that an interrupted removal left behind, or "" for other names."""
    found = _ASIDE.fullmatch(name)
    return found[1] if found else ""


def break_link(path: Path) -> None:
    """Give `path` its own writable copy of the data, so that changes do not affect the store or another env.

    If the file has a single link, this only makes it writable.
    """
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        return
    if info.st_nlink > 1:
        fresh = beside(path, "own")
        shutil.copy2(path, fresh)
        try:
            if WINDOWS:
                _unlink(path)  # otherwise, a read-only file could not be replaced
            move(fresh, path)
        except BaseException:
            _unlink(fresh)
            raise
    path.chmod(stat.S_IMODE(info.st_mode) | stat.S_IWUSR)


def remove_tree(path: Path) -> None:
    """Remove a folder that rocenv created, if it exists, including its write-protected subfolders.

    If a link has replaced it, remove only the link. File modes never change, because the store and
    other envs can share the files.
    """
    if is_link_at(path):
        _remove_link(path)
        return
    if not path.exists():
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        if WINDOWS:
            _remove_files(path)
        else:
            _open_folders(path)
        shutil.rmtree(path)


def _open_folders(path: Path) -> None:
    path.chmod(0o700)
    for folder, subfolders, _names in os.walk(path):
        for name in subfolders:
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)


def _remove_files(folder: Path) -> None:
    """Remove all files below a folder, even read-only ones, and make its subfolders removable.

    Used only on Windows, where `os.walk` follows junctions in older Python versions.
    """
    folder.chmod(stat.S_IWRITE)
    with os.scandir(folder) as entries:
        inside = list(entries)
    for entry in inside:
        info = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(info.st_mode):
            _unlink(Path(entry.path))
        elif not is_link(info):
            _remove_files(Path(entry.path))


def is_link(info: os.stat_result) -> bool:
    """Whether an `lstat` result indicates a symbolic link or junction."""
    return stat.S_ISLNK(info.st_mode) or bool(getattr(info, "st_reparse_tag", 0) & _NAME_SURROGATE)


def is_link_at(path: Path) -> bool:
    """Whether the path is a link or junction."""
    try:
        return is_link(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_path(path: Path) -> None:
    """Remove a file, a link (not its target) or a folder that rocenv created, if it exists."""
    if is_link_at(path):
        _remove_link(path)
    elif path.is_dir():
        remove_tree(path)
    else:
        _unlink(path)


def _remove_link(path: Path) -> None:
    # On Windows, `rmdir` removes junctions and links to folders.
    if WINDOWS and path.is_dir():
        path.rmdir()
    else:
        _unlink(path)


def _unlink(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            path.unlink()
        except PermissionError:
            if not WINDOWS:
                raise
            # Windows refuses to unlink read-only files such as those in the store.
            unlink_read_only(path)


def beside(path: Path, purpose: str) -> Path:
    """Return an unpredictable temporary path in the same folder as `path`."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.{purpose}")


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write `data` to `path` atomically: readers see either the old or the complete new contents.

    The file's mode is `mode` minus the umask, even if it replaces a file with a different mode.
    """
    staging = beside(path, "new")
    try:
        with open(staging, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        move(staging, path)
    except BaseException:
        staging.unlink(missing_ok=True)
        raise


# Source: include/uapi/linux/fs.h, RWF_DONTCACHE, in Linux 6.14 and later
_DONTCACHE = 0x80
_uncached_writes = [hasattr(os, "pwritev")]


def write_uncached(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at `offset` and let the kernel evict it from memory once it is on disk.

    Use this for gigabytes of data that will not be read soon, because caching them would evict everything
    else and take longer than writing. If the kernel or the filesystem does not support this, the data is
    written normally.
    """
    while data and _uncached_writes[0]:
        try:
            written = os.pwritev(descriptor, [data], offset, _DONTCACHE)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            _uncached_writes[0] = False
        else:
            data, offset = data[written:], offset + written
    if data:
        os.lseek(descriptor, offset, os.SEEK_SET)
    while data:
        data = data[os.write(descriptor, data) :]


_MAY_BE_IN_USE = (5, 32, 33)  # ERROR_ACCESS_DENIED, …_SHARING_VIOLATION, …_LOCK_VIOLATION. Source: winerror.h


def _users(error: OSError) -> str:
    users = users_of(str(error.filename)) if error.filename else ()
    if not users and getattr(error, "winerror", None) != 5:
        return "another program"
    return " and ".join(users)


@contextlib.contextmanager
def storage_errors(place: Path) -> Iterator[None]:
    """Convert disk errors to a PrefixError with hints; other errors propagate."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpace(f"no space left for `{error.filename or place}`", str(place)) from error
        if getattr(error, "winerror", None) in _MAY_BE_IN_USE and (users := _users(error)):
            raise PrefixError(
                f"`{error.filename}` is in use by {users}",
                hints=("close that program, then run the same command again",),
                code="in-use",
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR):
            raise PrefixError(
                f"cannot write `{error.filename or place}`: {error.strerror}",
                hints=("check who owns the folder, or set ROCENV_HOME to a folder that you own",),
                code="home-unwritable",
            ) from error
        raise


def is_device(name: str) -> bool:
    """Whether Windows reserves the file name for a device."""
    return _DEVICE.fullmatch(name) is not None


def is_same_folder(path: str | Path, other: str | Path) -> bool:
    """Whether two paths refer to the same folder; links and bind mounts give a folder several paths."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
