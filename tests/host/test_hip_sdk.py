"""Identifying installed HIP SDKs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.host.hip_sdk import examine, installed_sdks

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.data.rows import Matrix

LIBRARIES = ("rocblas.dll", "rocsolver.dll", "rocsparse.dll", "hipfft.dll", "hipblas.dll")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def sdk(folder: Path, *names: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    for name in names:
        (folder / "bin" / name).write_bytes(b"MZ")
    return folder


def test_an_sdk_is_identified_by_its_files_not_by_its_folder_name(tmp_path: Path, matrix: Matrix) -> None:
    found = examine(sdk(tmp_path / "6.2", "HIPRTC0507.dll", *LIBRARIES), "x", matrix)
    assert found.row is not None
    assert (found.row.version, found.why_not) == ("5.7.1", "")


@pytest.mark.parametrize(
    ("names", "why_not"),
    [
        (("amdhip64.dll",), "no file in it identifies its release"),
        (("hiprtc0507.dll", "hiprtc0602.dll", *LIBRARIES), "it mixes files from 5.7.1 and 6.2.4"),
        (("hiprtc0507.dll", *LIBRARIES[1:]), "`rocblas.dll` is missing"),
    ],
)
def test_an_unusable_sdk_is_listed_with_the_reason(
    tmp_path: Path, matrix: Matrix, names: tuple[str, ...], why_not: str
) -> None:
    assert examine(sdk(tmp_path / "5.7", *names), "x", matrix).why_not == why_not


def test_sdks_are_found_in_variables_and_program_files(
    tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = sdk(tmp_path / "moved", "hiprtc0601.dll", *LIBRARIES)
    monkeypatch.setenv("HIP_PATH_61", f'"{named}"')
    monkeypatch.setenv("HIP_PATH", str(tmp_path / "gone"))
    found = installed_sdks(matrix)
    assert [(each.folder, each.found_by) for each in found] == [(named, "HIP_PATH_61")]
