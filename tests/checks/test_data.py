"""The age of rocenv's data, and warnings about old data."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.checks.machine import data_old
from rocenv.checks.run import run
from rocenv.checks.table import CHECKS
from rocenv.data.load import newest_day

if TYPE_CHECKING:
    from rocenv.checks.context import CheckContext
    from tests.checks.scenery import Scenery

SCRIPT = Path(__file__).parents[2] / "scripts" / "check-matrix-drift"
C_LIBRARY = '[[c_library]]\npackage = "libc6"\nloader = "ld"\nfiles = []\nstatus = "tested"\n'


def profiles(folder: Path, *rows: tuple[str, int]) -> Path:
    """Write rows to the `fact` or `channel` table; each was last checked the given number of days ago."""
    folder.mkdir()
    text = "schema = 1\n"
    for number, (table, age) in enumerate((*rows, ("c_library", 3000))):
        day = date.today() - timedelta(days=age)
        known = f'status = "tested"\nsource = "https://example.org/{number}"\nchecked = "{day}"\n'
        fields = {
            "fact": f'[[fact]]\nabout = "x"\ntext = "fact {number}"\n{known}',
            "channel": f'[[channel]]\nname = "c{number}"\ntitle = "c"\nby = "maker"\n{known}',
            "file_hash": f'[[file_hash]]\nindex = "i"\nfile = "{number}"\nsha256 = "{"0" * 64}"\n{known}',
            "c_library": C_LIBRARY + known.partition("\n")[2],
        }
        text += fields[table]
    (folder / "rows.toml").write_text(text)
    return folder


@pytest.fixture
def here(scenery: Scenery) -> CheckContext:
    """A CheckContext for this machine, the only one for which the age of the data is checked."""
    return replace(scenery.context(), elsewhere=False)


@pytest.mark.parametrize(("age", "is_old"), [(0, False), (120, False), (121, True), (2000, True)])
def test_old_data_is_reported(
    here: CheckContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int, is_old: bool
) -> None:
    monkeypatch.setenv("ROCENV_PROFILES", str(profiles(tmp_path / "p", ("fact", age), ("channel", age + 9))))
    checks = [check for check in CHECKS if check.name == "data_old"]
    found = run(here, checks, "en")
    assert [each.code for each in found] == ["data-old"] * is_old
    if is_old:
        assert f"{age} days old" in found[0].title
        assert str(date.today() - timedelta(days=age)) in found[0].detail


@pytest.mark.parametrize("installed", ["from a clone", "editable", "from elsewhere"])
def test_the_update_command_depends_on_the_installation(
    here: CheckContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    clone, info = tmp_path / "my clone", tmp_path / "site" / "rocenv-0.1.0.dist-info"
    (clone / ".git").mkdir(parents=True)
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rocenv\nVersion: 0.1.0\n")
    if installed != "from elsewhere":
        origin = {"url": clone.as_uri(), "dir_info": {"editable": installed == "editable"}}
        (info / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("ROCENV_PROFILES", str(profiles(tmp_path / "p", ("fact", 200))))
    (found,) = run(here, [check for check in CHECKS if check.name == "data_old"], "en")
    pull, install = f"git -C '{clone}' pull", f"{sys.executable} -m pip install '{clone}'"
    commands = {"from a clone": (pull, install), "editable": (pull,), "from elsewhere": ()}
    assert tuple(found.commands) == commands[installed]
    assert any("`git pull`" in each for each in found.instructions) is (installed == "from elsewhere")


def test_the_age_is_not_checked_for_a_different_machine(scenery: Scenery, tmp_path: Path) -> None:
    assert data_old(scenery.context()) is None


def test_data_without_valid_rows_has_no_age(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('schema = 1\nchecked = "2026-99-99"\n')
    assert newest_day(tmp_path) is None


def test_rows_older_than_their_table_allows_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = profiles(
        tmp_path / "p", ("fact", 366), ("fact", 365), ("channel", 121), ("channel", 120), ("file_hash", 3000)
    )
    monkeypatch.setenv("ROCENV_PROFILES", str(folder))

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(SCRIPT), *argv], capture_output=True, text=True, timeout=60, check=False
        )

    done = run("--age", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    old = {row["source"]: row for row in json.loads(done.stdout)["old"]}
    assert {name[-1] for name in old} == {"0", "2", "5"}
    assert (old["https://example.org/2"]["row"], old["https://example.org/2"]["allowed_days"]) == (
        "name=c2",
        120,
    )
    text = run("--age").stdout
    assert "3 outdated rows to check again" in text
    assert text.index("c_library") < text.index("fact"), "oldest first"
    assert run("--age", "--only", "debian").returncode == 2
    (folder / "rows.toml").write_text(
        "schema = 1\n" + C_LIBRARY + f'source = "x"\nchecked = "{date.today()}"\n'
    )
    assert run("--age").stdout == "no rows are outdated\n"
