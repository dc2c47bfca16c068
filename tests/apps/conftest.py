"""The apps lane's ROCENV_HOME and shared envs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from rocenv.compilers import ensure_available, newest_for
from rocenv.context import Context
from rocenv.home import Home
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.compilers import Toolchain

LANE = Path(__file__).parents[2] / "build" / "apps-lane"
_FOLDER = Path(__file__).parent
_PASSED_ON = ("PATH", "LANG", "TMPDIR", "PYTHONPATH", "http_proxy", "https_proxy", "no_proxy")


class Rocenv(Protocol):
    """A callable that runs the real program."""

    def __call__(
        self, *args: str | os.PathLike[str], env: Mapping[str, str] | None = None, timeout_s: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """Run `rocenv ARGS` with the lane's variables and those in `env`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in this folder with the lane's marker."""
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.apps)
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def apps_home() -> Iterator[Path]:
    """The lane's ROCENV_HOME; later runs reuse its downloads and unpacked packages."""
    home = LANE / "home"
    (LANE / "user").mkdir(parents=True, exist_ok=True)
    home.mkdir(exist_ok=True)
    with locked(LANE / "lock", waiting="waiting for another run of the apps lane"):
        yield home


@pytest.fixture(scope="session")
def rocenv(apps_home: Path) -> Rocenv:
    """A callable that runs the real program with the lane's ROCENV_HOME, as a user without a GPU."""
    plain = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    plain |= {"HOME": str(LANE / "user"), "ROCENV_HOME": str(apps_home), "LC_ALL": "C.UTF-8"}

    def run(
        *args: str | os.PathLike[str], env: Mapping[str, str] | None = None, timeout_s: float = 600
    ) -> subprocess.CompletedProcess[str]:
        words = [str(each) for each in args]
        command = [sys.executable, "-m", "rocenv", *words]
        done = subprocess.run(
            command,
            env={**plain, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
        output = f"{done.stdout}{done.stderr}(exit code {done.returncode})"
        sys.stderr.write(f"$ rocenv {' '.join(words)}\n{output}\n")
        return done

    return run


@pytest.fixture(scope="session")
def blender_env(rocenv: Rocenv) -> str:
    """The name of a new env with Debian's Blender."""
    return _create(rocenv, "art", "blender", "debian-sid", "gfx1201")


@pytest.fixture(scope="session")
def llama_env(rocenv: Rocenv) -> str:
    """The name of a new env with Debian's llama.cpp and its HIP backend."""
    return _create(rocenv, "llm", "llama.cpp", "debian-forky", "gfx1103")


@pytest.fixture(scope="session")
def rocm72_env(rocenv: Rocenv) -> str:
    """The name of a new env with ROCm 7.2 from Debian experimental, created from the command line."""
    rocenv("remove", "-y", "d72")
    options = ["--rocm", "7.2", "--channel", "debian-experimental", "--target", "gfx1201"]
    done = rocenv("create", "d72", *options, "-y", timeout_s=1800)
    assert done.returncode == 0, done.stderr
    assert "rocm 7.2" in done.stderr
    assert "OK up to `compile` for gfx1201" in done.stderr
    return "d72"


@pytest.fixture(scope="session")
def clang_toolchain(apps_home: Path) -> Toolchain:
    """The compiler that rocenv downloads for gfx1201."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROCENV_HOME", str(apps_home))
        context = Context()
        assert context.home == Home(apps_home)
        row = newest_for("gfx1201", context.matrix)
        assert row is not None
        return ensure_available(row, context, lambda text: print(text, file=sys.stderr))


def _create(rocenv: Rocenv, name: str, app: str, channel: str, target: str) -> str:
    """Create an env for an app from the store, or from the mirror that apt uses."""
    rocenv("remove", "-y", name)  # may be left over from an earlier version of the code
    options = ["--app", app, "--rocm", "6.4", "--channel", channel, "--target", target]
    done = rocenv("create", name, *options, "-y", "--no-verify", timeout_s=1800)
    assert done.returncode == 0, done.stderr
    return name
