"""Exported envs, built into images and run by the fleet lane's real Apptainer as an ordinary user."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.env import ident
from rocenv.prefix import Prefix
from tests.loopback import Loopback
from tests.mini import Mini
from tests.users import missing

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / "build" / "fleet-lane" / "apptainer"
# Builds an image as an ordinary user and from a local base image.
_AS_USER = """#!/bin/bash
sed -e 's/^Bootstrap: .*/Bootstrap: localimage/' -e 's|^From: .*|From: {base}|' \\
    "${{@: -1}}" >{folder}/local.def
exec {inside} apptainer "${{@:1:$#-1}}" {folder}/local.def
"""
PROGRAMS = ("sh", "env", "cat", "rm")


@pytest.fixture
def world() -> Iterator[Mini]:
    """A simulated machine in a folder that other users can read."""
    if not (ROOT / "usr/bin/apptainer").exists():
        missing("Apptainer is not installed; `scripts/fleet-lane` installs it")
    root = Path(tempfile.mkdtemp(prefix="rocenv-apptainer-"))
    root.chmod(0o755)
    try:
        with Loopback(folder=root / "www") as server:
            yield Mini.build(root, server)
    finally:
        shutil.rmtree(root)


def _base(folder: Path) -> None:
    """Create a minimal base image from this machine's programs, to avoid a download."""
    for name in PROGRAMS:
        program = shutil.which(name, path="/usr/bin:/bin")
        assert program
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for file in (f"/usr/bin/{name}", *re.findall(r"/\S+", listed)):
            place = folder / file[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(program if file == f"/usr/bin/{name}" else file, place)
    (folder / "bin").symlink_to("usr/bin")
    for name in ("etc", "tmp", "proc", "sys", "dev", "var/tmp", "root", "home"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def test_an_ordinary_user_builds_an_image_and_runs_programs_in_its_env(world: Mini) -> None:
    world.create("demo", "--rocm", "6.4")
    prefix = world.prefix("demo")
    (prefix / "cache").mkdir(exist_ok=True)
    (prefix / "cache" / "secret").touch()
    base = world.root / "base"
    _base(base)
    inside = [str(Path(__file__).with_name("in-apptainer-root")), str(ROOT), str(world.root)]
    inside = ["unshare", "--mount", "--propagation", "private", *inside]
    program = world.root / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(_AS_USER.format(base=base, folder=world.root, inside=shlex.join(inside)))
    program.chmod(0o755)
    for path in (world.root, *world.root.rglob("*")):
        os.chown(path, 1000, 1000, follow_symlinks=False)

    def user(*argv: str) -> str:
        done = subprocess.run([*inside, *argv], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    image = str(world.root / "demo.sif")
    export = ("export", "demo", "--to", "apptainer", "--at", str(prefix), "-o", image)
    done = world.run(*export, timeout_s=300, PATH=f"{program.parent}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    # The env's own loader starts `cat`, which reads one of the env's files.
    assert "hipconfig of the env" in user(
        "apptainer", "-q", "run", image, "cat", f"{prefix}/rocm/usr/bin/hipconfig"
    )
    assert user("apptainer", "-q", "exec", image, "sh", "-c", f"echo {prefix}/c* {prefix}/l*") == (
        f"{prefix}/c* {prefix}/l*\n"
    ), "caches and logs belong to the user who builds the image"
    printed = user("apptainer", "-q", "exec", "--cleanenv", image, "env")
    loaded = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    record = Prefix(prefix).record()
    cache = f"/tmp/home/.cache/rocenv/{ident(str(prefix))}"
    wanted = apply(expand(record.lock.environment, str(prefix), cache), {"PATH": ""})
    assert {name: loaded[name] for name in wanted if name != "PATH"}.items() <= wanted.items()
    assert loaded["PATH"].startswith(f"{prefix}/")
