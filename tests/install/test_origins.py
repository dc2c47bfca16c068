"""Locations of archive files in a prefix, computed from manifests in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from rocenv.core.errors import ArchiveError, PrefixError
from rocenv.home import Home
from rocenv.install.origins import tree_files
from tests.sets import zluda_lock
from tests.stores import write_manifest

if TYPE_CHECKING:
    from pathlib import Path

SDK = ("bin/amdhip64.dll", "bin/rocblas.dll", "bin/rocblas/library/TensileLibrary_gfx1030.dat")
ZLUDA = ("nvcuda.dll", "cublas.dll")


def stored(
    tmp_path: Path, *, sdk: tuple[str, ...] = SDK, zluda: tuple[str, ...], pack: tuple[str, ...]
) -> Home:
    home = Home(tmp_path)
    for digit, names in (("1", sdk), ("2", zluda), ("3", pack)):
        folder = home.store / (digit * 64)
        folder.mkdir(parents=True)
        files = {name: {"sha256": digit * 64, "size_bytes": 1} for name in names}
        write_manifest(home, folder.name, files)
    return home


PACK = ("library/Kernels_gfx1031.co", "rocblas.dll")


@pytest.mark.parametrize(
    ("zluda", "left_out"),
    [
        (tuple(f"zluda/{name}" for name in ZLUDA), ()),
        (ZLUDA, ()),
        (
            (
                "zluda/nvcuda.dll",
                "zluda/cublas.dll",
                "zluda/trace/cublas.dll",
                "zluda/32/nvcuda.dll",
                "README",
            ),
            ("README",),
        ),
    ],
    ids=["top folder", "flat", "copies with the same names in deeper folders"],
)
def test_zluda_archives_can_have_a_top_level_folder(
    tmp_path: Path, zluda: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    found = tree_files(zluda_lock(), stored(tmp_path, zluda=zluda, pack=PACK))
    assert found["zluda/nvcuda.dll"].inner in ("nvcuda.dll", "zluda/nvcuda.dll")
    assert found["zluda/cublas.dll"].inner in ("cublas.dll", "zluda/cublas.dll"), (
        "the tracing copy is not used"
    )
    assert not [path for path in found if path.endswith(left_out or ("nothing",))]


@pytest.mark.parametrize("inner", ["", "rocm gfx1031/"])
def test_a_pack_overlays_the_sdk(tmp_path: Path, inner: str) -> None:
    pack = tuple(f"{inner}{name}" for name in PACK)
    found = tree_files(zluda_lock(), stored(tmp_path, zluda=ZLUDA, pack=(*pack, f"{inner}readme.txt")))
    assert found["rocm/5.7/bin/rocblas.dll"].artifact.name == "pack.7z"
    assert found["rocm/5.7/bin/rocblas/library/Kernels_gfx1031.co"].artifact.name == "pack.7z"
    assert found["rocm/5.7/bin/amdhip64.dll"].artifact.name == "sdk.exe"
    assert found["rocm/5.7/bin/rocblas/library/TensileLibrary_gfx1030.dat"].artifact.name == "sdk.exe"
    assert not [path for path in found if "readme" in path]


def test_paths_in_windows_archives_are_case_insensitive(tmp_path: Path) -> None:
    sdk = ("bin/amdhip64.dll", "bin/RocBLAS.dll")
    found = tree_files(zluda_lock(), stored(tmp_path, sdk=sdk, zluda=ZLUDA, pack=PACK))
    assert [path for path in found if path.lower() == "rocm/5.7/bin/rocblas.dll"] == [
        "rocm/5.7/bin/rocblas.dll"
    ]


def test_a_path_that_is_a_file_in_one_component_and_a_folder_in_another_is_rejected(tmp_path: Path) -> None:
    """The file could be a link, which can redirect writes to any location."""
    home = stored(tmp_path, zluda=("bin/amdhip64.dll/nvcuda.dll",), pack=PACK)
    lock = zluda_lock()
    parts = (
        replace(part, into="rocm/5.7", anchor="") if part.kind == "zluda" else part
        for part in lock.components
    )
    with pytest.raises(PrefixError, match="but a folder in another package") as caught:
        tree_files(replace(lock, components=tuple(parts)), home)
    assert caught.value.code == "package-conflict"


def test_an_archive_without_the_expected_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"`nvcuda\.dll` is missing"):
        tree_files(zluda_lock(), stored(tmp_path, zluda=("setup.exe",), pack=PACK))


def test_an_empty_pack_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not a library pack"):
        tree_files(zluda_lock(), stored(tmp_path, zluda=ZLUDA, pack=("readme.txt", "my library.txt")))
