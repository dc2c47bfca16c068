"""Which tool is taken, and what of this machine's settings reaches it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.home import Home
from rocenv.net import Network
from rocenv.sources import wheel_tool
from rocenv.sources.pip import Pip
from rocenv.sources.pip_settings import pip_settings
from rocenv.sources.uv import Uv
from rocenv.sources.wheel_tool import choose_tool
from rocenv.sources.wheels import general_indices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.config import Mirrors


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """As in a process that has not chosen yet."""
    monkeypatch.setattr(wheel_tool, "_said", [])
    wheel_tool._trouble_of_uv.cache_clear()
    yield monkeypatch
    wheel_tool._trouble_of_uv.cache_clear()


def test_uv_is_taken_where_it_runs(fresh: pytest.MonkeyPatch, tmp_path: Path, said: list[str]) -> None:
    assert isinstance(choose_tool(Home(tmp_path), offline=False, tell=said.append), Uv)
    assert said == []


@pytest.mark.skipif(sys.platform == "win32", reason="the broken uv is a shell script")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexit 3\n", "`uv --version` ends with exit code 3"),
        ("#!/bin/sh\nkill -SEGV $$\n", "`uv --version` ends with exit code -11"),
        ("MZ", "Exec format error"),
    ],
)
def test_pip_stands_in_for_a_uv_that_does_not_run_and_that_is_said_once(
    fresh: pytest.MonkeyPatch, tmp_path: Path, said: list[str], script: str, reason: str
) -> None:
    import uv

    broken = tmp_path / "uv"
    broken.write_text(script)
    broken.chmod(0o755)
    fresh.setattr(uv, "find_uv_bin", lambda: str(broken))
    for _ in range(2):
        tool = choose_tool(Home(tmp_path), offline=True, tell=said.append)
        assert isinstance(tool, Pip)
        assert tool.offline
        assert Home(tmp_path).uv_cache in tool.cache.parents  # `rocenv cache clear wheels` frees it
    assert said == [f"uv does not run here ({reason}); pip is used instead, which is slower"]


def test_pip_stands_in_where_uv_is_not_installed(
    fresh: pytest.MonkeyPatch, tmp_path: Path, said: list[str]
) -> None:
    fresh.setitem(sys.modules, "uv", None)
    assert isinstance(choose_tool(Home(tmp_path), offline=False, tell=said.append), Pip)
    assert said == ["uv does not run here (it is not installed); pip is used instead, which is slower"]


@pytest.mark.skipif(sys.platform == "win32", reason="the files are those of Linux")
def test_settings_are_those_that_pip_itself_finds(tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text(
        "[global]\nindex-url = https://a.invalid/simple\ntimeout = 7\n[install]\nindex_url = https://i.invalid\n"
    )
    config = tmp_path / "home" / ".config" / "pip"
    config.mkdir(parents=True)
    (config / "pip.conf").write_text("[global]\nproxy = http://p.invalid\nindex-url=https://u.invalid/%2B\n")
    environ = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": str(tmp_path / "a.conf"),
        "PIP_RETRIES": "2",
    }
    settings = pip_settings(environ)
    asked = subprocess.run(
        [sys.executable, "-I", "-m", "pip", "config", "list"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "install.index-url='https://i.invalid'" in asked
    assert settings["index-url"] == "https://i.invalid"
    assert "p.invalid" not in asked, "the chosen file stands in for the user's"
    assert "proxy" not in settings
    assert (settings["timeout"], settings["retries"]) == ("7", "2")
    assert pip_settings({**environ, "PIP_INDEX_URL": "https://e.invalid"})["index-url"] == "https://e.invalid"
    del environ["PIP_CONFIG_FILE"]
    assert pip_settings(environ)["index-url"] == "https://u.invalid/%2B"
    assert pip_settings(environ)["proxy"] == "http://p.invalid"


def test_settings_that_cannot_be_read_are_no_missing_ones(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("index-url = https://a.invalid\n")
    with pytest.raises(DataError, match=r"pip's configuration `.*pip\.conf` cannot be read"):
        pip_settings({"PIP_CONFIG_FILE": str(tmp_path / "pip.conf")})


def test_the_general_index_is_this_machines_own(tmp_path: Path) -> None:
    mirrors: Mirrors = (("pypi:", ("https://m.invalid/simple/", "https://n.invalid/simple/")),)
    pip_only = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://p.invalid/simple"}
    both = {**pip_only, "UV_DEFAULT_INDEX": "corp=https://u.invalid/simple?a=b"}
    assert general_indices({"PIP_CONFIG_FILE": os.devnull}, Network()) == ("",)
    assert general_indices(pip_only, Network()) == ("https://p.invalid/simple",)
    assert general_indices(both, Network()) == ("https://u.invalid/simple?a=b",)
    assert general_indices(both, Network(mirrors=mirrors)) == (
        "https://m.invalid/simple/",
        "https://n.invalid/simple/",
        "https://u.invalid/simple?a=b",
    )
    plain = {**pip_only, "UV_INDEX_URL": "https://u.invalid/simple?a=b"}
    assert general_indices(plain, Network()) == ("https://u.invalid/simple?a=b",)
