"""Tests for xonsh only: typed values, prompts with fields, and aliases that are functions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS
from rocenv.core.model import EnvChange
from tests.shells.driver import CHANGES, Work
from tests.shells.drivers.xonsh import PATIENT, Xonsh


@pytest.fixture
def xonsh(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(Xonsh(), folder)


def test_non_string_list_entries_are_restored(xonsh: Work) -> None:
    prefix = xonsh.env()
    outcome = xonsh.run(
        "import pathlib",
        "$PATH = ['~/bin', '$HOME/x', pathlib.Path('/opt'), '/usr/bin']",
        "$LD_LIBRARY_PATH = before = ['~/lib']",
        "path = $PATH",
        xonsh.enter(prefix),
        "$PATH.insert(1, '/local')",
        "print($PATH[:2])",
        "del $PATH[1]",
        "deactivate",
        "print($PATH is path, $PATH)",
        "print($LD_LIBRARY_PATH)",
    )
    shown = outcome.stdout.splitlines()
    assert shown[0] == f"['{prefix}/bin', '/local']"
    assert shown[1] == "True ['~/bin', '$HOME/x', PosixPath('/opt'), '/usr/bin']"
    assert shown[2] == "['~/lib']"


@pytest.mark.parametrize("mode", ["", "$EXPAND_ENV_VARS = False"])
def test_lists_can_be_edited_even_if_xonsh_would_expand_the_prefix(xonsh: Work, mode: str) -> None:
    prefix = xonsh.env(folder="a=$HOME")
    outcome = xonsh.run(
        mode,
        xonsh.enter(prefix),
        "$PATH.append('/after')",
        "$PATH = ['/front'] + $PATH",
        xonsh.dump("edited"),
        "deactivate",
        xonsh.dump("after"),
    )
    base = xonsh.environ["PATH"]
    assert outcome.dumps["edited"]["PATH"] == f"/front:{prefix}/bin:{base}:/after"
    assert outcome.dumps["after"]["PATH"] == f"/front:{base}:/after"


def test_a_variable_reserved_by_xonsh_is_rejected_before_anything_changes(xonsh: Work) -> None:
    prefix = xonsh.env(changes=[*CHANGES, EnvChange(action="set", name="SHLVL", value="many")])
    outcome = xonsh.run(
        xonsh.dump("before"),
        xonsh.enter(prefix),
        "print(__xonsh__.history.last_cmd_rtn)",
        xonsh.dump("after"),
        "print('deactivate' in aliases)",
    )
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert outcome.stdout.split() == ["1", "False"]
    assert "to the env's value in xonsh" in outcome.stderr


def test_invalid_utf_8_is_preserved(xonsh: Work) -> None:
    changes = [EnvChange(action="set", name="T_PATH", value="a\udcff:\udc80"), *CHANGES]
    prefix = xonsh.env(changes=changes, folder="x\udcfe")
    outcome = xonsh.round_trip(prefix, environ={**xonsh.environ, "LD_LIBRARY_PATH": "/\udcff"})
    assert outcome.dumps["active"]["T_PATH"] == "a\udcff:\udc80"
    assert outcome.dumps["active"]["LD_LIBRARY_PATH"] == f"{prefix}/lib64:{prefix}/lib:/\udcff"


def test_another_tools_deactivate_is_kept(xonsh: Work) -> None:
    first, second = xonsh.env("first"), xonsh.env("second")
    show = "/bin/echo @(${...}.get('HIP_PATH', 'none'))"
    outcome = xonsh.run(
        "aliases['deactivate'] = ['/bin/echo', 'theirs']",
        xonsh.dump("before"),
        xonsh.enter(first),
        "deactivate",
        xonsh.enter(second),
        "aliases['deactivate'] = ['/bin/echo', 'others']",
        "rocenv_deactivate",
        show,
        "rocenv_deactivate",
        show,
        "deactivate",
        xonsh.dump("after"),
    )
    assert outcome.stdout.splitlines() == ["theirs", f"{first}/rocm", "none", "others"]
    assert outcome.stderr.count("use `rocenv_deactivate` to deactivate this env") == 2
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_a_deactivate_of_another_tool_that_replaced_rocenvs_is_kept(xonsh: Work) -> None:
    theirs = "aliases['deactivate'] = ['/bin/echo', 'theirs']"
    outcome = xonsh.run(xonsh.enter(xonsh.env()), theirs, "rocenv_deactivate", "deactivate")
    assert outcome.stdout == "theirs\n"


def test_leaving_a_folder_keeps_an_env_that_was_active_before(xonsh: Work) -> None:
    prefix, _ = xonsh.env(), xonsh.env("other")
    there = xonsh.folder / "there"
    there.mkdir()
    (there / ".rocenv").write_text("demo\n")
    program = Path(sys.executable).with_name("rocenv")
    subprocess.run([program, "trust", there], env={**os.environ, **xonsh.environ}, check=True, timeout=60)
    show = "/bin/echo hip=@($HIP_PATH)"
    lines = ["rocenv activate demo", "rocenv activate other", f"cd {there}", show, "cd ..", show]
    shown = xonsh.driver.talk(xonsh, lines, first=xonsh.hook())
    assert f"hip={prefix}/rocm" in shown[3]
    assert f"hip={prefix}/rocm" in shown[5]


@pytest.mark.parametrize("damage", [b"if (\n", b"\xff", b"\0"])
def test_a_damaged_script_causes_a_one_line_error(xonsh: Work, damage: bytes) -> None:
    script = xonsh.script(xonsh.env())
    script.write_bytes(damage)
    outcome = xonsh.run(xonsh.hook(), "rocenv activate demo", xonsh.driver.say_status())
    assert outcome.stdout == "status 1\n"
    assert outcome.stderr.startswith(f"rocenv: {script}: ") and outcome.stderr.count("\n") == 1


def test_the_hook_reports_a_missing_program_once(xonsh: Work) -> None:
    there = xonsh.folder / "there"
    there.mkdir()
    (there / ".rocenv").write_text("demo\n")
    hook = xonsh.folder / "hook"
    hook.write_text(HOOKS["xonsh"].render(Place(program="/no/rocenv", envs="/no")))
    shown = xonsh.driver.talk(xonsh, [f"cd {there}", "1"], first=xonsh.driver.load_hook(hook))
    assert ["rocenv: cannot run /no/rocenv" in answer for answer in shown] == [True, False]


SHOW = "$PROMPT_FIELDS.reset(); print(PromptFormatter()($PROMPT))"


@pytest.mark.parametrize("prompt", ["'{user}> '", "lambda: '{user}> '"])
def test_the_users_prompt_is_marked_only_for_display(xonsh: Work, prompt: str) -> None:
    outcome = xonsh.run(
        "from xonsh.prompt.base import PromptFormatter",
        f"$PROMPT = prompt = {prompt}", "$PROMPT_FIELDS['user'] = 'me'", xonsh.dump("before"),
        xonsh.enter(xonsh.env("first")), xonsh.enter(xonsh.env("second")), xonsh.dump("active"), SHOW,
        "deactivate", SHOW, "deactivate", SHOW, "print($PROMPT is prompt)",
    )  # fmt: skip
    assert outcome.stdout.splitlines() == ["(second) (first) me> ", "(first) me> ", "me> ", "True"]
    if not prompt.startswith("lambda"):
        assert outcome.dumps["active"]["PROMPT"] == outcome.dumps["before"]["PROMPT"]


def test_the_default_prompt_of_xonsh_shows_the_env_once(xonsh: Work) -> None:
    changes = [*CHANGES, EnvChange(action="set", name="VIRTUAL_ENV", value="{prefix}")]
    first, second = xonsh.env("first", changes), xonsh.env("second", changes)
    show = SHOW.replace("$PROMPT)", "'{env_name}#')")
    outcome = xonsh.run(
        "from xonsh.prompt.base import PromptFormatter",
        show, xonsh.enter(first), show, xonsh.enter(second), show,
        "print('PROMPT' in ${...}.detype())", "deactivate", "deactivate", show,
    )  # fmt: skip
    assert outcome.stdout.splitlines() == ["#", "(first) #", "(second) (first) #", "False", "#"]


@pytest.fixture
def hooked(xonsh: Work) -> Work:
    """A shell whose hook calls a program that reports its arguments."""
    program = xonsh.folder / "program"
    program.write_text(
        "#!/bin/sh\ncase $1 in\nin) cat ;;\ncomplete) shift; printf 'a-b\\thelp\\n%s\\n' \"a $*\" ;;\n"
        '*) echo "out $*"; echo "err $*" >&2; exit 3 ;;\nesac\n'
    )
    program.chmod(0o755)
    code = HOOKS["xonsh"].render(Place(program=str(program), envs=str(xonsh.home / "envs")))
    (xonsh.folder / "hook").write_text(code)
    return xonsh


def load(work: Work) -> str:
    return work.driver.load_hook(work.folder / "hook")


def test_the_hooks_function_works_in_pipes_and_captured_output(hooked: Work) -> None:
    outcome = hooked.run(
        load(hooked),
        "rocenv 'a b' | /usr/bin/tr a-z A-Z",
        PATIENT + "captured = $(rocenv x)",
        "/bin/echo @(captured.strip() + '.')",
        "rocenv y > y",
        "/bin/cat y",
        "/bin/echo given | rocenv in",
        "rocenv z",
        hooked.driver.say_status(),
    )
    assert outcome.stdout.splitlines() == ["OUT A B", "out x.", "out y", "given", "out z", "status 3"]
    assert outcome.stderr.splitlines() == [f"err {words}" for words in ("a b", "x", "y", "z")]


def test_completions_come_from_the_program(hooked: Work) -> None:
    ask = (
        "print([str(c) for c in __import__('xonsh.completer').completer.Completer().complete("
        "'a', 'rocenv x a', 9, 10, {}, multiline_text='rocenv x a', cursor_index=10)[0]])"
    )
    outcome = hooked.run(load(hooked), ask)
    assert outcome.stdout.strip() == """["'a x a'", 'a-b']"""


def test_xonsh_waits_for_an_interrupted_program(hooked: Work) -> None:
    (hooked.folder / "program").write_text(
        "#!/bin/sh\ntrap 'sleep 0.5; echo caught' INT\ntest -t 1 && test -t 2 && echo ready\nkill -INT 0\n"
    )
    (shown,) = hooked.driver.talk(hooked, ["rocenv x"], first=load(hooked))
    assert shown.split()[-3:] == ["ready", "caught", "#>"]


@pytest.mark.parametrize("typed", ["'so", '"so', "so"])
def test_a_word_with_an_open_quote_is_completed_and_closed(xonsh: Work, typed: str) -> None:
    prefix = xonsh.env("some-env")
    lines = [f"rocenv activate {typed}\t", "/bin/echo hip=@($HIP_PATH)"]
    shown = xonsh.driver.talk(xonsh, lines, first=xonsh.hook())
    assert f"hip={prefix}/rocm" in shown[1], shown
