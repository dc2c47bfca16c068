"""Using an env that another user owns or that is mounted read-only."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import profiles_folder
from tests.users import read_only, second_user, unprivileged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.mini import Mini


@pytest.fixture(params=["second user", "read-only", "second user, read-only"])
def run(mini: Mini, request: pytest.FixtureRequest) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs rocenv as a user other than the home's owner, or with a read-only home."""
    text = (profiles_folder() / "environment.toml").read_text("utf-8")
    rows = [f"[[environment]]{row}" for row in text.split("[[environment]]") if '"{prefix}/cache' in row]
    (mini.root / "profiles" / "caches.toml").write_text("\n".join(["schema = 1", *rows]), "utf-8")
    mini.create("demo", "--rocm", "6.4")
    mini.home.chmod(0o755)
    user: list[str] = [*read_only(mini.home)] if "read-only" in request.param else []
    if "second" in request.param:
        user += second_user()
        os.chown(mini.root / "user", 65534, 65534)

    def of_user(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*user, *mini.command(*argv)],
            env={**mini.env, "TMPDIR": "/tmp", **env},
            cwd=mini.root,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return of_user


def _state(folder: Path) -> list[tuple[str, int, int]]:
    infos = ((str(path), path.lstat()) for path in sorted(folder.rglob("*")))
    return [(path, info.st_mtime_ns, info.st_mode) for path, info in infos]


def test_a_read_only_env_can_be_used(
    mini: Mini, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    before = _state(mini.home)
    user = mini.root / "user"

    done = run("run", "demo", "--", "sh", "-c", 'mkdir -p "$TORCH_HOME" && echo "$TORCH_HOME"')
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{user}/.cache/rocenv/")
    done = run("run", "demo", "--", "sh", "-c", 'echo "$MIOPEN_USER_DB_PATH"', XDG_CACHE_HOME="/local/me")
    assert done.stdout.startswith("/local/me/rocenv/")

    script = run("activate", "demo", "--shell", "elvish")
    assert script.returncode == 0 and f"{user}/.cache/rocenv/" in script.stdout

    assert "passed" not in run("show", "demo").stdout
    done = run("verify", "demo", "--upto", "files")
    assert done.returncode == 0, done.stderr
    assert "could not save" not in done.stderr
    shown = json.loads(run("show", "demo", "--json").stdout)
    assert shown["verified"] == "files"

    # Use rocenv's own data, because it contains apps.
    done = run("launch", "demo", "--", "sh", "-c", 'echo "$TORCH_HOME"', ROCENV_PROFILES="")
    assert done.returncode == 0, done.stderr
    assert f"{user}/.cache/rocenv/" in done.stdout
    assert list((user / ".local/state/rocenv/logs").glob("*.log"))

    done = run("create", "mine", "--rocm", "6.4", "--no-verify")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert _state(mini.home) == before


def test_a_verification_result_is_not_used_for_another_set(
    mini: Mini, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert run("verify", "demo", "--upto", "files").returncode == 0
    assert mini.run("remove", "demo", "-y").returncode == 0
    mini.create("demo", "--rocm", "5.7")
    assert json.loads(run("show", "demo", "--json").stdout)["verified"] == ""


@pytest.mark.parametrize("command", [("run", "demo", "--", "true"), ("list",)])
def test_the_error_for_an_unreadable_home_names_the_command_that_shares_it(
    mini: Mini, command: tuple[str, ...]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    mini.create("demo", "--rocm", "6.4")
    mini.home.chmod(0o700)
    os.chown(mini.home, 65534, 65534)
    done = subprocess.run(
        [*unprivileged(), *mini.command(*command)],
        env=mini.env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Permission denied" in done.stderr
    assert f"`chmod go+rx {mini.home}`" in done.stderr
