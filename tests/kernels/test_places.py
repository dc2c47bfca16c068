"""Where kernels are put: an app's cache, a copy made of links, the installation; and back again."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.codec import to_plain
from rocenv.home import Home
from rocenv.kernels.placed import Placed, Starting, starting
from rocenv.kernels.places.app_cache import cache_home
from tests.kernels.lab import FLAGS_TEXT, PLAIN, Lab, make_app

if TYPE_CHECKING:
    from collections.abc import Mapping

CAME = {"kernel_gfx1201.fatbin.zst": b"AMD's own", "kernel_gfx1030.fatbin.zst": b"another"}


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return content, mode and time of all files below a folder."""
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode, path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def start_with(lab: Lab, app: Path) -> Starting:
    return starting(Home(lab.home.path), "blender", app / "blender", env="cc")


def changes(found: Starting) -> Mapping[str, str]:
    return {change.name: change.value for change in found.changes}


def undo(lab: Lab, *args: str | Path) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = lab.build(*args, "--undo")["undone"]
    return done


def test_cache_needs_a_compiler_on_path_and_launch_is_told(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    placed = lab.build("--blender", app, "--env", "cc")["placed"]
    found = changes(start_with(lab, app))
    assert found["XDG_CACHE_HOME"] == placed["cache_home"]
    assert [found["PATH"]] == placed["path"]
    hipcc = Path(found["PATH"], "hipcc")
    # As the app calls it, through a shell, with words in quotes.
    out = lab.root / "by the app"
    command = f'"{hipcc}" -O3 --offload-arch=gfx1030 -I "/a b" --genco "/s p/kernel.cpp" -o "{out}"'
    subprocess.run(["sh", "-c", command], check=True, env={**lab.environ(), "TMPDIR": str(lab.root)})
    assert out.exists()
    call = lab.calls()[-1]
    assert "--cuda-device-only" in call
    assert "--genco" not in call
    assert "/s p/kernel.cpp" in call


def test_undo_of_the_cache_leaves_what_others_wrote(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    first = lab.build("--blender", app, "--env", "cc")["placed"]["file"]
    second = lab.build("--blender", app, "--env", "cc", "--target", "gfx1100")["placed"]["file"]
    Path(second).write_bytes(b"compiled by the app")
    undo(lab, "--blender", app, "--target", "gfx1201")
    assert not os.path.exists(first)
    assert (lab.home.path / "kernels/blender/bin/hipcc").exists()  # the other kernel needs it
    undo(lab, "--blender", app)
    assert not (lab.home.path / "kernels/blender/bin").exists()
    assert Path(second).read_bytes() == b"compiled by the app"
    assert start_with(lab, app) == Starting()
    assert lab.build("--blender", app, "--undo", code=1)["error"] == "kernels-not-placed"


def test_kernels_that_came_with_the_app_make_an_overlay_of_links(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    before = snapshot(app)
    told = lab.build("--blender", app, "--env", "cc")["placed"]
    assert told["place"] == "overlay"
    copy = Path(told["environment"]["BLENDER_SYSTEM_RESOURCES"])
    lib = copy / "scripts/addons_core/cycles/lib"
    assert (lib / "kernel_gfx1201.fatbin.zst").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    assert (lib / "kernel_gfx1030.fatbin.zst").read_bytes() == b"another"
    assert (copy / "datafiles").is_symlink()
    assert (copy / "scripts/addons_core/cycles/source/util/a.h").read_text() == "// a\n"
    assert snapshot(app) == before
    links = [path for path in copy.rglob("*") if not path.is_symlink() and path.is_file()]
    assert [path.name for path in links] == ["kernel_gfx1201.fatbin.zst"]
    found = start_with(lab, app)
    assert found.program == Path(told["start"])
    assert changes(found)["BLENDER_SYSTEM_RESOURCES"] == str(copy)


def test_overlay_starts_the_program_with_its_resources(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    (app / "blender").write_text('#!/bin/sh\necho "$BLENDER_SYSTEM_RESOURCES|$*"\n')
    (app / "blender").chmod(0o755)
    told = lab.build("--blender", app, "--env", "cc", "--app-version", "5.2")["placed"]
    done = subprocess.run([told["start"], "-b", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{told['environment']['BLENDER_SYSTEM_RESOURCES']}|-b a b"


def test_one_overlay_holds_all_kernels_and_goes_with_the_last(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    for target in ("gfx1201", "gfx1030"):
        lab.build("--blender", app, "--env", "cc", "--target", target)
    overlays = lab.home.path / "kernels/blender/overlays"
    (overlay,) = overlays.iterdir()
    lib = overlay / "5.2/scripts/addons_core/cycles/lib"
    assert {path.name for path in lib.iterdir() if not path.is_symlink()} == set(CAME)
    undo(lab, "--blender", app, "--target", "gfx1201")
    assert (lib / "kernel_gfx1201.fatbin.zst").read_bytes() == b"AMD's own"
    assert not (lib / "kernel_gfx1030.fatbin.zst").is_symlink()
    undo(lab, "--blender", app)
    assert list(overlays.iterdir()) == []


def test_old_version_without_the_variable_gets_a_program_of_its_own(lab: Lab) -> None:
    texts = (b"lib/%s_%s.fatbin", FLAGS_TEXT.encode())
    app = make_app(lab.root / "b", lib={"kernel_gfx1201.fatbin": b"old"}, version="4.0", texts=texts)
    told = lab.build("--blender", app, "--env", "cc")["placed"]
    assert told["environment"] == {}
    copy = Path(told["file"]).parents[5]
    assert not (copy / "blender").is_symlink()
    assert (copy / "blender").read_bytes() == (app / "blender").read_bytes()
    assert str(copy / "blender") in Path(told["start"]).read_text()


def test_upgraded_app_is_not_given_the_old_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    lab.build("--blender", app, "--env", "cc")
    (app / "5.2/scripts/addons_core/cycles/source/util/a.h").write_text("// of the next release\n")
    found = start_with(lab, app)
    assert (found.program, found.changes) == (None, ())
    assert [each.target for each in found.outdated] == ["gfx1201"]


def test_in_place_only_when_asked_and_back_byte_for_byte(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    file = app / "5.2/scripts/addons_core/cycles/lib/kernel_gfx1201.fatbin.zst"
    file.chmod(0o640)
    os.utime(file, ns=(10**18, 10**18))
    before = snapshot(app)
    told = lab.build("--blender", app, "--env", "cc", "--place", "in-place")["placed"]
    assert told["file"] == str(file)
    assert file.read_bytes() != b"AMD's own"
    lab.orders(count=70, version="another")
    lab.build(
        "--blender", app, "--env", "cc", "--place", "in-place"
    )  # the original is not what was placed first
    assert start_with(lab, app).program is None
    undo(lab, "--blender", app)
    assert snapshot(app) == before
    assert list((lab.home.path / "kernels/blender/originals").rglob("*.zst")) == []


def test_in_place_without_an_original_leaves_no_trace(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    before = snapshot(app)
    lab.build("--blender", app, "--env", "cc", "--place", "in-place")
    undo(lab, "--blender", app)
    assert snapshot(app) == before
    assert not (app / "5.2/scripts/addons_core/cycles/lib").exists()


def test_undo_does_not_overwrite_an_upgrade(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    file = app / "5.2/scripts/addons_core/cycles/lib/kernel_gfx1201.fatbin.zst"
    lab.build("--blender", app, "--env", "cc", "--place", "in-place")
    file.write_bytes(b"of the upgrade")
    (done,) = undo(lab, "--blender", app)
    assert "upgrade" in done["what"]
    assert file.read_bytes() == b"of the upgrade"


def test_damaged_original_is_not_put_back(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    told = lab.build("--blender", app, "--env", "cc", "--place", "in-place")["placed"]
    Path(told["original"]).write_bytes(b"AMD's ow")
    assert lab.build("--blender", app, "--undo", code=1)["error"] == "kernels-no-original"
    assert Path(told["file"]).read_bytes()[:4] == b"\x28\xb5\x2f\xfd"


def test_installation_of_others_is_left_and_the_overlay_named(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    lib = app / "5.2/scripts/addons_core/cycles/lib"
    lib.chmod(0o555)
    as_user = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"] if os.geteuid() == 0 else []
    command = [
        *as_user,
        *lab.command(),
        "--blender",
        str(app),
        "--env",
        "cc",
        "--place",
        "in-place",
        "--json",
    ]
    done = subprocess.run(command, env=lab.environ(), capture_output=True, text=True, check=False)
    lib.chmod(0o755)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["error"] == "kernels-unwritable"
    assert "--place overlay" in told["hints"][0]
    assert lab.calls() == []


def test_unknown_name_in_the_cache_means_an_overlay_and_is_said(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=PLAIN[:1])
    told = lab.build("--blender", app, "--env", "cc")["placed"]
    assert told["place"] == "overlay"
    assert "could not be read" in told["why"]
    refused = lab.build("--blender", app, "--env", "cc", "--place", "cache", code=1)
    assert refused["error"] == "kernels-no-cache"


@pytest.mark.parametrize("note", [b"", b"[]", b'{"form": 1}', b'{"form": 99}', b"\xff\x00", b"[" * 100_000])
def test_damaged_note_of_what_was_placed_disturbs_nobody(lab: Lab, note: bytes) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc")
    (path,) = (lab.home.path / "kernels/blender/placed").iterdir()
    path.write_bytes(note)
    assert start_with(lab, app) == Starting()


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache"),
        ({"HOME": "/h"}, "/h/.cache"),
    ],
)
def test_folder_of_caches(environ: dict[str, str], folder: str) -> None:
    assert cache_home(environ) == Path(folder)


def test_cache_that_would_not_be_looked_at_is_refused(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    assert (
        lab.build("--blender", app, "--env", "cc", "--place", "cache", code=1)["error"] == "kernels-no-cache"
    )
    other = lab.build("--blender", app, "--env", "cc", "--target", "gfx1100")["placed"]
    assert (other["place"], other["path"]) == ("cache", [])  # with kernels of its own it asks for no compiler


def test_copy_made_anew_writes_through_no_link_of_the_old_one(lab: Lab) -> None:
    texts = (b"lib/%s_%s.fatbin", FLAGS_TEXT.encode())
    root = lab.root / "b"
    for version in ("3.6", "4.0"):
        make_app(root, lib={"kernel_gfx1201.fatbin": version.encode()}, version=version, texts=texts)
    lab.build("--blender", root, "--env", "cc")  # of 4.0: the copy's 3.6 is a link
    shutil.rmtree(root / "4.0")
    before = snapshot(root)
    told = lab.build("--blender", root, "--env", "cc")["placed"]
    assert "/3.6/" in told["file"]
    assert snapshot(root) == before


def test_originals_of_two_installations_with_the_same_kernel_are_kept_apart(lab: Lab) -> None:
    apps = [make_app(lab.root / name, lib=CAME) for name in ("a", "b")]
    before = [snapshot(app) for app in apps]
    for app in apps:
        lab.build("--blender", app, "--env", "cc", "--place", "in-place")
    for app in apps:
        undo(lab, "--blender", app)
    assert [snapshot(app) for app in apps] == before
    assert list((lab.home.path / "kernels/blender/originals").iterdir()) == []


def test_original_is_put_back_only_into_the_installation_that_it_is_of(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    for source, is_back in (("// a\n", True), ("// of the next release\n", False)):
        file = Path(lab.build("--blender", app, "--env", "cc", "--place", "in-place")["placed"]["file"])
        file.unlink()
        (app / "5.2/scripts/addons_core/cycles/source/util/a.h").write_text(source)
        (done,) = undo(lab, "--blender", app)
        assert file.exists() is is_back
    assert "is gone since" in done["what"]


@pytest.mark.parametrize("place", ["cache", "overlay", "in-place"])
def test_note_that_was_tampered_with_removes_nothing_else(lab: Lab, place: str) -> None:
    app = make_app(lab.root / "b", lib=CAME if place == "overlay" else {})
    lab.build("--blender", app, "--env", "cc", "--place", place)
    (path,) = (lab.home.path / "kernels/blender/placed").iterdir()
    plain = json.loads(path.read_bytes())
    precious = lab.root / "mine" / Path(plain["file"]).parent.name / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    sha256 = hashlib.sha256(b"mine").hexdigest()
    folders = {name: str(precious.parent) for name in ("on_path", "cache_home", "resources")}
    folders |= {"start": str(precious.parent / "start" / "blender"), "source": str(lab.root / "mine/source")}
    for file in (precious, precious.with_name(Path(plain["file"]).name)):
        file.write_text("mine")
        values = {**plain, **folders, "file": str(file), "sha256": sha256}
        changed = Placed(**{name: value for name, value in values.items() if name != "form"})
        (path.parent / f"{changed.key}.json").write_text(json.dumps({"form": 1, **to_plain(changed)}))
    plain["place"] = "elsewhere"
    path.write_text(json.dumps(plain))
    done = lab.run("--undo", "--json")
    assert "is not as rocenv wrote it" in done.stderr
    assert precious.read_text() == "mine"
    assert "Traceback" not in done.stderr
    if place != "in-place":  # whose folder and name are as they may be
        assert precious.with_name(Path(plain["file"]).name).read_text() == "mine"
        assert json.loads(done.stdout)["error"] == "kernels-not-placed"


def test_command_that_takes_it_back_takes_back_that_alone(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.variables["PATH"] = f"{app}:{os.environ['PATH']}"
    lab.run("--blender", "blender", "--env", "cc", "--target", "gfx1100")
    told = lab.run("--env", "cc").stdout.splitlines()[-1].partition(": ")[2]
    command = shlex.split(told)
    assert command[:4] == ["rocenv", "kernels", "build", "blender"]
    assert command[command.index("--blender") + 1] == str(app / "blender")
    (done,) = undo(lab, *command[4:-1])
    assert "gfx1201" in done["file"]
    (done,) = undo(lab, "--blender", "blender")  # by PATH, as it was built
    assert "gfx1100" in done["file"]


def test_app_by_the_script_that_starts_it_with_kernels_is_that_app(lab: Lab) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    first = lab.build("--blender", app, "--env", "cc")["placed"]
    again = lab.build("--blender", first["start"], "--env", "cc", "--target", "gfx1030")["placed"]
    assert (again["place"], again["start"]) == ("overlay", first["start"])
    assert len(list((lab.home.path / "kernels/blender/overlays").iterdir())) == 1
    assert Path(first["file"]).is_file() and not Path(first["file"]).is_symlink()
