"""Unpacking AMD's installer without running it; tests/windows does the same with the real `msiexec`."""

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
from rocenv.install import installer as product
from rocenv.install import store
from rocenv.install.installer import InstallerClosed, archive_start, unpack_installer
from rocenv.install.sevenzip import run_quietly
from rocenv.install.tree import Tree
from tests.hip_installer import installer, msiextract

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.install.conftest import CachedHome

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


UNPACK_MSI = product.unpack_msi


@pytest.fixture(autouse=True)
def _without_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "unpack_msi", msiextract)


def unpack(path: Path, into: Path, advance: Callable[[int], None] = lambda _size: None) -> dict[str, bytes]:
    """Unpack an installer and return its files."""
    tree = Tree(into, advance, for_windows=True)
    try:
        unpack_installer(path, tree, into.parent / "work")
    finally:
        assert list(into.parent.iterdir()) == [into], "no other files are left behind"
    found = {name: (into / name).read_bytes() for name in tree.files}
    for name, content in found.items():
        assert tree.files[name].sha256 == hashlib.sha256(content).hexdigest()
        assert stat.S_IMODE((into / name).stat().st_mode) == 0o444
    assert {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()} == set(found)
    return found


def test_only_the_sdk_is_unpacked(made: Path, into: Path) -> None:
    assert unpack(made, into) == {**CORE, **LIBRARIES}


def test_7zip_unpacks_an_installer_that_py7zr_cannot_read(into: Path, tmp_path: Path) -> None:
    path = installer(tmp_path / "x.exe", "6.2", {"SDKCore/ROCm_SDK_Core.msi": CORE}, "-m0=BCJ2")
    assert unpack(path, into) == CORE


def test_a_hint_suggests_installing_7zip_if_it_is_missing(
    into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = installer(tmp_path / "x.exe", "6.2", {"SDKCore/ROCm_SDK_Core.msi": CORE}, "-m0=BCJ2")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallerClosed, match="BCJ2") as caught:
        unpack(path, into)
    assert "install 7-Zip" in caught.value.hints[0]
    assert "yourself" in caught.value.hints[1]


def test_the_archive_is_found_although_the_installer_program_contains_its_signature(made: Path) -> None:
    data = made.read_bytes()
    start = archive_start(made)
    assert data.index(b"7z\xbc\xaf\x27\x1c") < start
    assert data[start:].startswith(b"7z\xbc\xaf\x27\x1c")
    assert data[:start].endswith(b"!@InstallEnd@!")


def test_two_packages_in_an_installer_can_contain_the_same_file(into: Path, tmp_path: Path) -> None:
    shared = {"LICENSE.txt": b"the same"}
    packages = {"a/ROCm_A.msi": {**CORE, **shared}, "b/ROCm_B.msi": {**LIBRARIES, **shared}}
    path = installer(tmp_path / "x.exe", "5.7", packages)
    assert unpack(path, into) == {**CORE, **LIBRARIES, **shared}


def test_packages_with_different_files_at_the_same_path_are_rejected(into: Path, tmp_path: Path) -> None:
    packages = {"a/ROCm_A.msi": CORE, "b/ROCm_B.msi": {"bin/amdhip64.dll": b"another"}}
    with pytest.raises(ArchiveError, match=r"`bin/amdhip64\.dll` differs between two packages"):
        unpack(installer(tmp_path / "x.exe", "5.7", packages), into)


@pytest.mark.parametrize(
    ("packages", "why"),
    [
        ({"Setup.msi": CORE}, "contains no ROCm_"),
        ({"a/ROCm_A.msi": {"doc/readme.txt": b"x"}}, r"not contain `ROCm\\5\.7\\bin`"),
    ],
)
def test_a_different_kind_of_installer_is_rejected(
    into: Path, tmp_path: Path, packages: dict[str, dict[str, bytes]], why: str
) -> None:
    with pytest.raises(ArchiveError, match=why):
        unpack(installer(tmp_path / "x.exe", "5.7", packages), into)


def test_an_invalid_version_folder_is_rejected(into: Path, tmp_path: Path) -> None:
    path = installer(tmp_path / "x.exe", "current", {"SDKCore/ROCm_SDK_Core.msi": CORE})
    with pytest.raises(ArchiveError, match="found: none"):
        unpack(path, into)


@pytest.mark.parametrize("content", [b"<!doctype html><title>Sign in", b"", b"MZ" + bytes(5000)])
def test_a_file_that_is_not_an_installer_is_rejected(into: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.exe"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=r"web page|empty|does not contain a 7z archive"):
        unpack(path, into)


def test_a_truncated_download_is_rejected(made: Path, into: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.exe"
    data = made.read_bytes()
    for kept in (len(data) - 1, len(data) - 5000, archive_start(made) + 40, archive_start(made) + 20, 1000):
        path.write_bytes(data[:kept])
        with pytest.raises(ArchiveError):
            unpack(path, into)
        assert list(into.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("exit 65", r"`msiexec /a` on ROCm_Libs_RT\.msi: exit code 65"),
        ("exit 0", r"`msiexec /a` unpacked no files from ROCm_Libs_RT\.msi"),
    ],
)
def test_a_windows_installer_error_is_explained(
    made: Path, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, why: str
) -> None:
    with_msiexec(tmp_path, monkeypatch, answer)
    with pytest.raises(InstallerClosed, match=why) as caught:
        unpack(made, into)
    assert caught.value.code == "installer-closed"
    assert "yourself" in caught.value.hints[-1]


@pytest.mark.parametrize(
    ("code", "cause"),
    [(1601, "disabled it"), (1618, "another installation"), (1625, "a system policy")],
)
def test_an_exit_code_that_means_blocked_by_policy_is_explained(
    made: Path, into: Path, monkeypatch: pytest.MonkeyPatch, code: int, cause: str
) -> None:
    monkeypatch.setattr(product, "unpack_msi", UNPACK_MSI)
    monkeypatch.setattr(product, "WINDOWS", True)
    monkeypatch.setattr(product, "run_quietly", lambda *_: f"exit code {code}")
    with pytest.raises(InstallerClosed, match=f"exit code {code} .*{cause}"):
        unpack(made, into)


def test_on_other_systems_the_error_mentions_windows(
    made: Path, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "unpack_msi", UNPACK_MSI)
    with pytest.raises(InstallerClosed, match=r"only Windows can unpack `ROCm_Libs_RT\.msi`"):
        unpack(made, into)


def with_msiexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Replace Windows Installer with a shell script."""
    program = tmp_path / "System32" / "msiexec.exe"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(product, "unpack_msi", UNPACK_MSI)
    monkeypatch.setattr(product, "WINDOWS", True)
    monkeypatch.setattr(
        product,
        "run_quietly",
        lambda line, advance, timeout_s: run_quietly([str(program), line], advance, timeout_s),
    )


def test_an_interruption_kills_the_unpacking_program(
    made: Path, into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_msiexec(tmp_path, monkeypatch, f"echo $$ > {tmp_path}/pid\nexec sleep 60")

    class Enough(Exception):
        pass

    def advance(_size: int) -> None:
        if (tmp_path / "pid").exists():
            raise Enough

    began = time.monotonic()
    with pytest.raises(Enough):
        unpack(made, into, advance)
    assert time.monotonic() - began < 20
    pid = (tmp_path / "pid").read_text().strip()
    assert not Path("/proc", pid).exists()
    assert list(into.parent.iterdir()) == [into]


def test_an_installer_is_unpacked_into_the_store(made: Path, cached_home: CachedHome) -> None:
    data = made.read_bytes()
    artifact = Artifact(
        kind="installer",
        name="HIP-SDK",
        version="5.7.1",
        url="https://mirror.example/x.exe",
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )
    cached_home.home.artifacts.mkdir(parents=True)
    shutil.copyfile(made, cached_home.package(artifact))
    store.add(cached_home.home, artifact, cached_home.package(artifact), cached_home.pool, lambda _size: None)
    assert set(store.manifest_of(cached_home.home, artifact)) == {*CORE, *LIBRARIES}
    assert list((cached_home.home.store / store.STAGING).iterdir()) == []
