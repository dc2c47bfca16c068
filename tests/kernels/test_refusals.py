"""Errors before compiling, and truncated compiler output."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kernels.lab import WITH_RT, Lab, make_app

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = {"kernel_gfx1201.fatbin.zst": b"AMD's own"}
AS_WINDOWS = (
    "import sys, rocenv.kernels.build as build; build.WINDOWS = True; "
    "from rocenv.cli import main; sys.exit(main())"
)


@pytest.mark.parametrize(
    ("place", "error"), [("overlay", "kernels-no-app"), ("in-place", "kernels-unwritable")]
)
def test_unusable_output_path_fails_before_compiling(lab: Lab, place: str, error: str) -> None:
    app = make_app(lab.root / "b", lib=SHIPPED)
    if place == "overlay":
        (app / "blender").unlink()
    if place == "in-place":
        (app / "5.2/scripts/addons_core/cycles/lib").rename(lab.root / "lib")
        (app / "5.2/scripts/addons_core/cycles/lib").write_text("not a folder")
    answer = lab.build("--blender", app, "--env", "cc", "--place", place, code=1)
    assert answer["error"] == error
    assert answer["hints"]
    assert lab.calls() == []


def _headers(root: Path) -> Path:
    header = root / "hiprt/impl/hiprt_device_impl.h"
    header.parent.mkdir(parents=True)
    header.touch()
    return root


def test_the_include_option_selects_the_kind_of_kernel(lab: Lab) -> None:
    app = make_app(lab.root / "b", texts=WITH_RT)
    headers = _headers(lab.root / "rt")
    assert lab.build("--blender", app, "--env", "cc", "--hiprt-include", headers)["kind"] == "hiprt"
    done = lab.run("--blender", app, "--env", "cc", "--hip", "--hiprt-include", headers)
    assert done.returncode == 2
    assert "use only one of --hip and --hiprt" in done.stderr


@pytest.mark.parametrize("args", [[], ["--blender", "nowhere"], ["--env", "gone", "--output", "out"]])
def test_build_on_windows_fails_with_an_explanation(lab: Lab, args: list[str]) -> None:
    command = [sys.executable, "-c", AS_WINDOWS, *lab.command()[3:], *args]
    done = subprocess.run(command, env=lab.environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "only on Linux" in done.stderr
    assert "--env" not in done.stderr
    assert lab.calls() == []


def test_endless_compiler_output_is_truncated(lab: Lab) -> None:
    app = make_app(lab.root / "b")
    lab.orders(error="a.cpp:7: error: " + "x" * 3_000_000 + "\nb.cpp:8: error: short\n" + "note\n" * 9)
    done = lab.run("--blender", app, "--env", "cc")
    assert done.returncode == 1
    assert "a.cpp:7: error: xxx" in done.stderr
    assert "b.cpp:8: error: short" in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 1000
    (log,) = (lab.home.path / "cache/kernels").glob("*.log")
    assert log.stat().st_size > 3_000_000
