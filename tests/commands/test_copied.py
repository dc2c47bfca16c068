"""Copied envs, which rocenv rejects because each env works only at the path that it was created for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.users import missing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mini import Mini

COMMANDS = (
    ("activate", "demo", "--shell", "bash"),
    ("launch", "demo", "--", "true"),
    ("run", "demo", "--", "true"),
    ("show", "demo", "--json"),
    ("verify", "demo", "--upto", "files"),
)


@pytest.fixture
def copy(mini: Mini) -> Path:
    """A copy of a home whose env has its own C library, and therefore its own loader."""
    mini.create("demo", "--rocm", "6.4")
    there = mini.root / "copy"
    shutil.copytree(mini.home, there, symlinks=True)
    return there


def test_every_command_refuses_a_copy(mini: Mini, copy: Path) -> None:
    for command in COMMANDS:
        done = mini.run(*command, ROCENV_HOME=str(copy))
        assert done.returncode == 1, command
        assert f"was made for `{mini.prefix('demo')}`" in done.stderr, command
        assert "rocenv repair demo" in done.stderr
    # In a copy, the loader would start these programs with the original's libraries.
    for name in ("rocm-exec", "python3"):
        done = subprocess.run(
            [copy / "envs/demo/bin" / name, "true"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 126 and "`rocenv show demo`" in done.stderr, name


def test_repair_adapts_a_copied_env_and_its_lock_creates_new_envs(mini: Mini, copy: Path) -> None:
    home = str(copy)
    shutil.rmtree(mini.home)
    assert mini.run("lock", "demo", ROCENV_HOME=home).returncode == 0
    assert mini.run("clone", "demo", "more", ROCENV_HOME=home).returncode == 0
    assert mini.run("run", "more", "--", "true", ROCENV_HOME=home).returncode == 0
    assert mini.run("repair", "demo", ROCENV_HOME=home).returncode == 0
    for command in COMMANDS:
        assert "was made for" not in mini.run(*command, ROCENV_HOME=home).stderr, command


def test_other_paths_to_an_env_work(mini: Mini) -> None:
    """A home below a link, such as `/home` -> `/mnt/home`, or a home whose path later becomes a link."""
    link = mini.root / "link"
    mini.home.mkdir()
    link.symlink_to(mini.home)
    mini.create("demo", "--rocm", "6.4", ROCENV_HOME=str(link))
    for home in (mini.home, link):
        assert mini.run("run", "demo", "--", "true", ROCENV_HOME=str(home)).returncode == 0
        assert subprocess.run([home / "envs/demo/bin/rocm-exec", "true"], check=False).returncode == 0
    link.unlink()
    mini.home.rename(mini.root / "moved")
    mini.home.symlink_to(mini.root / "moved")
    link.symlink_to(mini.root / "moved")
    state = json.loads(mini.run("show", "demo", "--json").stdout)["state"]
    assert state == "complete"


def test_an_env_works_through_a_bind_mount(mini: Mini) -> None:
    mini.create("demo", "--rocm", "6.4")
    there = mini.root / "there"
    there.mkdir()
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        missing("this machine allows no mounts in a user namespace")
    commands = """set -e
        mount --bind "$1" "$2"
        ROCENV_HOME=$2 "$3" -m rocenv run demo -- true
        "$2/envs/demo/bin/rocm-exec" true"""
    python = mini.command()[0]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", commands, "sh", mini.home, there, python],
        env={**os.environ, **mini.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
