"""Suggesting another disk that has enough space for rocenv and that this user can use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocenv.system import WINDOWS, disks
from rocenv.system.machine import mounts

pytestmark = pytest.mark.skipif(WINDOWS, reason="the test machine has only one drive")
MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda1 rw
28 27 254:1 / /boot/efi rw,relatime - vfat /dev/vda2 rw
29 27 254:2 / /var/lib rw,relatime - xfs /dev/vdb rw
30 27 254:3 / /data rw,relatime - xfs /dev/vdc rw
31 27 254:4 / /mnt/large\\040disk rw,relatime - btrfs /dev/vdd rw
32 27 0:50 / /mnt/server rw,relatime - nfs4 server:/x rw
33 27 0:51 / /dev/shm rw - tmpfs tmpfs rw
34 27 254:5 / /media/me/stick rw - ext4 /dev/sda1 rw
"""


def test_only_local_disks_for_data_are_considered() -> None:
    assert disks.data_disks(mounts(MOUNTS)) == [Path("/data"), Path("/mnt/large disk")]


def test_the_disk_with_the_most_free_space_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"full": 900, "small": 99, "large": 400, "medium": 300}
    folders = [tmp_path / name for name in free]
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(disks, "_own_folders", lambda: folders)
    monkeypatch.setattr(disks, "_disk", lambda path: path.relative_to(tmp_path).parts[0])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=free[path.name]))
    assert disks.room_elsewhere(tmp_path / "full/home", 100) == (tmp_path / "large/rocenv", 400)
    assert disks.room_elsewhere(tmp_path / "full/home", 500) is None


@pytest.mark.parametrize("name", ["data", "da:ta"])
def test_a_folder_that_cannot_contain_envs_is_not_suggested(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    assert not disks._is_usable(folder), "the folder does not exist"
    folder.mkdir()
    assert disks._is_usable(folder) == (name == "data")
