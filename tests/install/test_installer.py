"""AMD's installer, unpacked without running it; tests/windows has the same in Windows Python."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import ArchiveError
from rocenv.core.model import Artifact
from rocenv.install import store
from rocenv.install.installer import InstallerClosed, archive_start, unpack_installer
from rocenv.install.packages_msi import cabinet_names
from tests.hip_installer import PACKAGES, installer, pack

if TYPE_CHECKING:
    from tests.install.conftest import Cellar

CORE = {"bin/amdhip64.dll": b"MZ hip" * 999, "bin/hipcc.bat": b"@echo off\r\n", "include/hip/hip.h": b"//"}
LIBRARIES = {
    "bin/rocblas.dll": os.urandom(9000),
    "bin/rocblas/library/TensileLibrary_gfx1030.dat": b"x" * 500,
}
SDK = {
    "SDKCore/ROCm_SDK_Core.msi": CORE,
    "LibrariesRuntime/ROCm_Libs_RT.msi": LIBRARIES,
    "VisualStudioPlugin2022/Plugin.msi": {"extension.vsix": b"not for us"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installer(tmp_path_factory.mktemp("made") / "Setup-For-HIP.exe", "5.7", SDK)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "around" / "into"
    folder.mkdir(parents=True)
    return folder


def unpack(path: Path, into: Path) -> dict[str, bytes]:
    """Unpack an installer, and return the contents that came out."""
    try:
        entries = unpack_installer(path, into, lambda _size: None)
    finally:
        assert list(into.parent.iterdir()) == [into], "nothing else is left"
    found = {name: (into / name).read_bytes() for name in entries}
    for name, content in found.items():
        assert entries[name].sha256 == hashlib.sha256(content).hexdigest()
        assert stat.S_IMODE((into / name).stat().st_mode) == 0o444
    assert {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()} == set(found)
    return found


def test_the_sdk_comes_out_and_nothing_else(made: Path, into: Path) -> None:
    assert unpack(made, into) == {**CORE, **LIBRARIES}


def test_one_that_only_7zip_can_read(into: Path, tmp_path: Path) -> None:
    path = installer(tmp_path / "x.exe", "6.2", {"SDKCore/ROCm_SDK_Core.msi": CORE}, "-m0=BCJ2")
    assert unpack(path, into) == CORE


def test_without_7zip_for_one_of_those(into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = installer(tmp_path / "x.exe", "6.2", {"SDKCore/ROCm_SDK_Core.msi": CORE}, "-m0=BCJ2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallerClosed, match="BCJ2") as caught:
        unpack(path, into)
    assert "install 7-Zip" in caught.value.hints[0]
    assert "yourself" in caught.value.hints[1]


def test_the_archive_is_found_behind_a_program_that_names_its_signature(made: Path) -> None:
    data = made.read_bytes()
    start = archive_start(made)
    assert data.index(b"7z\xbc\xaf\x27\x1c") < start
    assert data[start:].startswith(b"7z\xbc\xaf\x27\x1c")
    assert data[:start].endswith(b"!@InstallEnd@!")


def test_a_file_that_two_packages_share(into: Path, tmp_path: Path) -> None:
    shared = {"LICENSE.txt": b"the same"}
    packages = {"a/ROCm_A.msi": {**CORE, **shared}, "b/ROCm_B.msi": {**LIBRARIES, **shared}}
    path = installer(tmp_path / "x.exe", "5.7", packages)
    assert unpack(path, into) == {**CORE, **LIBRARIES, **shared}


def test_packages_that_do_not_agree(into: Path, tmp_path: Path) -> None:
    packages = {"a/ROCm_A.msi": CORE, "b/ROCm_B.msi": {"bin/amdhip64.dll": b"another"}}
    with pytest.raises(ArchiveError, match=r"`bin/amdhip64\.dll` is in two parts"):
        unpack(installer(tmp_path / "x.exe", "5.7", packages), into)


@pytest.mark.parametrize(
    ("packages", "why"),
    [
        ({"Setup.msi": CORE}, "holds no ROCm_"),
        ({"a/ROCm_A.msi": {"doc/readme.txt": b"x"}}, r"no `ROCm\\5\.7\\bin`"),
    ],
)
def test_another_kind_of_installer(
    into: Path, tmp_path: Path, packages: dict[str, dict[str, bytes]], why: str
) -> None:
    with pytest.raises(ArchiveError, match=why):
        unpack(installer(tmp_path / "x.exe", "5.7", packages), into)


def test_a_folder_that_is_no_version(into: Path, tmp_path: Path) -> None:
    path = installer(tmp_path / "x.exe", "current", {"SDKCore/ROCm_SDK_Core.msi": CORE})
    with pytest.raises(ArchiveError, match="found: none"):
        unpack(path, into)


@pytest.mark.parametrize("content", [b"<!doctype html><title>Sign in", b"", b"MZ" + bytes(5000)])
def test_what_is_no_installer(into: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.exe"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"web page|empty|holds no 7z archive"):
        unpack(path, into)


def test_a_download_that_broke_off(made: Path, into: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.exe"
    data = made.read_bytes()
    for kept in (len(data) - 1, len(data) - 5000, archive_start(made) + 40, archive_start(made) + 20, 1000):
        path.write_bytes(data[:kept])
        with pytest.raises(ArchiveError):
            unpack(path, into)
        assert list(into.iterdir()) == []


def test_a_package_that_is_none(into: Path, tmp_path: Path) -> None:
    place = tmp_path / "content" / PACKAGES / "SDKCore"
    place.mkdir(parents=True)
    (place / "ROCm_SDK_Core.msi").write_bytes(b"not a package")
    pack(tmp_path / "x.exe", tmp_path / "content")
    with pytest.raises(InstallerClosed, match=r"installer.*msiextract of ROCm_SDK_Core\.msi") as caught:
        unpack(tmp_path / "x.exe", into)
    assert caught.value.code == "installer-closed"
    assert len(caught.value.tried) == 1


def test_without_a_program_it_says_what_was_tried(
    made: Path, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallerClosed, match=r"msiextract of ROCm_Libs_RT\.msi: it is not installed"):
        unpack(made, into)


def test_whoever_does_not_wait_ends_the_program_that_unpacks(
    made: Path, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "msiextract").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    (tools / "msiextract").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    class Enough(Exception):
        pass

    def advance(_size: int) -> None:
        if (tmp_path / "pid").exists():
            raise Enough

    began = time.monotonic()
    with pytest.raises(Enough):
        unpack_installer(made, into, advance)
    assert time.monotonic() - began < 20
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path("/proc", pid).exists()
    assert list(into.parent.iterdir()) == [into]


def test_in_the_store(made: Path, cellar: Cellar) -> None:
    data = made.read_bytes()
    artifact = Artifact(
        kind="installer",
        name="HIP-SDK",
        version="5.7.1",
        url="https://mirror.example/x.exe",
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )
    cellar.home.artifacts.mkdir(parents=True)
    shutil.copyfile(made, cellar.package(artifact))
    store.add(cellar.home, artifact, cellar.package(artifact), cellar.pool, lambda _size: None)
    assert set(store.manifest_of(cellar.home, artifact)) == {*CORE, *LIBRARIES}
    assert list((cellar.home.store / store.STAGING).iterdir()) == []


def test_names_in_a_cabinet(tmp_path: Path) -> None:
    header = bytearray(b"MSCF" + bytes(32))
    header[16:20] = (36).to_bytes(4, "little")
    header[28:30] = (2).to_bytes(2, "little")
    files = bytes(16) + b"File1\0" + bytes(16) + b"..\\x\0"
    (tmp_path / "x.cab").write_bytes(bytes(header) + files)
    assert cabinet_names(tmp_path / "x.cab") == ["File1", "..\\x"]
    (tmp_path / "x.cab").write_bytes(b"MZ")
    with pytest.raises(ValueError, match="no cabinet"):
        cabinet_names(tmp_path / "x.cab")
