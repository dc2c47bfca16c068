"""The registry, and the libraries that Windows finds by name, in snapshots and local folders."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from rocenv.host import system32
from rocenv.host.registry import values
from rocenv.system.machine import recording
from tests.dlls import dll

if TYPE_CHECKING:
    from pathlib import Path

    from tests.host.roots import Root


def test_lookups_ignore_the_case_and_spelling_of_paths(root: Root) -> None:
    root.put("windows/system32.json", '\ufeff{"AMDHIP64.DLL": "5.7.0.0", "msvcp140.dll": null}')
    root.put("windows/folders.json", r'{"C:\\Tools": ["NVCUDA.dll"], "D:\\gone": null}')
    assert system32.system_libraries() == {"amdhip64.dll": "5.7.0.0", "msvcp140.dll": ""}
    assert system32.names_in("c:/tools/") == frozenset({"nvcuda.dll"})
    assert system32.names_in("D:\\gone") == frozenset()
    assert system32.names_in("C:\\elsewhere") is None


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "[" * 100_000, "null"])
def test_an_invalid_snapshot_is_ignored(root: Root, text: str) -> None:
    for name in ("system32.json", "folders.json", "registry.json"):
        root.put(f"windows/{name}", text)
    assert system32.system_libraries() is None
    assert system32.names_in("C:\\tools") is None
    assert values("SYSTEM") is None


def test_invalid_registry_keys_have_no_values(root: Root) -> None:
    root.put("windows/registry.json", r'{"SYSTEM\\A": {"Value": 1}, "SYSTEM\\B": 3}')
    assert values(r"SYSTEM\A") == {"Value": 1}
    assert values(r"SYSTEM\B") is None


@pytest.mark.parametrize(
    ("folder", "is_own"),
    [
        (r"C:\Windows\system32", True),
        ("c:\\windows\\", True),
        (r"C:\Windows\System32\WindowsPowerShell\v1.0", True),
        (r"C:\Windows.old", False),
        (r"D:\tools", False),
    ],
)
def test_system_folders_are_recognized(folder: str, is_own: bool) -> None:
    assert system32.is_system_folder(folder, r"C:\Windows") == is_own
    assert system32.is_system_folder(folder, "") == is_own, "SYSTEMROOT is not set"


@pytest.mark.skipif(shutil.which("x86_64-w64-mingw32-gcc") is None, reason="mingw is not installed")
def test_dll_versions_are_read_from_the_files(tmp_path: Path) -> None:
    dll(tmp_path / "amdhip64_6.dll", numbers="6,1,40252,0")
    (tmp_path / "MSVCP140.dll").write_text("no library")
    (tmp_path / "kernel32.dll").write_text("matters not")
    assert system32._libraries(str(tmp_path)) == {"amdhip64_6.dll": "6.1.40252.0", "msvcp140.dll": ""}


def test_a_folder_listing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only library names are recorded, for use in a support bundle."""
    monkeypatch.delenv("ROCENV_SYSROOT", raising=False)
    for name in ("nvcuda.dll", "letter.txt"):
        (tmp_path / name).touch()
    with recording(lambda _name: True) as answers:
        assert system32.names_in(str(tmp_path)) == frozenset({"nvcuda.dll", "letter.txt"})
        assert system32.names_in(str(tmp_path / "gone")) == frozenset()
    assert answers.rows["/windows/folders.json"] == {
        str(tmp_path): ["nvcuda.dll"],
        str(tmp_path / "gone"): [],
    }
