"""What cmd has after `activate.bat` is what `apply` says; after `deactivate`, what it was. Under Wine's cmd.

All of it happens in one cmd, since starting a program takes Wine long; the tests look at what it wrote down.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.scripts import write_activation
from rocenv.model import EnvChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.windows]

DUMP = r"""
#include <windows.h>
#include <stdio.h>
int wmain(int argc, wchar_t **argv) {
    wchar_t *all = GetEnvironmentStringsW(), *end = all;
    while (*end) end += wcslen(end) + 1;
    FILE *file = argc == 2 ? _wfopen(argv[1], L"wb") : NULL;
    if (!file) return 1;
    fwrite(all, sizeof *all, end - all, file);
    return fclose(file) != 0;
}
"""
CHANGES = (
    EnvChange(action="prepend", name="PATH", value=r"{prefix}\rocm\5.7\bin"),
    EnvChange(action="prepend", name="PATH", value=r"{prefix}\venv\Scripts"),
    EnvChange(action="prepend", name="PATH", value=r"{prefix}\bin"),
    EnvChange(action="prepend", name="LISTED", value=r"{prefix}\lib"),
    EnvChange(action="set", name="HIP_PATH", value="{prefix}\\rocm\\5.7\\"),
    EnvChange(action="set", name="DISABLE_ADDMM_CUDA_LT", value="1"),
    EnvChange(action="set", name="FLAGS", value=r"a & b | c <d> (e) ~*? 'f' a=b,c @x"),
    EnvChange(action="set", name="EMPTY", value=""),
    EnvChange(action="unset", name="ROCM_PATH"),
)
WATCHED = ("HIP_PATH", "HIP_VISIBLE_DEVICES")
FOLDERS = {
    "plain": "plain",
    "space": "my env",
    "and": "a&b & echo canary",
    "signs": "it's (x86) ~ e=q, u+x @ #$ `b` [c] {d}",
    "letters": "漢字 é",
    "emoji": "\N{GRINNING FACE} e&é",
}


@dataclass
class Session:
    """One cmd: the lines that it is given, and what it wrote down."""

    folder: Path
    lines: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    stdout: str = ""
    stderr: str = ""

    def env(self, key: str, folder: str, name: str = "") -> Path:
        """Make an env, to which `%KEY%` leads."""
        prefix = self.folder / folder
        (prefix / ".rocenv").mkdir(parents=True)
        (prefix / ".rocenv" / "record.json").touch()
        # The scripts are those that Windows would get: with its own spelling of the path.
        write_activation(WindowsPath(prefix), name or folder, CHANGES, WATCHED, "windows")  # type: ignore[arg-type]
        self.variables[key] = windows(prefix)
        return prefix

    def run(self) -> None:
        """Run the lines in a cmd of their own file."""
        script = self.folder / "session.bat"
        script.write_bytes("\r\n".join(["@echo off", *self.lines, ""]).encode("ascii"))
        done = subprocess.run(
            ["wine", "cmd", "/c", windows(script)],
            env={**os.environ, **self.variables, "LC_ALL": "C.UTF-8"},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=300,
        )
        self.stdout = done.stdout.decode("utf-8", "replace").replace("\r\n", "\n")
        self.stderr = done.stderr.decode("utf-8", "replace").replace("\r\n", "\n")

    def add(self, text: str) -> None:
        """Add lines, in which `dump NAME` and `status NAME` write the environment and the errorlevel down."""
        for line in textwrap.dedent(text).strip().splitlines():
            word, _, name = line.strip().partition(" ")
            if word == "dump":
                self.lines.append(f'"{windows(self.folder)}\\dump.exe" "{windows(self.folder)}\\dump.{name}"')
            elif word == "status":
                self.lines.append(f"echo {name} %errorlevel%")
            else:
                self.lines.append(line)

    def dump(self, name: str) -> dict[str, str]:
        """Return an environment without what is ours or only shown."""
        return {name: value for name, value in self.all(name).items() if not name.startswith("_ROCENV")}

    def all(self, name: str) -> dict[str, str]:
        """Return an environment without cmd's own hidden variables."""
        text = (self.folder / f"dump.{name}").read_bytes().decode("utf-16-le")
        pairs = (item.partition("=") for item in text.split("\0") if item and not item.startswith("="))
        return {key.upper(): value for key, _, value in pairs}

    def expected(self, key: str, before: Mapping[str, str]) -> dict[str, str]:
        after = apply(expand(CHANGES, self.variables[key]), before, "windows")
        return {name: value for name, value in after.items() if name != "PROMPT"}


class WindowsPath:
    """A folder of this machine that is called by its name on Windows."""

    def __init__(self, path: Path) -> None:
        self.joinpath = path.joinpath
        self.path = path

    def __str__(self) -> str:
        return windows(self.path)


def windows(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Wine prefix: that of WINEPREFIX, or one made for these tests."""
    missing = [each for each in ("wine", "wineboot", "x86_64-w64-mingw32-gcc") if shutil.which(each) is None]
    if missing:
        pytest.fail(f"not installed: {missing}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINEDEBUG", "-all")
        patch.setenv("WINEARCH", "win64")
        patch.setenv("WINEDLLOVERRIDES", "mscoree,mshtml=")  # no installers
        if "WINEPREFIX" not in os.environ:
            patch.setenv("WINEPREFIX", str(tmp_path_factory.mktemp("wine")))
            subprocess.run(
                ["wineboot", "-i"], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=300
            )
        yield


ROUND = """\
{path}
dump {tag}.before
call "%{key}%\\activate.bat"
status {tag}.activate
dump {tag}.active
call "%{key}%\\activate.bat"
call "%{key}%\\activate.bat"
dump {tag}.twice
call deactivate
status {tag}.deactivate
dump {tag}.after
set "PATH=%KEPT%"
"""
PATHS = {
    "usual": "rem",
    "odd": r'set "PATH=C:\front;C:\q^w;C:\e&r;;C:\t!y (x86);;%PATH%;"',
}
SCENES = r"""
dump start
call "%plain%\activate.bat"
dump nest.first
call "%letters%\activate.bat"
status nest
dump nest.second
call deactivate
dump nest.back
call "%and%\activate.bat"
call "%plain%\activate.bat"
dump nest.again
call deactivate
dump nest.after
call "%plain%\bin\deactivate.bat"
status nothing-active

call "%space%\activate.bat"
set "PATH=C:\in front;%PATH%;C:\behind"
set "HIP_PATH=mine"
set "ROCM_PATH=C:\new"
call deactivate
dump edited
set "PATH=%KEPT%"
set "HIP_PATH="
set "ROCM_PATH="

set "PATH=C:\a;%SIGNS%\BIN;;%PATH%;%signs%\rocm\5.7\bin;%signs%\bin"
dump there.before
call "%signs%\activate.bat"
dump there.active
set "PATH=C:\first;%PATH%"
call deactivate
dump there.after
set "PATH=%KEPT%"

set "HIP_PATH=C:\Program Files\AMD & Co"
set "HIP_VISIBLE_DEVICES=1"
set "LISTED=C:\listed"
dump report.before
call "%plain%\activate.bat"
dump report.active
call deactivate
dump report.after
set "HIP_PATH="
set "HIP_VISIBLE_DEVICES="
set "LISTED="

setlocal EnableDelayedExpansion
dump delayed.before
call "%and%\activate.bat"
status delayed
dump delayed.active
call deactivate
dump delayed.after
endlocal
set "PATH=C:\x!y;%PATH%"
setlocal EnableDelayedExpansion
dump marked.before
call "%and%\activate.bat"
status marked
dump marked.after
endlocal
set "PATH=%KEPT%"

set PATH="C:\quoted";%PATH%
dump quoted.before
call "%plain%\activate.bat"
status quoted
dump quoted.after
set "PATH=%KEPT%"

dump gone.before
call "%gone%\activate.bat"
status gone
call "%moved%\activate.bat"
status moved
call "%renamed%\activate.bat"
status renamed
dump gone.after

set "ROCENV_DISABLE_PROMPT=1"
call "%plain%\activate.bat"
dump no-prompt
call deactivate
set "ROCENV_DISABLE_PROMPT="
set "PROMPT=$P$G"
call "%letters%\activate.bat"
dump prompt.letters
set "PROMPT=mine"
call deactivate
dump prompt.mine
set "PROMPT="
call "%plain%\activate.bat"
cmd /q /c ""%space%\activate.bat" & call deactivate & call deactivate & "%dumper%" "%child%""
dump prompt.plain
call deactivate
dump end
echo reached
"""


@pytest.fixture(scope="module")
def session(wine: None, tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("cmd")
    session = Session(folder)
    source = folder / "dump.c"
    source.write_text(DUMP)
    subprocess.run(
        ["x86_64-w64-mingw32-gcc", "-municode", "-O1", "-o", folder / "dump.exe", source],
        check=True,
        timeout=120,
    )
    for key, name in FOLDERS.items():
        session.env(key, name)
    session.env("gone", "gone").joinpath(".rocenv", "record.json").unlink()
    for key, before, after in (("moved", "é/x", "moved"), ("renamed", "é y", "é z")):
        session.env(key, before).rename(folder / after)
        session.variables[key] = windows(folder / after)
    session.variables |= {"dumper": windows(folder / "dump.exe"), "child": windows(folder / "dump.child")}
    session.add('set "KEPT=%PATH%"')
    for kind, path in PATHS.items():
        for key in FOLDERS:
            session.add(ROUND.format(key=key, tag=f"{kind}.{key}", path=path))
    session.add(SCENES)
    session.run()
    return session


def without_prompt(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name != "PROMPT"}


def statuses(session: Session) -> dict[str, str]:
    lines = (line.split() for line in session.stdout.splitlines())
    return {words[0]: words[1] for words in lines if len(words) == 2}


def test_all_of_it_ran_and_nothing_was_code(session: Session) -> None:
    assert session.stdout.endswith("reached\n"), session.stdout + session.stderr
    assert "canary" not in session.stdout
    assert [line for line in session.stdout.splitlines() if len(line.split()) != 2] == ["reached"]


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("key", FOLDERS)
def test_cmd_has_what_the_oracle_says_and_then_what_it_had(session: Session, key: str, kind: str) -> None:
    tag = f"{kind}.{key}"
    before = session.dump(f"{tag}.before")
    active = without_prompt(session.dump(f"{tag}.active"))
    assert active == session.expected(key, before)
    assert without_prompt(session.dump(f"{tag}.twice")) == active
    assert session.all(f"{tag}.after") == before
    assert statuses(session)[f"{tag}.activate"] == "0"
    assert statuses(session)[f"{tag}.deactivate"] == "0"


def test_an_env_on_top_of_another_leads_back_to_it(session: Session) -> None:
    first, second = session.dump("nest.first"), session.dump("nest.second")
    assert without_prompt(second) == session.expected("letters", first)
    assert session.all("nest.back") == session.all("nest.first")
    assert without_prompt(session.dump("nest.again")) == without_prompt(first)
    assert session.all("nest.after") == session.all("start")
    assert statuses(session)["nothing-active"] == "1"
    assert "no env was activated in this window" in session.stderr


def test_what_was_changed_while_active_stays_and_is_named(session: Session) -> None:
    start = session.dump("start")
    expected = {**start, "HIP_PATH": "mine", "ROCM_PATH": "C:\\new"}
    expected["PATH"] = f"C:\\in front;{start['PATH']};C:\\behind"
    assert session.all("edited") == expected
    assert "left as it is now: HIP_PATH ROCM_PATH\n" in session.stderr


def test_an_entry_that_was_there_moves_to_the_front_and_stays_afterwards(session: Session) -> None:
    before = session.dump("there.before")
    assert without_prompt(session.dump("there.active")) == session.expected("signs", before)
    left = session.dump("there.after")["PATH"].split(";")
    prefix = session.variables["signs"]
    assert left[0] == "C:\\first"
    assert {f"{prefix}\\bin", f"{prefix}\\rocm\\5.7\\bin"} < set(left)
    assert f"{prefix}\\venv\\Scripts" not in left


def test_what_the_machine_had_is_reported_and_comes_back(session: Session) -> None:
    before = session.dump("report.before")
    assert without_prompt(session.dump("report.active")) == session.expected("plain", before)
    assert session.all("report.after") == before
    assert "replaced until deactivation: HIP_PATH\n" in session.stderr
    assert "acts on this env too: LISTED HIP_VISIBLE_DEVICES\n" in session.stderr


def test_delayed_expansion_may_be_on(session: Session) -> None:
    before = session.dump("delayed.before")
    assert without_prompt(session.dump("delayed.active")) == session.expected("and", before)
    assert session.all("delayed.after") == before
    assert statuses(session)["delayed"] == "0"


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        ("marked", "would drop the exclamation mark in: PATH\n"),
        ("quoted", "characters, in: PATH\n"),
        ("gone", "`rocenv list`"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(session: Session, scene: str, said: str) -> None:
    assert statuses(session)[scene] == "1"
    assert said in session.stderr
    assert session.all(f"{scene}.after") == session.all(f"{scene}.before")


def test_an_env_that_was_moved_is_refused(session: Session) -> None:
    assert statuses(session)["moved"] == statuses(session)["renamed"] == "1"


def test_the_prompt_shows_the_name_and_is_left_alone_where_that_is_wanted(session: Session) -> None:
    start = session.dump("start")
    assert session.dump("no-prompt")["PROMPT"] == start.get("PROMPT", session.dump("no-prompt")["PROMPT"])
    assert session.dump("prompt.letters")["PROMPT"] == "(漢字 é) $P$G"
    assert session.dump("prompt.mine")["PROMPT"] == "mine"
    assert session.dump("prompt.plain")["PROMPT"] == "(plain) $P$G"
    assert session.all("end") == {key: value for key, value in start.items() if key != "PROMPT"}


def test_a_cmd_started_from_an_active_one_can_leave_it(session: Session) -> None:
    assert without_prompt(session.all("child")) == without_prompt(session.dump("start"))
