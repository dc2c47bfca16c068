"""Files: hashing, links, renames, removal, atomic writes, and errors of the disk."""

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

from rocenv.core.errors import PrefixError
from rocenv.system import WINDOWS
from rocenv.system.windows_files import unlink_read_only, users_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK_BYTES = 1 << 20
_NAME_SURROGATE = 0x20000000  # of a link or a junction, not of a cloud's file. Source: ntifs.h
_PATIENCE_S = 5.0  # a virus scanner looks at what was just written, and lets go of it soon
_PAUSE_S = 0.05
_ASIDE = re.compile(r"\.(.+)\.[0-9a-f]+\.removing", re.S)
# Source: learn.microsoft.com, "Naming Files, Paths, and Namespaces"
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\..*)?", re.I)


def file_chunks(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yield a file's bytes from a position on, in pieces of at most 1 MiB."""
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
    """Hash a file's contents, as lower-case hex."""
    return hash_of(path, "sha256").hex()


def clone_file(source: Path, destination: Path) -> str:
    """Make `destination`, which must not exist, the same file as `source` without new data where possible.

    Returns the way that worked: `hardlink`, `reflink` or `copy`. A file system without hard links
    (some cloud folders, exFAT), another device, or one with too many links falls through to the next way.
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
    """Rename a file, also to the name of another one, or a folder to where none is.

    On Windows it is tried for some seconds, since a scanner may hold what was just written.
    """
    # The spelling of a folder's name alone can be changed by `rename`, which replaces nothing on Windows.
    rename = os.rename if os.path.isdir(source) else os.replace
    end = time.monotonic() + (_PATIENCE_S if WINDOWS else 0.0)
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
    """Rename a folder; raise PrefixError where, on Windows, a running program has a file below it open."""
    try:
        move(folder, destination)
    except PermissionError as error:
        if not WINDOWS:
            raise
        raise in_use(folder, folder.rglob("*")) from error


def in_use(folder: Path, files: Iterable[Path]) -> PrefixError:
    """The error of a folder in which a program has one of these files open, by its name if known."""
    programs = (str(path) for path in files if path.suffix.lower() in (".dll", ".exe", ".pyd"))
    users = next((found for path in programs if (found := users_of(path))), ())
    return PrefixError(
        f"a file in `{folder}` is in use by {' and '.join(users) or 'another program'}",
        hints=("close that program, then run the same command again",),
        code="in-use",
    )


def require_unused(folder: Path) -> None:
    """Raise PrefixError where, on Windows, a running program has a file open below a folder to be removed.

    The folder is renamed and back again. What is left under the other name, if this is interrupted in
    between, is known by `set_aside`.
    """
    if not WINDOWS:
        return
    aside = beside(folder, "removing")
    move_unused(folder, aside)
    move_unused(aside, folder)


def set_aside(name: str) -> str:
    """The name of the folder whose removal left one of this name behind, "" for any other."""
    found = _ASIDE.fullmatch(name)
    return found[1] if found else ""


def break_link(path: Path) -> None:
    """Give `path` data of its own, writable, so that changing it cannot reach the store or another env.

    A file with one name only is merely made writable.
    """
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        return
    if info.st_nlink > 1:
        fresh = beside(path, "own")
        shutil.copy2(path, fresh)
        try:
            if WINDOWS:
                _unlink(path)  # or its name, if it is read-only, cannot be given to another file
            move(fresh, path)
        except BaseException:
            _unlink(fresh)
            raise
    path.chmod(stat.S_IMODE(info.st_mode) | stat.S_IWUSR)


def remove_tree(path: Path) -> None:
    """Remove a folder that rocenv made, locked folders in it included; absent is fine.

    Of a link that stands in its place, only the link is removed. No file's mode is touched on the way: the
    store and other envs may share it.
    """
    if leads_elsewhere(path):
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
    """Remove all files below a folder, read-only or not, and leave folders that can be removed.

    On Windows only, where `os.walk` of older Pythons would go through junctions.
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
    """Whether the answer of `lstat` is a symbolic link's or a junction's."""
    return stat.S_ISLNK(info.st_mode) or bool(getattr(info, "st_reparse_tag", 0) & _NAME_SURROGATE)


def leads_elsewhere(path: Path) -> bool:
    """Whether a link or a junction is there."""
    try:
        return is_link(path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove_path(path: Path) -> None:
    """Remove a file, a link (not what it leads to) or a folder that rocenv made; absent is fine."""
    if leads_elsewhere(path):
        _remove_link(path)
    elif path.is_dir():
        remove_tree(path)
    else:
        _unlink(path)


def _remove_link(path: Path) -> None:
    # Windows removes links to folders, and junctions, as folders.
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
            # Windows removes no name of a file that is marked read-only, as those of the store are.
            unlink_read_only(path)


def beside(path: Path, purpose: str) -> Path:
    """Name something temporary in the folder of `path`; nobody can have put anything there in advance."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}.{purpose}")


def write_atomic(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write `data` to `path` so that a reader sees the old content or all of the new, never a part.

    The file has `mode`, less what the umask takes away, whatever an older file of that name had.
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


# Source: include/uapi/linux/fs.h, RWF_DONTCACHE, since Linux 6.14
_DONTCACHE = 0x80
_uncached_writes = [hasattr(os, "pwritev")]


def write_uncached(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at `offset`, and let the kernel drop it from memory once it is on the disk.

    For gigabytes that nobody reads soon: they would push everything else out of the page cache, and finding
    pages for them costs more than writing them. Kernels and file systems without that ability write as ever.
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
    """Turn what the disk answers into a PrefixError that says what to do; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise PrefixError(
                f"no space left for `{error.filename or place}`",
                hints=(
                    "free some: `rocenv gc` shows what no env needs",
                    "or set ROCENV_HOME to a folder on a larger disk",
                ),
                code="no-space",
            ) from error
        if getattr(error, "winerror", None) in _MAY_BE_IN_USE and (users := _users(error)):
            raise PrefixError(
                f"`{error.filename}` is in use by {users}",
                hints=("close that program, then run the same command again",),
                code="in-use",
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR):
            raise PrefixError(
                f"cannot write `{error.filename or place}`: {error.strerror}",
                hints=("check who owns the folder, or set ROCENV_HOME to one of your own",),
                code="home-unwritable",
            ) from error
        raise


def is_device(name: str) -> bool:
    """Whether Windows takes the name of a file, in any folder, for a device."""
    return _DEVICE.fullmatch(name) is not None
