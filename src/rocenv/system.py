"""The seam to the operating system: what differs between Linux and Windows, and every look at the machine.

Facts about the machine are read below `ROCENV_SYSROOT` when that is set, so that a copy of another
machine's files can be examined. Nothing else in the package asks `sys.platform`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rocenv.errors import PrefixError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WINDOWS = sys.platform == "win32"
LIBRARY_PATH = "PATH" if WINDOWS else "LD_LIBRARY_PATH"

# File systems whose locks, links or memory maps cannot be relied on.
# Why a network home is refused: docs/design.md, "Where an env may lie".
NETWORK_FILESYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "fuse.sshfs", "fuse.rclone", "fuse.s3fs"}
)


# ---------------------------------------------------------------- looking at the machine


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


def list_folder(path: str) -> list[str]:
    """Return the sorted names in a folder of the examined machine; empty where it cannot be read."""
    try:
        return sorted(os.listdir(machine_path(path)))
    except OSError:
        return []


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


def free_bytes(path: Path) -> int:
    """Return the bytes that an ordinary user may still write where `path` is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


# ---------------------------------------------------------------- files and links


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


def break_link(path: Path) -> None:
    """Give `path` data of its own, writable, so that changing it cannot reach the store or another env.

    A file with one name only is merely made writable.
    """
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        return
    if info.st_nlink > 1:
        fresh = path.with_name(f".{path.name}.{os.getpid()}.own")
        shutil.copy2(path, fresh)
        os.replace(fresh, path)
    path.chmod(stat.S_IMODE(info.st_mode) | stat.S_IWUSR)


def remove_tree(path: Path) -> None:
    """Remove a folder that rocenv made, locked folders in it included; absent is fine.

    On POSIX no file's mode is touched on the way: the store and other envs may share it.
    """
    if path.is_symlink() or not path.exists():
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        _make_removable(path)
        shutil.rmtree(path)


def _make_removable(path: Path) -> None:
    # Removing needs writable folders on POSIX and writable files on Windows.
    path.chmod(0o700)
    for folder, subfolders, names in os.walk(path):
        for name in (*subfolders, *(names if WINDOWS else ())):
            inner = Path(folder, name)
            if not inner.is_symlink():
                inner.chmod(0o700)


def remove_path(path: Path) -> None:
    """Remove a file, a link (not what it leads to) or a folder that rocenv made; absent is fine."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old content or all of the new, never a part."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with staging.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(staging, path)
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
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR):
            raise PrefixError(
                f"cannot write `{error.filename or place}`: {error.strerror}",
                hints=("check who owns the folder, or set ROCENV_HOME to one of your own",),
                code="home-unwritable",
            ) from error
        raise


# ---------------------------------------------------------------- locks


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, waiting: str = "") -> Iterator[None]:
    """Hold a lock between processes; the kernel drops it when its holder dies, however it dies.

    Args:
        path: The lock file; made when absent and left in place, since removing it would race.
        shared: Let other shared holders in (on Windows every lock is exclusive).
        waiting: Printed to stderr once if another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as handle:
        said = False
        while not _try_lock(handle.fileno(), shared):
            if waiting and not said:
                sys.stderr.write(waiting + "\n")
                said = True
            time.sleep(0.05)
        try:
            yield
        finally:
            _unlock(handle.fileno())


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int, shared: bool) -> bool:
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise PrefixError(
                f"cannot lock a file on this file system: {error.strerror}",
                hints=("set ROCENV_HOME to a folder on a local disk",),
            ) from error
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


# ---------------------------------------------------------------- processes


def group_options() -> dict[str, Any]:
    """Return the `Popen` options that put a child into a group of its own, for `kill_group`."""
    if WINDOWS:
        return {"creationflags": 0x00000200}  # CREATE_NEW_PROCESS_GROUP
    return {"start_new_session": True}


def kill_group(child: subprocess.Popen[Any]) -> None:
    """End a child started with `group_options`, and what it started."""
    if WINDOWS:
        subprocess.run(
            ["taskkill", "/T", "/F", "/PID", str(child.pid)], capture_output=True, check=False, timeout=30
        )
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def describe_exit(code: int) -> str:
    """Return a name for an exit code of a child: `SIGSEGV`, `0xC0000005` or `exit code 3`."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    if code & 0xC0000000 == 0xC0000000:
        return f"0x{code:08X}"
    return f"exit code {code}"


def is_crash(code: int) -> bool:
    """Tell whether an exit code of a child means that it was ended by a fault and not by its own choice."""
    return code < 0 or code & 0xC0000000 == 0xC0000000


def replace_process(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Become `argv`, so that its exit code is ours; on Windows run it and exit with its 32-bit code.

    Raises:
        OSError: The program cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if WINDOWS:
        raise SystemExit(subprocess.run(argv, env=dict(environ), check=False).returncode)
    for name in ("SIGPIPE", "SIGXFSZ"):
        # Python ignores these, and a program would inherit that: `yes | head` would not end quietly.
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(argv[0], list(argv), dict(environ))
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script without `#!` is run by sh, as every shell does. Source: execvp(3)
        os.execve("/bin/sh", ["/bin/sh", *argv], dict(environ))
