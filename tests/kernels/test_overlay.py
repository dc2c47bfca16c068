"""Apps too old to be told where their resources are: a copy only where they look into it; nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rocenv.core.errors import RocenvError
from rocenv.home import Home
from rocenv.kernels.placed import starting
from rocenv.kernels.places import overlay
from tests.kernels.lab import FLAGS_TEXT, Lab, make_app

TEXTS = (b"lib/%s_%s.fatbin", FLAGS_TEXT.encode())
CAME = {"kernel_gfx1201.fatbin": b"AMD's own"}


def old_app(root: Path) -> Path:
    """Return the folder of an app that tells, asked with `/proc/self/exe`, where it believes to lie."""
    app = make_app(root, lib=CAME, version="3.6", texts=TEXTS)
    said = Path(shutil.which("readlink") or "").resolve().read_bytes()
    (app / "blender").write_bytes(said + b"\0" + b"\0".join(TEXTS) + b"\0")
    return app


def tree(root: Path) -> dict[str, bytes | str]:
    """Return all files and links below a folder, with what they hold or lead to."""
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize("is_link", [True, False])
def test_program_that_would_not_look_into_a_copy_is_left_as_it_is(lab: Lab, is_link: bool) -> None:
    prefix = lab.root / "prefix"
    app = old_app(lab.root / "unpacked")
    (prefix / "share" / "blender").mkdir(parents=True)
    (app / "3.6").rename(prefix / "share" / "blender" / "3.6")
    program = prefix / "bin" / "blender"
    program.parent.mkdir()
    if is_link:
        (prefix / "lib" / "blender").mkdir(parents=True)
        (app / "blender").rename(prefix / "lib" / "blender" / "blender")
        program.symlink_to("../lib/blender/blender")
    else:
        (app / "blender").rename(program)
    before = tree(prefix)
    told = lab.build("--blender", program, "--env", "cc", code=1)
    assert told["error"] == "kernels-no-overlay"
    assert "--place in-place" in told["hints"][0]
    assert tree(prefix) == before
    assert lab.calls() == []
    lab.build("--blender", program, "--env", "cc", "--place", "in-place")
    lab.build("--blender", program, "--env", "cc", "--place", "in-place", "--undo")
    assert tree(prefix) == before


@pytest.mark.parametrize("link", ["local/bin/blender", "apps/blender-3.6/blender-now"])
def test_program_named_by_a_link_believes_to_lie_in_the_copy(lab: Lab, link: str) -> None:
    app = old_app(lab.root / "apps" / "blender-3.6")
    (lab.root / link).parent.mkdir(parents=True, exist_ok=True)
    (lab.root / link).symlink_to(app / "blender")
    before = tree(app)
    asked = ("--blender", lab.root / link, "--env", "cc")
    placed = lab.build(*asked)["placed"]
    assert placed["place"] == "overlay"
    done = subprocess.run(
        [placed["start"], "/proc/self/exe"], capture_output=True, text=True, check=True, timeout=60
    )
    beside = Path(done.stdout.strip()).parent
    assert Path(placed["file"]).is_relative_to(beside)
    assert beside.is_relative_to(lab.home.path)
    home = Home(lab.home.path)
    assert starting(home, "blender", lab.root / link).program == Path(placed["start"])
    assert starting(home, "blender", app / "blender").program == Path(placed["start"])
    assert tree(app) == before
    lab.build(*asked, "--undo")
    assert tree(app) == before
    assert list((lab.home.path / "kernels/blender/overlays").iterdir()) == []


def test_behind_a_link_of_a_copy_nothing_is_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "blender").symlink_to("elsewhere")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "bin").symlink_to(theirs)
    with pytest.raises(RocenvError, match="is not rocenv's"):
        overlay._make_room(tmp_path / "copy" / "bin" / "blender", tmp_path / "copy")
    assert (theirs / "blender").is_symlink()


def test_app_in_a_folder_of_any_name_has_a_copy(lab: Lab) -> None:
    app = old_app(lab.root / "start")
    assert Path(lab.build("--blender", app, "--env", "cc")["placed"]["start"]).is_file()
