"""The search for programs, which never includes the current folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rocenv.system import programs

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders that contain the program, one of which is the current folder."""
    for name in ("here", "here/bin", "path", "system"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text("#!/bin/sh\n")
        (tmp_path / name / "tool").chmod(0o755)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", (str(tmp_path / "system"),))
    return tmp_path


@pytest.mark.parametrize("path", ["", ".", "bin", "./bin", "{0}/path", ":{0}/path", ".:{0}/path"])
def test_trusted_programs_come_from_system_folders(
    folders: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path.format(folders))
    assert programs.system_program("tool") == str(folders / "system/tool")
    assert programs.system_program("other") is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", ""),
        (".", ""),
        ("bin", ""),
        (":", ""),
        ("{0}/path", "path"),
        (":{0}/path", "path"),
        (".:bin:../here:{0}/path:", "path"),
        ("{0}/here:{0}/path", "here"),
    ],
)
def test_a_helper_is_found_only_through_absolute_folders(
    folders: Path, path: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path.format(folders))
    assert programs.program_on_path("tool") == (str(folders / found / "tool") if found else None)


def test_system_folders_are_searched_if_path_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PATH")
    assert programs.program_on_path("sh") in ("/bin/sh", "/usr/bin/sh")


def test_files_that_are_not_executable_are_skipped(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chmod(folders / "path/tool", 0o644)
    monkeypatch.setenv("PATH", str(folders / "path"))
    assert programs.program_on_path("tool") is None
