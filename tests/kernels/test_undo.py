"""`--undo`: what it finds, what it says, and that all that lay there comes back."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from tests.kernels.lab import Lab, make_app

NAME = "kernel_gfx1201.fatbin.zst"
CAME = {NAME: b"AMD's own"}


@pytest.mark.parametrize("place", ["cache", "overlay", "in-place"])
@pytest.mark.parametrize("named", [True, False])
def test_same_command_with_undo_takes_it_back(lab: Lab, place: str, named: bool) -> None:
    app = make_app(lab.root / "b")
    lab.variables["PATH"] = f"{app}:{os.environ['PATH']}"
    words = ["--env", "cc", "--place", place, *(("--blender", str(app)) if named else ())]
    file = lab.build(*words)["placed"]["file"]
    (done,) = lab.build(*words, "--undo")["undone"]
    assert (done["file"], done["place"]) == (file, place)
    assert not os.path.lexists(file)


def test_what_is_placed_is_told_with_the_command_that_takes_it_back(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc")
    lab.build("--blender", app, "--env", "cc", "--place", "in-place")
    told = lab.build("--blender", app, "--env", "cc", "--target", "gfx1100", "--undo", code=1)
    assert told["error"] == "kernels-not-placed"
    assert len(told["hints"]) == 2
    for hint in told["hints"]:
        words = shlex.split(hint)
        assert words[:4] == ["rocenv", "kernels", "build", "blender"]
        assert len(lab.build(*words[4:])["undone"]) == 1
    assert lab.build("--undo", code=1)["hints"] == []


@pytest.mark.parametrize("source", ["", "/", "relative/source"])
def test_note_with_a_source_of_no_use_keeps_no_other_from_its_undoing(lab: Lab, source: str) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    lab.build("--blender", app, "--env", "cc", "--place", "in-place")
    (note,) = (lab.home.path / "kernels/blender/placed").iterdir()
    damaged = {**json.loads(note.read_bytes()), "source": source}
    lab.build("--blender", app, "--env", "cc", "--place", "overlay")
    note.write_text(json.dumps(damaged))
    done = lab.run("--undo", "--json")
    assert done.returncode == 0, done.stderr
    assert "is not as rocenv wrote it" in done.stderr
    assert [each["place"] for each in json.loads(done.stdout)["undone"]] == ["overlay"]


def test_original_that_is_gone_keeps_no_other_from_its_undoing(lab: Lab) -> None:
    apps = [make_app(lab.root / name, lib=CAME) for name in ("a", "b")]
    placed = [lab.build("--blender", app, "--env", "cc", "--place", "in-place")["placed"] for app in apps]
    for lost, whole in (placed, placed[::-1]):
        Path(lost["original"]).rename(lab.root / "lost")
        assert lab.build("--undo", code=1)["error"] == "kernels-no-original"
        assert Path(whole["file"]).read_bytes() == b"AMD's own"
        (lab.root / "lost").rename(lost["original"])
        lab.build("--undo")
        assert Path(lost["file"]).read_bytes() == b"AMD's own"
        for app in apps:
            lab.build("--blender", app, "--env", "cc", "--place", "in-place")


@pytest.mark.parametrize("is_there", [True, False])
def test_original_that_was_a_link_is_a_link_again(lab: Lab, is_there: bool) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    file = app / "5.2/scripts/addons_core/cycles/lib" / NAME
    shared = file.with_name("shared")
    file.rename(shared)
    file.symlink_to("shared")
    if not is_there:
        shared.unlink()
    for _ in range(2):
        lab.build("--blender", app, "--env", "cc", "--place", "in-place")
        lab.orders(version="another")
    assert not file.is_symlink()
    assert not is_there or shared.read_bytes() == b"AMD's own"
    lab.build("--blender", app, "--undo")
    assert os.readlink(file) == "shared"
    assert not is_there or file.read_bytes() == b"AMD's own"
    assert list((lab.home.path / "kernels/blender/originals").glob("*")) == []


def test_what_is_gone_already_is_not_said_to_be_removed(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    for place in ("cache", "in-place"):
        placed = lab.build("--blender", app, "--env", "cc", "--place", place)["placed"]
        Path(placed["file"]).unlink()
        (done,) = lab.build("--blender", app, "--undo")["undone"]
        assert done["what"].endswith("is gone already")
    assert not (app / "5.2/scripts/addons_core/cycles/lib").exists()


def test_kernel_that_the_app_compiled_itself_is_in_its_cache_again(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    file = Path(lab.build("--blender", app, "--env", "cc")["placed"]["file"])
    lab.build("--blender", app, "--undo")
    file.write_bytes(b"compiled by the app")
    for version in ("one", "another"):
        lab.orders(version=version, count=70)
        lab.build("--blender", app, "--env", "cc")
        assert file.read_bytes() != b"compiled by the app"
    lab.build("--blender", app, "--undo")
    assert file.read_bytes() == b"compiled by the app"
