"""Finding an app by its program or its folder, without mistaking one app for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import RocenvError
from rocenv.home import Home
from rocenv.kernels.installation import ProgramBytes, find

if TYPE_CHECKING:
    from pathlib import Path

LAYOUTS = {
    "5.2/scripts/addons_core/cycles": "blender",
    "4.0/scripts/addons/cycles": "blender",
    "share/blender/scripts/addons_core/cycles": "bin/blender",
    "usr/share/blender/scripts/addons_core/cycles": "usr/bin/blender",
    "usr/share/blender/4.1/scripts/addons/cycles": "usr/bin/blender",
}


def made(root: Path, folder: str, program: str) -> tuple[Path, Path]:
    (root / folder / "source").mkdir(parents=True)
    (root / program).parent.mkdir(parents=True, exist_ok=True)
    (root / program).touch()
    return root / folder, root / program


@pytest.mark.parametrize("folder", LAYOUTS)
def test_each_app_layout_is_found_by_program_and_by_folder(tmp_path: Path, folder: str) -> None:
    root = tmp_path / "an app"
    cycles, program = made(root, folder, LAYOUTS[folder])
    home = Home(tmp_path / "home")
    for named in (root, program):
        found = find(str(named), home)
        assert (found.folder, found.program) == (cycles, program), named


def test_a_link_to_a_program_is_followed(tmp_path: Path) -> None:
    cycles, program = made(tmp_path / "opt", "5.2/scripts/addons_core/cycles", "blender")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "blender").symlink_to(program)
    assert find(str(tmp_path / "bin" / "blender"), Home(tmp_path / "home")).folder == cycles


def test_folder_next_to_an_app_is_not_mistaken_for_the_app(tmp_path: Path) -> None:
    made(tmp_path, "usr/share/blender/scripts/addons_core/cycles", "usr/bin/blender")
    (tmp_path / "downloads").mkdir()
    with pytest.raises(RocenvError, match="no Cycles kernel sources"):
        find(str(tmp_path / "downloads"), Home(tmp_path / "home"))


def test_newest_version_of_an_app_is_found(tmp_path: Path) -> None:
    made(tmp_path, "4.5/scripts/addons_core/cycles", "blender")
    newer, _ = made(tmp_path, "5.2/scripts/addons_core/cycles", "blender")
    assert find(str(tmp_path), Home(tmp_path / "home")).folder == newer


def test_features_of_an_unreadable_program_are_unknown(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path in (None, empty, tmp_path / "absent", tmp_path):
        program = ProgramBytes(path)
        assert (program.known, program.contains("text")) == (False, False)


def test_string_split_by_a_compiler_is_found_if_its_chunks_are_close(tmp_path: Path) -> None:
    file = tmp_path / "program"
    file.write_bytes(b" -DWITH_" + bytes(4) + b"_NANOVDB")
    assert ProgramBytes(file).contains(" -DWITH_NANOVDB")
    file.write_bytes(b" -DWITH_" + bytes(400) + b"_NANOVDB")
    assert not ProgramBytes(file).contains(" -DWITH_NANOVDB")
