"""The example profile in CONTRIBUTING.md, which is all that a new app needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import Request
from tests.host.roots import Root
from tests.launch.lab import component

if TYPE_CHECKING:
    from tests.launch.lab import Lab

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
APP = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
parser.add_argument("--crash", action="store_true")
given = parser.parse_args()
print("CACHE", os.environ["SKETCH_CACHE"])
if given.crash:
    sys.exit("sketch: no HIP device")
print("rendering on", "HIP device" if given.device == "hip" else "CPU")
"""


@pytest.fixture
def sketch(lab: Lab) -> Lab:
    """A machine with an RX 6750 XT, an env, the profile, and the app in the current folder."""
    machine = Root(lab.root / "linux").kernel().cpu().gpu(1, device=0x73DF, version=100301)
    lab.env["ROCENV_SYSROOT"] = str(machine.path)
    parts = (component("rocm", "6.2.4", "wheels"), component("torch", "2.5.1+rocm6.2", "x", python="3.11.9"))
    lab.make("art", parts, platform="linux", target="gfx1031", request=Request(torch="*"))
    (text,) = re.findall(r"^   ```toml\n(.*?)^   ```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    rows = lab.root / "home" / "profiles" / "apps" / "sketch.toml"
    rows.parent.mkdir(parents=True)
    rows.write_text(re.sub("^   ", "", text, flags=re.MULTILINE))
    (lab.app / "brushes").mkdir()
    (lab.app / "brushes" / "list.txt").touch()
    (lab.app / "sketch.py").write_text(APP)
    return lab


def test_the_example_app_is_recognized_and_uses_the_gpu(sketch: Lab) -> None:
    done = sketch.run("launch", "art")
    assert done.returncode == 0, done.stderr
    prefix = sketch.prefix("art").path
    assert done.stdout.decode() == f"CACHE {prefix}/cache/sketch\nrendering on HIP device\n"
    assert "added `--device hip`: uses the GPU\n" in done.stderr.decode()
    assert sketch.logs("art")[0].name.endswith("-sketch.log")


def test_failures_of_the_example_app_are_explained(sketch: Lab) -> None:
    done = sketch.run("launch", "art", "--", "--crash")
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "Sketch ended with exit code 1" in said
    assert "[no-gpu-detected]" in said
    assert "sketch: no HIP device" in said


def test_an_env_without_python_is_an_error_with_a_remedy(sketch: Lab) -> None:
    prefix = sketch.make("bare", (component("rocm", "6.2.4", "x"),), platform="linux", target="gfx1031")
    (prefix.path / prefix.record().lock.python).unlink()
    done = sketch.run("launch", "bare")
    assert done.returncode == 1
    assert "Env `bare` has no Python." in done.stderr.decode()
    assert "`rocenv create bare2 --torch`" in done.stderr.decode()
