"""What is refused before a compiler has worked for a minute; and what it says when it fails, kept short."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kernels.lab import WITH_RT, Lab, make_app

if TYPE_CHECKING:
    from pathlib import Path

CAME = {"kernel_gfx1201.fatbin.zst": b"AMD's own"}
AS_WINDOWS = (
    "import sys, rocenv.kernels.build as build; build.WINDOWS = True; "
    "from rocenv.cli import main; sys.exit(main())"
)


@pytest.mark.parametrize(
    ("place", "error"),
    [("cache", "kernels-no-cache"), ("overlay", "kernels-no-app"), ("in-place", "kernels-unwritable")],
)
def test_place_that_cannot_be_used_is_refused_before_anything_is_compiled(
    lab: Lab, place: str, error: str
) -> None:
    app = make_app(lab.root / "b", lib=CAME)
    if place == "overlay":
        (app / "blender").unlink()
    if place == "in-place":
        (app / "5.2/scripts/addons_core/cycles/lib").rename(lab.root / "lib")
        (app / "5.2/scripts/addons_core/cycles/lib").write_text("not a folder")
    told = lab.build("--blender", app, "--env", "cc", "--place", place, code=1)
    assert told["error"] == error
    assert told["hints"]
    assert lab.calls() == []


def test_cache_that_cannot_be_written_is_refused_before_anything_is_compiled(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    (lab.home.envs / "cc" / "cache").write_text("not a folder")
    told = lab.build("--blender", app, "--env", "cc", code=1)
    assert told["error"] == "kernels-unwritable"
    assert lab.calls() == []


def test_kernel_of_rocenv_itself_is_not_said_to_have_come_with_the_app(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.build("--blender", app, "--env", "cc", "--place", "in-place")
    placed = lab.build("--blender", app, "--env", "cc")["placed"]
    assert placed["place"] == "overlay"
    assert "rocenv put there before" in placed["why"]
    (app / "5.2/scripts/addons_core/cycles/lib/kernel_gfx1201.fatbin.zst").write_bytes(b"of an upgrade")
    assert "came with it" in lab.build("--blender", app, "--env", "cc")["placed"]["why"]


def _headers(root: Path) -> Path:
    header = root / "hiprt/impl/hiprt_device_impl.h"
    header.parent.mkdir(parents=True)
    header.touch()
    return root


def test_folder_of_headers_asks_for_the_kernel_that_needs_them(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    headers = _headers(lab.root / "rt")
    assert lab.build("--blender", app, "--env", "cc", "--hiprt-include", headers)["kind"] == "hiprt"
    done = lab.run("--blender", app, "--env", "cc", "--hip", "--hiprt-include", headers)
    assert done.returncode == 2
    assert "one kind of kernel at a time" in done.stderr


@pytest.mark.parametrize("args", [[], ["--blender", "nowhere"], ["--env", "gone", "--output", "out"]])
def test_windows_is_told_at_once_that_kernels_are_made_on_linux(lab: Lab, args: list[str]) -> None:
    command = [sys.executable, "-c", AS_WINDOWS, *lab.command()[3:], *args]
    done = subprocess.run(command, env=lab.environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "on Windows yet, but only on Linux" in done.stderr
    assert "--env" not in done.stderr
    assert lab.calls() == []


def test_endless_words_of_a_compiler_are_cut(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.orders(error="a.cpp:7: error: " + "x" * 3_000_000 + "\nb.cpp:8: error: short\n" + "note\n" * 9)
    done = lab.run("--blender", app, "--env", "cc")
    assert done.returncode == 1
    assert "a.cpp:7: error: xxx" in done.stderr
    assert "b.cpp:8: error: short" in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 1000
    (log,) = (lab.home.path / "cache/kernels").glob("*.log")
    assert log.stat().st_size > 3_000_000
