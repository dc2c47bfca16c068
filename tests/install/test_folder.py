from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rocenv.core.errors import PrefixError
from rocenv.install import store
from rocenv.install.folder import folder_artifact
from tests.users import unprivileged

if TYPE_CHECKING:
    from rocenv.core.model import Artifact
    from tests.install.conftest import CachedHome

FILES = {"bin/amdhip64.dll": b"hip" * 5000, "bin/rocblas/library/a.dat": b"kernels", "include/empty.h": b""}


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    folder = tmp_path / "Program Files" / "AMD" / "ROCm" / "5.7"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def take(cached_home: CachedHome, folder: Path, copied: list[int] | None = None) -> Artifact:
    advance = (lambda _size: None) if copied is None else copied.append
    artifact = folder_artifact(folder, name="HIP-SDK", version="5.7.1")
    store.add(cached_home.home, artifact, folder, cached_home.pool, advance)
    return artifact


def state(folder: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in folder.rglob("*"):
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path)] = (info.st_mode, info.st_nlink, info.st_mtime_ns, content)
    return found


def test_an_artifact_folder_is_copied_and_not_modified(cached_home: CachedHome, sdk: Path) -> None:
    before = state(sdk)
    copied: list[int] = []
    artifact = take(cached_home, sdk, copied)
    assert (artifact.kind, artifact.path) == ("folder", str(sdk))
    assert artifact.size_bytes == sum(copied) == sum(map(len, FILES.values()))
    manifest = store.manifest_of(cached_home.home, artifact)
    assert {name: entry.sha256 for name, entry in manifest.items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()
    }
    tree = store.tree_of(cached_home.home, artifact)
    for name, content in FILES.items():
        assert (tree / name).read_bytes() == content
        assert (tree / name).stat().st_nlink == 1, "the copy contains no links to system files"
        assert stat.S_IMODE((tree / name).stat().st_mode) == 0o444
    assert state(sdk) == before


def test_a_folder_with_identical_files_is_not_copied_again(
    cached_home: CachedHome, sdk: Path, tmp_path: Path
) -> None:
    first = take(cached_home, sdk)
    copied: list[int] = []
    assert take(cached_home, sdk, copied) == first
    assert sum(copied) == 0
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(sdk, elsewhere)
    again = take(cached_home, elsewhere, copied)
    assert (again.sha256, again.path) == (first.sha256, str(elsewhere))
    assert sum(copied) == 0


@pytest.mark.parametrize("change", ["content", "name", "more", "less"])
def test_any_difference_between_folders_produces_a_different_artifact(
    cached_home: CachedHome, sdk: Path, change: str
) -> None:
    first = take(cached_home, sdk)
    path = sdk / "bin" / "amdhip64.dll"
    if change == "content":
        path.write_bytes(b"HIP" * 5000)
    elif change == "name":
        path.rename(path.with_name("amdhip65.dll"))
    elif change == "more":
        path.with_name("more.dll").write_bytes(b"")
    else:
        path.unlink()
    assert take(cached_home, sdk).sha256 != first.sha256
    assert len([entry for entry in cached_home.home.store.iterdir() if entry.name != store.STAGING]) == 2


@pytest.mark.parametrize("name", ["bin/amdhip64.dll", "bin/rocblas"])
def test_an_unreadable_file_is_reported(sdk: Path, name: str) -> None:
    (sdk / name).chmod(0)
    code = f"""
from pathlib import Path
from rocenv.core.errors import PrefixError
from rocenv.install.folder import folder_artifact
try:
    folder_artifact(Path({str(sdk)!r}), name="x", version="1")
except PrefixError as error:
    print(error.message)
"""
    command = [*unprivileged(), sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (sdk / name).chmod(0o755)
    assert done.stdout == f"cannot read `{sdk / name}`: Permission denied\n"


def test_links_within_the_folder_become_files_and_others_are_rejected(
    cached_home: CachedHome, sdk: Path, tmp_path: Path
) -> None:
    link = sdk / "bin" / "link.dll"
    link.symlink_to("amdhip64.dll")
    artifact = take(cached_home, sdk)
    copy = store.tree_of(cached_home.home, artifact) / "bin" / "link.dll"
    assert not copy.is_symlink()
    assert copy.read_bytes() == FILES["bin/amdhip64.dll"]
    (tmp_path / "secret").write_text("mine")
    for target, why in [
        (tmp_path / "secret", "points outside"),
        (Path("../../../../../../secret"), "points outside"),
        (sdk / "bin" / "rocblas", "link to a folder"),
        (sdk, "link to a folder"),
        (Path("nowhere"), "cannot read"),
    ]:
        link.unlink()
        link.symlink_to(target)
        with pytest.raises(PrefixError, match=why) as caught:
            take(cached_home, sdk)
        assert str(link) in caught.value.message


def test_the_folder_itself_can_be_a_link(cached_home: CachedHome, sdk: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(sdk)
    assert take(cached_home, tmp_path / "current").sha256 == take(cached_home, sdk).sha256


def test_a_special_file_in_the_folder_is_reported(cached_home: CachedHome, sdk: Path) -> None:
    os.mkfifo(sdk / "bin" / "pipe")
    with pytest.raises(PrefixError, match="pipe` is not a file"):
        take(cached_home, sdk)


@pytest.mark.parametrize("there", [True, False])
def test_an_empty_or_missing_folder_is_an_error(cached_home: CachedHome, tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "5.7"
    if there:
        folder.mkdir()
    with pytest.raises(PrefixError, match=r"5\.7` contains no files|cannot read .*5\.7`"):
        take(cached_home, folder)


def test_names_that_windows_treats_as_equal_are_an_error(cached_home: CachedHome, sdk: Path) -> None:
    (sdk / "bin" / "AMDHIP64.DLL").write_bytes(b"")
    with pytest.raises(PrefixError, match="twice"):
        folder_artifact(sdk, name="HIP-SDK", version="5.7.1")


def test_a_growing_file_is_copied_only_up_to_its_declared_size(cached_home: CachedHome, sdk: Path) -> None:
    (sdk / "bin" / "more.dll").write_bytes(b"x" * 100_000)
    described = folder_artifact(sdk, name="HIP-SDK", version="5.7.1")
    artifact = replace(described, size_bytes=50_000, sha256="0" * 64)
    copied: list[int] = []
    with pytest.raises(PrefixError, match="has changed"):
        store.add(cached_home.home, artifact, sdk, cached_home.pool, copied.append)
    assert sum(copied) <= 50_000


def test_a_damaged_copy_is_kept_if_its_original_folder_is_missing(cached_home: CachedHome, sdk: Path) -> None:
    artifact = take(cached_home, sdk)
    expected = store.manifest_of(cached_home.home, artifact)
    tree = store.tree_of(cached_home.home, artifact)
    (tree / "include" / "empty.h").unlink()
    sdk.rename(sdk.with_name("5.8"))
    with pytest.raises(PrefixError, match="is missing"):
        store.add(cached_home.home, artifact, sdk, cached_home.pool, lambda _size: None, expected)
    assert (tree / "bin" / "amdhip64.dll").read_bytes() == FILES["bin/amdhip64.dll"]


@pytest.mark.parametrize("change", ["filled", "gone", "all gone"])
def test_a_folder_changed_before_copying_is_rejected(cached_home: CachedHome, sdk: Path, change: str) -> None:
    artifact = folder_artifact(sdk, name="HIP-SDK", version="5.7.1")
    if change == "filled":
        (sdk / "include" / "empty.h").write_bytes(b"filled now")
    else:
        shutil.rmtree(sdk if change == "all gone" else sdk / "include")
    with pytest.raises(PrefixError, match="is missing or has changed") as caught:
        store.add(cached_home.home, artifact, sdk, cached_home.pool, lambda _size: None)
    assert str(sdk) in caught.value.message
    assert not store.holds(cached_home.home, artifact)
    assert list((cached_home.home.store / store.STAGING).iterdir()) == []


def test_gc_removes_a_copied_folder(cached_home: CachedHome, sdk: Path) -> None:
    artifact = take(cached_home, sdk)
    assert store.sweep(cached_home.home, frozenset({artifact.sha256}), dry_run=False) == []
    (freed,) = store.sweep(cached_home.home, frozenset(), dry_run=False)
    assert freed[0] == "HIP-SDK 5.7.1"
    assert (sdk / "bin" / "amdhip64.dll").read_bytes() == FILES["bin/amdhip64.dll"]
