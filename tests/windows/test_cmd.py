"""`activate.bat` and `deactivate` in Wine's cmd, compared with the environment that `apply` computes.

All scripts run in one cmd, because starting programs takes time, and the tests read what that cmd recorded.
The `checklist` mark lists the lines in the `tests/shells` checklist that a test covers for cmd.
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
from rocenv.activate.env import Place
from rocenv.activate.scripts import activation_script, require_listable, write_activation
from rocenv.activate.shells import HOOKS
from rocenv.core.errors import DataError, PrefixError
from rocenv.core.model import EnvChange
from tests.windows.lab import WINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = [pytest.mark.windows, pytest.mark.xdist_group("cmd")]  # one cmd for all tests

SHELL = "cmd"
NOT_APPLICABLE: dict[int, str] = {
    1: "cmd has no strict modes; delayed expansion has its own test",
    11: "a backslash separates folders on Windows, so names cannot contain one",
    24: "cmd has no empty variables: setting a variable to nothing removes it",
    33: "rocenv runs nothing at cmd's prompt",
    34: "cmd's prompt is an environment variable, which every child inherits",
    36: "batch files do not see doskey macros, and cmd's own commands cannot be redefined",
    37: "the calling cmd runs a batch file itself; there is no other kind of call",
    42: "about PowerShell",
    44: "applies to bash on Windows; cmd ignores the case of names and entries",
    48: "cmd runs nothing at the prompt or when you enter a folder, so it cannot activate an env",
}
line = pytest.mark.checklist

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
# A program that records its command line and exits with 7.
RECORD = r"""
#include <windows.h>
#include <stdio.h>
int wmain(void) {
    FILE *file = _wfopen(_wgetenv(L"RECORD"), L"ab");
    if (!file) return 1;
    fwprintf(file, L"%ls\n", GetCommandLineW());
    fclose(file);
    return 7;
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
    EnvChange(action="set", name="EDGES", value="  a\\b  "),
    EnvChange(action="set", name="HOLDERS", value="LONGEST WHERE IDENT NAME SHOWN LABEL"),
    EnvChange(action="set", name="EMPTY", value=""),
    EnvChange(action="unset", name="ROCM_PATH"),
)
WATCHED = ("HIP_PATH", "HIP_PATH_57", "HSA_OVERRIDE_GFX_VERSION", "HIP_VISIBLE_DEVICES")
FOLDERS = {
    "plain": "plain",
    "space": "my env",
    "and": "a&b & echo canary",
    "signs": "it's (x86) ~ e=q, u+x @ #$ `b` [c] {d}",
    "letters": "漢字 é",
    "emoji": "\N{GRINNING FACE} e&é",
    "dash": "-n ~x $HOME $(echo canary)",
    "holder": "LONGEST WHERE IDENT NAME SHOWN LABEL",
}
# Folder -> the checklist lines on special characters that are tested with it.
LINES = {
    "plain": (21, 22, 23, 25, 32),
    "space": (3,),
    "and": (9,),
    "signs": (4, 7, 10, 43),
    "letters": (14,),
    "emoji": (14,),
    "dash": (6, 8, 15),
    "holder": (19,),
}


@dataclass
class Session:
    """A cmd session: its input lines, and its recorded results."""

    folder: Path
    lines: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    stdout: str = ""
    stderr: str = ""

    def env(self, key: str, folder: str, name: str = "") -> Path:
        """Create an env and store its path in `%KEY%`."""
        prefix = self.folder / folder
        (prefix / ".rocenv").mkdir(parents=True)
        (prefix / ".rocenv" / "record.json").touch()
        # Write the Windows scripts, with the env's Windows path.
        write_activation(WindowsPath(prefix), name or folder, CHANGES, WATCHED, "windows")  # type: ignore[arg-type]
        self.variables[key] = windows(prefix)
        return prefix

    def run(self) -> None:
        """Run the lines as a batch file."""
        script = self.folder / "session.bat"
        script.write_bytes("\r\n".join(["@echo off", *self.lines, ""]).encode("ascii"))
        done = subprocess.run(
            [WINE, "cmd", "/c", windows(script)],
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
        """Add lines; `dump NAME` and `status NAME` record the environment and the errorlevel."""
        for line in textwrap.dedent(text).strip().splitlines():
            word, _, name = line.strip().partition(" ")
            if word == "dump":
                self.lines.append(f'"{windows(self.folder)}\\dump.exe" "{windows(self.folder)}\\dump.{name}"')
            elif word == "status":
                self.lines.append(f"echo {name} %errorlevel%")
            else:
                self.lines.append(line)

    def dump(self, name: str) -> dict[str, str]:
        """Return a recorded environment without rocenv's own variables."""
        return {name: value for name, value in self.all(name).items() if not name.startswith("_ROCENV")}

    def all(self, name: str) -> dict[str, str]:
        """Return a recorded environment without cmd's hidden variables."""
        text = (self.folder / f"dump.{name}").read_bytes().decode("utf-16-le")
        pairs = (item.partition("=") for item in text.split("\0") if item and not item.startswith("="))
        return {key.upper(): value for key, _, value in pairs}

    def expected(self, key: str, before: Mapping[str, str]) -> dict[str, str]:
        after = apply(expand(CHANGES, self.variables[key]), before, "windows")
        return {name: value for name, value in after.items() if name != "PROMPT"}


class WindowsPath:
    """A Linux folder whose string form is its Windows path."""

    def __init__(self, path: Path) -> None:
        self.joinpath = path.joinpath
        self.path = path

    def __str__(self) -> str:
        return windows(self.path)


def windows(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Wine prefix: the one in WINEPREFIX, or a new one for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        if "WINEPREFIX" not in os.environ:
            patch.setenv("WINEPREFIX", str(tmp_path_factory.mktemp("wine")))
            subprocess.run(
                [WINE, "wineboot", "-i"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=True,
                timeout=300,
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
set "HIP_PATH=%plain%\rocm\5.7\"
dump equal.before
call "%plain%\activate.bat"
dump equal.active
call deactivate
dump equal.after
set "HIP_PATH="

set "PATH="
set "LISTED=;;"
dump bare.before
call "%plain%\activate.bat"
dump bare.active
call deactivate
dump bare.after
set "PATH=%KEPT%"
set "LISTED="

cd "%x86%"
dump x86.before
if 1==1 (
    call "%signs%\activate.bat"
    call deactivate
)
call "signs\activate.bat"
call "%plain%\activate.bat"
set "PATH=C:\first;%PATH%"
call "%plain%\activate.bat"
dump x86.again
call deactivate
call deactivate
dump x86.after
cd "%here%"
set "PATH=%KEPT%"

set "SHOWN=%PROMPT%"
set "PROMPT="
dump venv.before
call "%plain%\activate.bat"
call "%here%\venv.bat"
call "%here%\unvenv.bat"
dump venv.inside
call deactivate
dump venv.after
call "%here%\venv.bat"
call "%plain%\activate.bat"
call deactivate
call "%here%\unvenv.bat"
dump venv.around
call "%here%\venv.bat"
call "%plain%\activate.bat"
call "%here%\unvenv.bat"
call "%plain%\bin\deactivate.bat"
dump venv.crossed
call "%plain%\activate.bat"
call "%here%\venv.bat"
call "%plain%\bin\deactivate.bat"
call "%here%\unvenv.bat"
dump venv.crossed2
set "PROMPT=%SHOWN%"
set "SHOWN="
set "PATH=%KEPT%"

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
call "%and%\activate.bat"
dump prompt.and
call deactivate
set "ROCENV_HOME=%home%"
set "RECORD=%out%"
dump hook.before
call "%hook%" activate plain
status hook.activate
dump hook.active
call "%hook%" deactivate
status hook.deactivate
dump hook.after
call "%hook%" activate "my env"
dump hook.quoted
call "%hook%" deactivate
call "%hook%" deactivate
call "%hook%" activate no-such
call "%hook%" activate *
call "%hook%" activate ..
call "%hook%" activate "."
call "%hook%" activate ..\envs\plain
call "%hook%" activate "a&b & echo canary"
dump hook.hostile
call "%hook%" deactivate
call "%hook%" activate x"&echo canary&"
call "%hook%" activate "x & echo canary"
call "%hook%" activate "(x) | echo canary > %here%\canary"
call "%hook%" activate plain again
call "%hook%" run "a b" -- "c&d" 'e' (f) =
call "%macro%"
cmd /q /c "%here%\hook.cmd" list -x y
status hook.status
set "SystemRoot=%fake%"
call "%hook%"
set "SystemRoot=%windir%"
dump hook.loaded
echo reached
"""
VENV = {
    "venv.bat": r"""
@if not defined PROMPT set PROMPT=$P$G
@set _OLD_VIRTUAL_PROMPT=%PROMPT%
@set PROMPT=(venv) %PROMPT%
@set _OLD_VIRTUAL_PATH=%PATH%
@set PATH=C:\venv\Scripts;%PATH%
@set VIRTUAL_ENV=C:\venv
""",
    "unvenv.bat": r"""
@set "PROMPT=%_OLD_VIRTUAL_PROMPT%"
@set _OLD_VIRTUAL_PROMPT=
@set "PATH=%_OLD_VIRTUAL_PATH%"
@set _OLD_VIRTUAL_PATH=
@set VIRTUAL_ENV=
""",
}


def make_hook(session: Session) -> None:
    """Save the hook as users do, with test folders and a fake rocenv that records its arguments."""
    folder = session.folder
    place = folder / "ho ok $x & (y)"
    place.mkdir()
    program = place / "rocenv.exe"
    shutil.copy(folder / "record.exe", program)
    hook = place / "rocenv-hook.cmd"
    found = Place(program=windows(program), envs=windows(folder / "nowhere" / "envs"))
    hook.write_bytes(HOOKS["cmd"].render(found).encode("ascii"))
    shutil.copy(hook, folder / "hook.cmd")
    (folder / "fake" / "System32").mkdir(parents=True)
    shutil.copy(folder / "record.exe", folder / "fake" / "System32" / "doskey.exe")
    (folder / "home").mkdir()
    (folder / "home" / "envs").symlink_to(folder)
    for other in (folder, folder / "home"):  # a hook that accepted `.` and `..` as env names would run these
        (other / "activate.bat").write_bytes(b'@echo x >"%here%\\canary"\r\n')
    (folder / "Program Files (x86)").mkdir()
    (folder / "Program Files (x86)" / "signs").symlink_to(folder / FOLDERS["signs"])
    session.variables |= {
        "here": windows(folder),
        "hook": windows(hook),
        "macro": f"{windows(place)}\\.\\{hook.name}",
        "home": windows(folder / "home"),
        "fake": windows(folder / "fake"),
        "x86": windows(folder / "Program Files (x86)"),
        "out": windows(folder / "calls"),
    }


@pytest.fixture(scope="module")
def session(wine: None, tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("cmd")
    session = Session(folder)
    for name, code in (("dump", DUMP), ("record", RECORD)):
        source = folder / f"{name}.c"
        source.write_text(code)
        compiler = [
            "x86_64-w64-mingw32-gcc",
            "-municode",
            "-O1",
            "-o",
            str(folder / f"{name}.exe"),
            str(source),
        ]
        subprocess.run(compiler, check=True, timeout=120)
    for name, text in VENV.items():
        (folder / name).write_text(text.replace("\n", "\r\n"), newline="")
    make_hook(session)
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


@line(8, 9)
def test_the_session_completes_and_runs_no_name_as_code(session: Session) -> None:
    assert session.stdout.endswith("reached\n"), session.stdout + session.stderr
    assert "canary" not in session.stdout
    assert [line for line in session.stdout.splitlines() if len(line.split()) != 2] == ["reached"]


@line(18)
@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("key", [pytest.param(key, marks=line(*LINES[key])) for key in FOLDERS])
def test_activation_matches_apply_and_deactivation_restores_the_environment(
    session: Session, key: str, kind: str
) -> None:
    tag = f"{kind}.{key}"
    before = session.dump(f"{tag}.before")
    active = without_prompt(session.dump(f"{tag}.active"))
    assert active == session.expected(key, before)
    assert without_prompt(session.dump(f"{tag}.twice")) == active
    assert session.all(f"{tag}.after") == before
    assert statuses(session)[f"{tag}.activate"] == "0"
    assert statuses(session)[f"{tag}.deactivate"] == "0"
    front = session.variables[key] + "\\bin"
    assert [entry == front for entry in active["PATH"].split(";")].index(True) == 0
    assert active["PATH"].split(";").count(front) == 1


@line(30)
def test_deactivating_the_second_env_returns_to_the_first(session: Session) -> None:
    first, second = session.dump("nest.first"), session.dump("nest.second")
    assert without_prompt(second) == session.expected("letters", first)
    assert session.all("nest.back") == session.all("nest.first")
    assert without_prompt(session.dump("nest.again")) == without_prompt(first)
    assert session.all("nest.after") == session.all("start")


@line(2)
def test_deactivating_without_an_active_env_is_reported(session: Session) -> None:
    assert statuses(session)["nothing-active"] == "1"
    assert "no env is active in this window" in session.stderr
    # With the hook, `rocenv deactivate` itself reports that no env is active.
    assert calls(session)[0] == "deactivate"


@line(27, 29)
def test_changes_made_while_an_env_is_active_are_kept_and_reported(session: Session) -> None:
    start = session.dump("start")
    expected = {**start, "HIP_PATH": "mine", "ROCM_PATH": "C:\\new"}
    expected["PATH"] = f"C:\\in front;{start['PATH']};C:\\behind"
    assert session.all("edited") == expected
    assert "so not restored: HIP_PATH ROCM_PATH\n" in session.stderr


@line(21)
def test_an_existing_entry_moves_to_the_front_and_stays_after_deactivation(session: Session) -> None:
    before = session.dump("there.before")
    assert without_prompt(session.dump("there.active")) == session.expected("signs", before)
    left = session.dump("there.after")["PATH"].split(";")
    prefix = session.variables["signs"]
    assert left[0] == "C:\\first"
    assert {f"{prefix}\\bin", f"{prefix}\\rocm\\5.7\\bin"} < set(left)
    assert f"{prefix}\\venv\\Scripts" not in left


@line(25, 47)
def test_replaced_values_are_reported_and_restored(session: Session) -> None:
    before = session.dump("report.before")
    assert without_prompt(session.dump("report.active")) == session.expected("plain", before)
    assert session.all("report.after") == before
    assert "replaced until you deactivate the env: HIP_PATH\n" in session.stderr
    assert "still in effect: LISTED HIP_VISIBLE_DEVICES\n" in session.stderr


@line(26)
def test_a_value_that_equals_the_envs_is_restored(session: Session) -> None:
    before = session.dump("equal.before")
    assert without_prompt(session.dump("equal.active")) == session.expected("plain", before)
    assert session.all("equal.after") == before
    assert before["HIP_PATH"] == session.dump("equal.active")["HIP_PATH"]


@line(28)
def test_activation_adds_no_empty_entries_to_unset_or_empty_lists(session: Session) -> None:
    before = session.dump("bare.before")
    active = session.dump("bare.active")
    assert "PATH" not in before
    assert without_prompt(active) == session.expected("plain", before)
    assert "" not in active["PATH"].split(";") + active["LISTED"].split(";")
    assert session.all("bare.after") == before


@line(40, 43)
def test_activation_works_in_a_folder_with_parentheses_and_in_a_block(session: Session) -> None:
    before = session.dump("x86.before")
    again = session.dump("x86.again")
    assert again["PATH"].split(";")[:2] == [
        session.variables["plain"] + "\\" + sub for sub in ("bin", "venv\\Scripts")
    ]
    assert session.all("x86.after") == {**before, "PATH": f"C:\\first;{before['PATH']}"}


@line(31)
@pytest.mark.parametrize("scene", ["after", "around", "crossed", "crossed2"])
def test_a_venv_inside_or_around_the_env_leaves_nothing_behind(session: Session, scene: str) -> None:
    assert session.dump("venv.inside")["PATH"].startswith(session.variables["plain"])
    after = session.all(f"venv.{scene}")
    # The venv's script sets the prompt even if it was unset.
    assert after.pop("PROMPT", "$P$G") == "$P$G"
    assert after == without_prompt(session.dump("venv.before"))


@line(12)
def test_activation_works_with_delayed_expansion(session: Session) -> None:
    before = session.dump("delayed.before")
    assert without_prompt(session.dump("delayed.active")) == session.expected("and", before)
    assert session.all("delayed.after") == before
    assert statuses(session)["delayed"] == "0"


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ("marked", "would drop the exclamation mark in: PATH\n"),
        ("quoted", "characters in: PATH\n"),
        pytest.param("gone", "`rocenv list`", marks=line(39)),
    ],
)
def test_an_impossible_activation_is_an_error_and_changes_nothing(
    session: Session, scene: str, message: str
) -> None:
    assert statuses(session)[scene] == "1"
    assert message in session.stderr
    assert session.all(f"{scene}.after") == session.all(f"{scene}.before")


@line(39)
def test_activating_a_moved_env_is_an_error(session: Session) -> None:
    assert statuses(session)["moved"] == statuses(session)["renamed"] == "1"


@line(8, 13, 14, 20, 35, 43)
def test_the_prompt_shows_the_name_unless_disabled(session: Session) -> None:
    start = session.dump("start")
    assert session.dump("no-prompt")["PROMPT"] == start.get("PROMPT", session.dump("no-prompt")["PROMPT"])
    assert session.dump("prompt.letters")["PROMPT"] == "(漢字 é) $P$G"
    assert session.dump("prompt.mine")["PROMPT"] == "mine"
    assert session.dump("prompt.plain")["PROMPT"] == "(plain) $P$G"
    assert session.dump("prompt.and")["PROMPT"] == "(a?b ? echo canary) $P$G"
    assert session.all("end") == {key: value for key, value in start.items() if key != "PROMPT"}


@line(38, 41)
def test_a_child_cmd_can_deactivate_the_env(session: Session) -> None:
    assert without_prompt(session.all("child")) == without_prompt(session.dump("start"))
    # The env is still active in the parent.
    assert session.dump("prompt.plain")["PATH"].startswith(session.variables["plain"])


@line(41)
def test_activation_writes_no_files(session: Session) -> None:
    files = {path.name for path in (session.folder / "plain").rglob("*") if path.is_file()}
    assert files == {
        "record.json",
        "activate.bat",
        "deactivate.bat",
        "Activate.ps1",
        "activate",
        "activate.sh",
    }


@line(5, 9, 12, 13, 16, 17)
@pytest.mark.parametrize("char", [*'"%!^;', "\n", "\x1a", "\x7f"])
def test_a_path_that_batch_files_cannot_contain_is_rejected(char: str, tmp_path: Path) -> None:
    with pytest.raises(PrefixError) as refused:
        require_listable(f"C:\\a{char}b", "windows")
    assert "\n" not in str(refused.value)
    with pytest.raises(PrefixError):
        write_activation(WindowsPath(tmp_path / char), "sd", CHANGES, (), "windows")  # type: ignore[arg-type]
    assert list(tmp_path.rglob("*.bat")) == []


@line(17)
@pytest.mark.parametrize("value", ['"', "%", "!", "^", "漢", "\n"])
def test_a_value_that_batch_files_cannot_contain_is_rejected(value: str, tmp_path: Path) -> None:
    changes = [EnvChange(action="set", name="A", value=f"a{value}b")]
    with pytest.raises(DataError):
        write_activation(WindowsPath(tmp_path), "sd", changes, (), "windows")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@line(43, 45)
def test_scripts_start_no_programs_and_keep_the_code_page() -> None:
    """The scripts use only cmd's built-in commands."""
    script = activation_script("sd", "C:\\sd", CHANGES, WATCHED, "cmd", "windows")
    words = {text.lstrip("@").split(" ")[0] for text in script.splitlines() if not text.startswith(":")}
    own = {"rem", "set", "if", "goto", "call", "exit", "for", ">&2", "setlocal", "endlocal", ""}
    assert words <= own, words
    called = {
        text.split("call ")[1].split()[0]
        for text in script.splitlines()
        if "call " in text and "rem" not in text
    }
    assert {name for name in called if name[0] != ":"} <= {'"%_ROCENV_TOP%"'}


# ---------------------------------------------------------------- the hook


def calls(session: Session) -> list[str]:
    """Return the arguments of each call to the program."""
    return [text.partition('rocenv.exe"')[2].strip() for text in records(session) if "doskey" not in text]


def records(session: Session) -> list[str]:
    return (session.folder / "calls").read_bytes().decode("utf-16-le").splitlines()


def test_the_hook_calls_the_envs_scripts(session: Session) -> None:
    before = session.dump("hook.before")
    for scene, key in (("active", "plain"), ("quoted", "space"), ("hostile", "and")):
        assert without_prompt(session.dump(f"hook.{scene}")) == session.expected(key, before), scene
    assert session.all("hook.after") == before
    assert statuses(session)["hook.activate"] == statuses(session)["hook.deactivate"] == "0"


@line(9)
def test_the_hook_passes_other_commands_to_the_program(session: Session) -> None:
    assert calls(session) == [
        "deactivate",
        "activate no-such",
        "activate *",
        "activate ..",
        'activate "."',
        r"activate ..\envs\plain",
        'activate x"&echo canary&"',
        'activate "x & echo canary"',
        f'activate "(x) | echo canary > {session.variables["here"]}\\canary"',
        "activate plain again",
        'run "a b" -- "c&d" \'e\' (f) =',
        "",
        "list -x y",
    ]
    assert statuses(session)["hook.status"] == "7"
    assert not (session.folder / "canary").exists()


@line(46)
def test_loading_the_hook_defines_a_macro_and_prints_nothing(session: Session) -> None:
    (loaded,) = [text for text in records(session) if "doskey" in text]
    macro = session.variables["macro"].replace("$", "$$")
    assert loaded.rstrip().endswith(f'doskey.exe" rocenv=call "{macro}" $*')
    assert [name for name in session.all("hook.loaded") if name.startswith("_ROCENV")] == []
