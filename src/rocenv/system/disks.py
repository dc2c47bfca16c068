"""Find free disk space on this machine, even while rocenv is examining another machine's files."""

from __future__ import annotations

import contextlib
import os
import shutil
import string
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rocenv.system import WINDOWS
from rocenv.system.machine import NETWORK_FILESYSTEMS, holder, mounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.system.machine import Mount

# Local filesystems with locks, hard links and permissions.
_SUITABLE = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "xfs", "zfs"})
# Where the system or desktop mounts disks; if root runs rocenv, `_is_usable` would accept these.
_OF_SYSTEM = frozenset(
    {"boot", "efi", "etc", "home", "media", "nix", "opt", "root", "run", "snap", "tmp", "usr", "var"}
)
_FIXED_DRIVE = 3  # Source: GetDriveTypeW


class Room(NamedTuple):
    """A folder on a disk with free space; the folder does not have to exist."""

    folder: Path
    free_bytes: int


def room_elsewhere(place: Path, needed_bytes: int) -> Room | None:
    """Find a folder on whichever other disk has the most space, or None if none has enough.

    Args:
        place: A path on the disk that is too full; it does not have to exist.
        needed_bytes: The minimum free space.
    """
    found: list[Room] = []
    with contextlib.suppress(OSError):
        here = _disk(place)
        for folder in _own_drives() if WINDOWS else _own_folders():
            free = shutil.disk_usage(folder).free
            if _disk(folder) != here and free >= needed_bytes:
                found.append(Room(folder / "rocenv", free))
    return max(found, key=lambda room: room.free_bytes, default=None)


def _disk(path: Path) -> object:
    while not path.exists() and path != path.parent:
        path = path.parent
    return os.path.splitdrive(path)[0].upper() if WINDOWS else path.stat().st_dev


def _own_folders() -> Iterator[Path]:
    """Yield the user's folders on local disks: the home folder, and those where other disks are mounted."""
    listed = list(mounts(Path("/proc/self/mountinfo").read_text(errors="replace")))
    home = Path.home()
    of_home = holder(listed, home.resolve())
    if _is_usable(home) and (of_home is None or of_home.kind not in NETWORK_FILESYSTEMS):
        yield home
    for point in data_disks(listed):
        yield from [each for each in (point, point / home.name) if _is_usable(each)][:1]


def data_disks(listed: Iterable[Mount]) -> list[Path]:
    """Select the mount points of local disks other than system disks."""
    points = [Path(mount.point) for mount in listed if mount.kind in _SUITABLE]
    return [point for point in points if point.parts[1:] and point.parts[1] not in _OF_SYSTEM]


def _is_usable(folder: Path) -> bool:
    """Whether a folder belongs to this user, is writable, and allows programs to be executed."""
    with contextlib.suppress(OSError):
        flags = os.statvfs(folder).f_flag & (os.ST_RDONLY | os.ST_NOEXEC)
        own = folder.is_dir() and folder.stat().st_uid == os.geteuid()
        # PATH and the dynamic loader treat these characters specially.
        return own and not flags and os.access(folder, os.W_OK) and not set(":;$") & set(str(folder))
    return False


def _own_drives() -> Iterator[Path]:
    """Yield the fixed drives of a Windows machine."""
    import ctypes

    kernel32 = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined]
    for letter in string.ascii_uppercase:
        if kernel32.GetDriveTypeW(f"{letter}:\\") == _FIXED_DRIVE:
            yield Path(f"{letter}:\\")
