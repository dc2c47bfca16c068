"""Placing kernels into an overlay or into the app's installation, and removing them."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rocenv.activate.loader import MARK
from rocenv.core.codec import to_plain
from rocenv.core.model import Component, Lock, Record, Request
from rocenv.home import Home
from rocenv.kernels.placed import Placed, Starting, starting
from rocenv.prefix import Prefix
from tests.kernels.lab import UNCOMPRESSED, Lab, make_app

NAME = "kernel_gfx1201.fatbin.zst"
SHIPPED = {NAME: b"AMD's own", "kernel_gfx1030.fatbin.zst": b"another"}
IN_PLACE = ("--env", "cc", "--place", "in-place")
ZSTD = b"\x28\xb5\x2f\xfd"


def snapshot(root: Path) -> dict[str, tuple[bytes | str, int, int]]:
    """Map each file and link below a folder to its contents or link target, mode and modification time."""
    return {
        str(path.relative_to(root)): (
            os.readlink(path) if path.is_symlink() else path.read_bytes(),
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
        )
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def start_with(lab: Lab, app: Path) -> Starting:
    return starting(Home(lab.home.path), app / "blender")


def undo(lab: Lab, *args: str | Path) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = lab.build(*args, "--undo")["undone"]
    return done


@pytest.mark.parametrize("lib", [{}, SHIPPED], ids=["without-kernels", "with-kernels"])
def test_an_overlay_consists_of_links_and_does_not_change_the_app(lab: Lab, lib: dict[str, bytes]) -> None:
    app = make_app(lab.root / "b", lib=lib)
    before = snapshot(app)
    placed = lab.build("--blender", app, "--env", "cc")["placed"]
    assert placed["place"] == "overlay"
    copy = Path(placed["environment"]["BLENDER_SYSTEM_RESOURCES"])
    folder = copy / "scripts/addons_core/cycles/lib"
    assert (folder / NAME).read_bytes()[:4] == ZSTD
    assert {path.name for path in folder.iterdir()} == {NAME, *lib}
    assert (copy / "datafiles").is_symlink()
    assert (copy / "scripts/addons_core/cycles/source/util/a.h").read_text() == "// a\n"
    files = [path for path in copy.rglob("*") if not path.is_symlink() and path.is_file()]
    assert [path.name for path in files] == [NAME]
    assert start_with(lab, app).program == Path(placed["start"])
    assert snapshot(app) == before


def test_start_script_runs_the_program_with_the_overlay(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    (app / "blender").write_text('#!/bin/sh\necho "$BLENDER_SYSTEM_RESOURCES|$*"\n')
    (app / "blender").chmod(0o755)
    placed = lab.build("--blender", app, "--env", "cc", "--app-version", "5.2")["placed"]
    done = subprocess.run([placed["start"], "-b", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{placed['environment']['BLENDER_SYSTEM_RESOURCES']}|-b a b"


def test_start_script_in_an_env_keeps_the_envs_other_settings(lab: Lab) -> None:
    prefix = Prefix(lab.home.envs / "art")
    root = make_app(prefix.path / "rocm" / "usr")
    (root / "share").mkdir()
    (root / "5.2").rename(root / "share" / "blender")
    (root / "bin").mkdir()
    (root / "blender").rename(root / "bin" / "blender")
    starter = prefix.bin / "blender"
    prefix.own.mkdir()
    prefix.bin.mkdir()
    starter.write_text(
        f"#!/bin/sh\n# {MARK}: starts a program of the env\nexport BLENDER_SYSTEM_PYTHON='/its own'\n"
        "export BLENDER_SYSTEM_RESOURCES='/those of the env'\n"
        'printf "%s|" "Blender 5.2.2" "$BLENDER_SYSTEM_PYTHON" "$BLENDER_SYSTEM_RESOURCES"\n'
    )
    starter.chmod(0o755)
    part = Component(kind="rocm", name="blender", version="5.2", channel="lab", why="for tests", into="rocm")
    lock = Lock(request=Request(), platform="linux", target="", components=(part,), environment=())
    prefix.write_record(Record(name="art", created="2026-11-22", rocenv_version="0", lock=lock), {})
    built = lab.build("--blender", starter, "--env", "cc")
    placed = built["placed"]
    assert built["version"] == "5.2.2"
    done = subprocess.run([placed["start"]], capture_output=True, text=True, check=True)
    copy = placed["environment"]["BLENDER_SYSTEM_RESOURCES"]
    assert done.stdout == f"Blender 5.2.2|/its own|{copy}|"
    assert (Path(copy) / "scripts/addons_core/cycles/lib" / NAME).is_file()


def test_overlay_contains_all_kernels_and_is_removed_with_the_last_one(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    for target in ("gfx1201", "gfx1030"):
        lab.build("--blender", app, "--env", "cc", "--target", target)
    overlays = lab.home.path / "kernels/blender/overlays"
    (overlay,) = overlays.iterdir()
    folder = overlay / "5.2/scripts/addons_core/cycles/lib"
    assert {path.name for path in folder.iterdir() if not path.is_symlink()} == set(SHIPPED)
    undo(lab, "--blender", app, "--target", "gfx1201")
    assert (folder / NAME).read_bytes() == b"AMD's own"
    assert not (folder / "kernel_gfx1030.fatbin.zst").is_symlink()
    undo(lab, "--blender", app)
    assert list(overlays.iterdir()) == []
    assert start_with(lab, app) == Starting()


def test_an_overlay_works_in_a_folder_with_any_name(lab: Lab) -> None:
    app = make_app(lab.root / "rocenv-start", version="5.2")
    assert Path(lab.build("--blender", app, "--env", "cc")["placed"]["start"]).is_file()


def test_a_link_to_a_program_uses_the_same_overlay(lab: Lab) -> None:
    app = make_app(lab.root / "apps", lib=SHIPPED)
    link = lab.root / "bin" / "blender"
    link.parent.mkdir()
    link.symlink_to(app / "blender")
    placed = lab.build("--blender", link, "--env", "cc")["placed"]
    home = Home(lab.home.path)
    assert starting(home, link).program == Path(placed["start"])
    assert starting(home, app / "blender").program == Path(placed["start"])


def test_overlay_is_replaced_without_writing_through_its_links(lab: Lab) -> None:
    root = lab.root / "b"
    for version in ("4.5", "5.2"):
        make_app(root, lib={NAME: version.encode()}, version=version)
    lab.build("--blender", root, "--env", "cc")
    shutil.rmtree(root / "5.2" / "datafiles")
    (root / "5.2" / "datafiles").symlink_to(root / "4.5" / "datafiles")
    before = snapshot(root)
    lab.build("--blender", root, "--env", "cc")
    assert snapshot(root) == before


def test_in_place_option_is_suggested_for_a_version_without_overlay_support(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib={NAME[:-4]: b"old"}, version="4.0", texts=UNCOMPRESSED)
    before = snapshot(app)
    refused = lab.build("--blender", app, "--env", "cc", code=1)
    assert refused["error"] == "kernels-no-overlay"
    assert "--place in-place" in refused["hints"][0]
    assert lab.calls() == []
    lab.build("--blender", app, *IN_PLACE)
    undo(lab, "--blender", app)
    assert snapshot(app) == before


def test_an_upgraded_app_does_not_get_the_old_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    lab.build("--blender", app, "--env", "cc")
    (app / "5.2/scripts/addons_core/cycles/source/util/a.h").write_text("// of the next release\n")
    found = start_with(lab, app)
    assert found.program is None
    assert [each.target for each in found.outdated] == ["gfx1201"]


def test_in_place_kernel_is_removed_without_a_trace(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    file = app / "5.2/scripts/addons_core/cycles/lib" / NAME
    file.chmod(0o640)
    os.utime(file, ns=(10**18, 10**18))
    before = snapshot(app)
    placed = lab.build("--blender", app, *IN_PLACE)["placed"]
    assert placed["file"] == str(file)
    assert file.read_bytes() != b"AMD's own"
    lab.orders(count=70, version="another")
    lab.build("--blender", app, *IN_PLACE)  # must not treat the kernel from the first build as the original
    assert start_with(lab, app).program is None
    undo(lab, "--blender", app)
    assert snapshot(app) == before
    assert list((lab.home.path / "kernels/blender/originals").rglob("*.zst")) == []


def test_undoing_an_in_place_kernel_that_replaced_no_file_leaves_no_trace(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    before = snapshot(app)
    lab.build("--blender", app, *IN_PLACE)
    undo(lab, "--blender", app)
    assert snapshot(app) == before
    assert not (app / "5.2/scripts/addons_core/cycles/lib").exists()


def test_undo_does_not_touch_a_file_that_an_upgrade_replaced(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    placed = lab.build("--blender", app, *IN_PLACE)["placed"]
    Path(placed["file"]).write_bytes(b"of the upgrade")
    (done,) = undo(lab, "--blender", app)
    assert "an upgrade or another program has changed it" in done["what"]
    assert placed["original"] in done["what"]
    assert Path(placed["file"]).read_bytes() == b"of the upgrade"


def test_a_damaged_backup_is_not_restored(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    placed = lab.build("--blender", app, *IN_PLACE)["placed"]
    Path(placed["original"]).write_bytes(b"AMD's ow")
    assert lab.build("--blender", app, "--undo", code=1)["error"] == "kernels-no-original"
    assert Path(placed["file"]).read_bytes()[:4] == ZSTD


def test_missing_backup_of_one_file_does_not_stop_undoing_the_others(lab: Lab) -> None:
    apps = [make_app(lab.root / name, lib=SHIPPED) for name in ("a", "b")]
    placed = [lab.build("--blender", app, *IN_PLACE)["placed"] for app in apps]
    for lost, intact in (placed, placed[::-1]):
        Path(lost["original"]).rename(lab.root / "lost")
        assert lab.build("--undo", code=1)["error"] == "kernels-no-original"
        assert Path(intact["file"]).read_bytes() == b"AMD's own"
        (lab.root / "lost").rename(lost["original"])
        lab.build("--undo")
        assert Path(lost["file"]).read_bytes() == b"AMD's own"
        for app in apps:
            lab.build("--blender", app, *IN_PLACE)


def test_identical_files_of_two_installations_get_separate_backups(lab: Lab) -> None:
    apps = [make_app(lab.root / name, lib=SHIPPED) for name in ("a", "b")]
    before = [snapshot(app) for app in apps]
    for app in apps:
        lab.build("--blender", app, *IN_PLACE)
    for app in apps:
        undo(lab, "--blender", app)
    assert [snapshot(app) for app in apps] == before
    assert list((lab.home.path / "kernels/blender/originals").iterdir()) == []


def test_backup_is_restored_only_into_the_version_that_it_came_from(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    for source, is_back in (("// a\n", True), ("// of the next release\n", False)):
        file = Path(lab.build("--blender", app, *IN_PLACE)["placed"]["file"])
        file.unlink()
        (app / "5.2/scripts/addons_core/cycles/source/util/a.h").write_text(source)
        (done,) = undo(lab, "--blender", app)
        assert file.exists() is is_back
    assert "an upgrade or another program has removed it" in done["what"]


def test_kernel_that_is_already_gone_is_not_reported_as_removed(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    Path(lab.build("--blender", app, *IN_PLACE)["placed"]["file"]).unlink()
    (done,) = undo(lab, "--blender", app)
    assert done["what"].endswith("was already gone")
    assert not (app / "5.2/scripts/addons_core/cycles/lib").exists()


def test_a_link_in_the_installation_is_not_replaced(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    file = app / "5.2/scripts/addons_core/cycles/lib" / NAME
    file.rename(lab.root / "shared")
    file.symlink_to(lab.root / "shared")
    refused = lab.build("--blender", app, *IN_PLACE, code=1)
    assert refused["error"] == "kernels-unwritable"
    assert "--place overlay" in refused["hints"][0]
    assert file.read_bytes() == b"AMD's own"
    assert lab.build("--blender", app, "--env", "cc")["placed"]["place"] == "overlay"
    assert (lab.root / "shared").read_bytes() == b"AMD's own"


def test_an_unwritable_installation_is_unchanged_and_the_overlay_is_suggested(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    lib = app / "5.2/scripts/addons_core/cycles/lib"
    lib.chmod(0o555)
    as_user = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    command = [*as_user, *lab.command(), "--blender", str(app), *IN_PLACE, "--json"]
    done = subprocess.run(command, env=lab.environ(), capture_output=True, text=True, check=False)
    lib.chmod(0o755)
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert answer["error"] == "kernels-unwritable"
    assert "--place overlay" in answer["hints"][0]
    assert lab.calls() == []


@pytest.mark.parametrize("record", [b"", b"[]", b'{"form": 1}', b'{"form": 99}', b"\xff\x00", b"[" * 100_000])
def test_damaged_placement_record_is_ignored(lab: Lab, record: bytes) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc")
    (path,) = (lab.home.path / "kernels/blender/placed").iterdir()
    path.write_bytes(record)
    assert start_with(lab, app) == Starting()
    done = lab.run("--undo")
    assert done.returncode == 1
    assert f"ignoring `{path}`" in done.stderr


@pytest.mark.parametrize("place", ["overlay", "in-place"])
def test_manipulated_placement_record_removes_nothing(lab: Lab, place: str) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    lab.build("--blender", app, "--env", "cc", "--place", place)
    (path,) = (lab.home.path / "kernels/blender/placed").iterdir()
    seal, _, content = path.read_bytes().partition(b"\n")
    precious = lab.root / "mine" / "lib" / NAME
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    plain = json.loads(content)
    plain |= {"file": str(precious), "sha256": hashlib.sha256(b"mine").hexdigest(), "original": ""}
    plain["start"] = str(precious.parent / "start" / "blender") if place == "overlay" else ""
    changed = Placed(**{name: value for name, value in plain.items() if name != "form"})
    text = json.dumps({"form": 1, **to_plain(changed)}).encode()
    for record in (text, seal + b"\n" + text):
        for name in (path.name, f"{changed.key}.json"):
            (path.parent / name).write_bytes(record)
        done = lab.run("--undo", "--json")
        assert "damaged or from a different home" in done.stderr
        assert precious.read_text() == "mine"
        assert json.loads(done.stdout)["error"] == "kernels-not-placed"


@pytest.mark.parametrize("place", ["overlay", "in-place"])
@pytest.mark.parametrize("named", [True, False])
def test_build_command_with_undo_removes_the_kernel(lab: Lab, place: str, named: bool) -> None:
    app = make_app(lab.root / "b")
    lab.variables["PATH"] = f"{app}:{os.environ['PATH']}"
    words = ["--env", "cc", "--place", place, *(("--blender", str(app)) if named else ())]
    file = lab.build(*words)["placed"]["file"]
    (done,) = undo(lab, *words)
    assert (done["file"], done["place"]) == (file, place)
    assert not os.path.lexists(file)


def test_printed_undo_command_removes_only_that_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.variables["PATH"] = f"{app}:{os.environ['PATH']}"
    lab.run("--blender", "blender", "--env", "cc", "--target", "gfx1100")
    command = shlex.split(lab.run("--env", "cc").stdout.splitlines()[-1].partition(": ")[2])
    assert command[:4] == ["rocenv", "kernels", "build", "blender"]
    assert command[command.index("--blender") + 1] == str(app / "blender")
    (done,) = undo(lab, *command[4:-1])
    assert "gfx1201" in done["file"]
    (done,) = undo(lab, "--blender", "blender")  # found on PATH, as when building
    assert "gfx1100" in done["file"]


def test_undo_without_a_match_lists_the_available_commands(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc")
    lab.build("--blender", app, *IN_PLACE)
    refused = lab.build("--blender", app, "--env", "cc", "--target", "gfx1100", "--undo", code=1)
    assert refused["error"] == "kernels-not-placed"
    assert len(refused["hints"]) == 2
    for hint in refused["hints"]:
        words = shlex.split(hint)
        assert words[:4] == ["rocenv", "kernels", "build", "blender"]
        assert len(lab.build(*words[4:])["undone"]) == 1
    assert lab.build("--undo", code=1)["hints"] == []


def test_start_script_is_accepted_in_place_of_the_app(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    first = lab.build("--blender", app, "--env", "cc")["placed"]
    again = lab.build("--blender", first["start"], "--env", "cc", "--target", "gfx1030")["placed"]
    assert (again["place"], again["start"]) == ("overlay", first["start"])
    assert len(list((lab.home.path / "kernels/blender/overlays").iterdir())) == 1
    assert Path(first["file"]).is_file() and not Path(first["file"]).is_symlink()
