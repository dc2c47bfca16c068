"""Scripts for newcomers, which run from any folder and report usage errors before they change anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [
    ROOT / "scripts" / name
    for name in (
        "test",
        "fuzz",
        "quickstart",
        "bench",
        "check-matrix-drift",
        "diagnose-score",
        "readme",
        "record",
    )
]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for POSIX systems")


def run(*argv: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **changes}
    return subprocess.run(
        list(map(str, argv)), cwd=cwd, env=environ, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
class TestEveryScript:
    def test_each_script_prints_help_from_any_folder(self, script: Path, tmp_path: Path) -> None:
        done = run(script, "--help", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "--" in done.stdout
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_option_fails_before_any_work(self, script: Path, tmp_path: Path) -> None:
        done = run(script, "--no-such-thing", cwd=tmp_path)
        assert done.returncode == 2
        assert "--no-such-thing" in done.stderr


def test_every_script_parses_in_bash(tmp_path: Path) -> None:
    texts = [path for path in (ROOT / "scripts").iterdir() if path.is_file()]
    scripts = [path for path in texts if path.suffix == ".bash" or b"bash" in path.read_bytes()[:30]]
    found = {
        path.name: run("bash", "-n", path, cwd=tmp_path).stderr for path in [*scripts, ROOT / ".ci" / "run"]
    }
    assert {"test", "wine", "windows-lane", "setup.bash", "run"} < set(found)
    assert {name: text for name, text in found.items() if text} == {}


def make_venv(venv: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    call = '. "$1"; make_venv "$2"'
    return run("bash", "-euc", call, "-", ROOT / "scripts/setup.bash", venv, cwd=venv.parent, **changes)


class TestMakeVenv:
    def test_the_error_shows_the_unsuitable_python(self, tmp_path: Path) -> None:
        done = make_venv(tmp_path / "venv", PYTHON="/bin/false")
        assert done.returncode == 1
        assert "`/bin/false` is not Python 3.10 or later" in done.stderr
        assert not (tmp_path / "venv").exists()

    def test_a_moved_or_incomplete_venv_is_replaced_and_a_working_one_kept(self, tmp_path: Path) -> None:
        venv = tmp_path / "it's a venv"
        (venv / "bin").mkdir(parents=True)  # left over from an interrupted attempt
        # Imitate an interruption that leaves a venv without pip; skipping pip also saves time.
        quick = tmp_path / "python"
        quick.write_text(
            f'#!/bin/sh\n[ "$2" = venv ] && set -- "$@" --without-pip\nexec {sys.executable} "$@"\n'
        )
        quick.chmod(0o755)
        assert make_venv(venv, PYTHON=str(quick)).returncode == 0
        (venv / "mark").touch()
        assert make_venv(venv, PYTHON=sys.executable).returncode == 0
        assert run(venv / "bin" / "pip", "--version", cwd=tmp_path).returncode == 0
        assert not (venv / "mark").exists()
        (venv / "mark").touch()
        assert make_venv(venv, PYTHON="/bin/false").returncode == 0
        assert (venv / "mark").exists()
        moved = venv.rename(tmp_path / "moved")
        assert make_venv(moved, PYTHON=str(quick)).returncode == 0
        assert not (moved / "mark").exists()
        assert run(moved / "bin" / "python", "--version", cwd=tmp_path).returncode == 0
