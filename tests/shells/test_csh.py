"""Tests for tcsh only: shell variables that hide environment variables, reserved names, loops, the hook."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.env import Place
from rocenv.activate.scripts import activation_script
from rocenv.activate.shells import HOOKS
from rocenv.core.errors import DataError
from rocenv.core.model import EnvChange
from tests.shells.driver import CHANGES, Work
from tests.shells.drivers import DRIVERS
from tests.shells.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

OWN = ("set LD_LIBRARY_PATH=(a 'b c') HIP_PATH=1 EMPTY=() ROCM_PATH HIP_PATH_57='x y'", "set HIP_PATH=''")


@pytest.fixture
def tcsh(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS["tcsh"], folder)


def test_shell_variables_with_the_same_names_are_ignored(tcsh: Work) -> None:
    prefix = tcsh.env()
    own = "set | /bin/grep -E '^(LD_LIBRARY_PATH|HIP_|EMPTY|ROCM_)'"
    for code in OWN:
        outcome = tcsh.run(
            code, tcsh.dump("before"), own, tcsh.enter(prefix), tcsh.dump("active"), own, "deactivate",
            tcsh.dump("after"), own,
        )  # fmt: skip
        assert outcome.stderr == ""
        assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
        assert outcome.dumps["after"] == outcome.dumps["before"]
        lines = outcome.stdout.splitlines()
        assert lines[: len(lines) // 3] * 3 == lines


def test_values_with_any_bytes_and_length_are_preserved(tcsh: Work) -> None:
    every = os.fsdecode(bytes(range(1, 256)))
    values = [every, every[::-1], "x" * 100_000, "\\\n", "\\\\\n\n", "1", "u", "(", ")", "$#argv", "\udcff"]
    lists = ["%s %p", "%n", "a\n\nb", "\n", "\\\n", "*", "?", "1"]
    changes = [EnvChange(action="set", name=f"T_{n}", value=value) for n, value in enumerate(values)]
    changes += [EnvChange(action="prepend", name="T_LIST", value=value) for value in lists]
    prefix = tcsh.env(changes=changes)
    before = {"T_LIST": ":%s %p:1::\n:q:\\\n:*:", "T_0": "\n", "T_3": every}
    for locale in ("C", "C.UTF-8"):
        outcome = tcsh.round_trip(prefix, environ={**tcsh.environ, **before, "LC_ALL": locale})
        assert outcome.dumps["active"] == apply(expand(changes, str(prefix)), outcome.dumps["before"])


def test_variable_names_reserved_by_tcsh_are_rejected() -> None:
    for name in ("path", "home", "status", "argv"):
        for action in ("set", "prepend", "unset"):
            change = EnvChange(action=action, name=name, value="" if action == "unset" else "/x")
            with pytest.raises(DataError, match="tcsh reserves"):
                activation_script("demo", "/p", [change], shell="tcsh")


def test_a_loop_that_sources_the_script_continues(tcsh: Work) -> None:
    enter = tcsh.enter(tcsh.env())
    changed = "setenv LD_LIBRARY_PATH /mine:$LD_LIBRARY_PATH"
    loop = ["foreach each (1 2)", enter, enter, changed, "deactivate", "echo $each $?HIP_PATH", "end"]
    as_text = "set code=" + tcsh.driver.quote("\n".join(loop))
    outcome = tcsh.run(*loop, as_text, "eval $code:q", "echo end")
    assert outcome.stdout.splitlines() == ["1 0", "2 0", "1 0", "2 0", "end"], outcome


def test_messages_go_to_stderr_if_stdout_is_redirected(tcsh: Work) -> None:
    more = "/bin/sh -c 'echo more >&2'"
    code, said = tcsh.folder / "code.csh", tcsh.folder / "said"
    code.write_text("\n".join([tcsh.enter(tcsh.env()), more, "setenv HIP_PATH x", "deactivate", more, ""]))
    with said.open("w") as file:
        environ = {**tcsh.environ, "ROCM_PATH": "/opt"}
        subprocess.run(tcsh.driver.argv(code), stderr=file, env=environ, check=True, timeout=30)
    assert said.read_text().splitlines() == [
        "rocenv: replaced until you deactivate the env: ROCM_PATH",
        "more",
        "rocenv: changed while the env was active, so not restored: HIP_PATH",
        "more",
    ]


def test_a_venv_between_two_envs_can_be_deactivated(tcsh: Work) -> None:
    venv = tcsh.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=60)
    outer, inner = tcsh.env("outer"), tcsh.env("inner")
    outcome = tcsh.run(
        "set prompt='#> '", tcsh.enter(outer), f"source {venv}/bin/activate.csh", tcsh.dump("venv"),
        tcsh.enter(inner), "rocenv_deactivate", tcsh.dump("again"), "deactivate",
        "echo $?VIRTUAL_ENV $?ROCM_PATH", "rocenv_deactivate", "echo $?ROCM_PATH",
        "set | /bin/grep -ic _rocenv_",
    )  # fmt: skip
    assert outcome.dumps["again"] == outcome.dumps["venv"]
    assert outcome.stdout.split() == ["0", "1", "0", "0"], outcome


def test_a_user_alias_is_kept(tcsh: Work) -> None:
    enter = tcsh.enter(tcsh.env())
    outcome = tcsh.run("alias deactivate 'echo mine; echo too'", enter, "rocenv_deactivate", "deactivate")
    assert outcome.stdout == "mine\ntoo\n"
    assert outcome.stderr.endswith("use rocenv_deactivate to deactivate this env\n")


def test_an_env_with_a_read_only_prompt_can_be_deactivated(tcsh: Work) -> None:
    enter = tcsh.enter(tcsh.env())
    shown = tcsh.driver.talk(
        tcsh, ["set -r prompt='#> '", enter, "echo on $?HIP_PATH", "deactivate", "echo off $?HIP_PATH"]
    )
    assert "read-only" in shown[1]
    assert "on 1" in shown[2] and "off 0" in shown[4]


def test_the_prompt_label_is_removed_wherever_it_is(tcsh: Work) -> None:
    code = [
        "set prompt='> '",
        tcsh.enter(tcsh.env()),
        'set prompt="x $prompt"',
        "echo $prompt:q",
        "deactivate",
    ]
    outcome = tcsh.run(*code, "echo $prompt:q")
    assert outcome.stdout == "x (demo) > \nx > \n", outcome


def test_an_entry_from_before_activation_survives_an_edit_of_the_list(tcsh: Work) -> None:
    prefix = tcsh.env()
    outcome = tcsh.run(
        tcsh.enter(prefix), tcsh.driver.surround("LD_LIBRARY_PATH", "/mine", "/yours"), "deactivate",
        tcsh.dump("after"), environ={**tcsh.environ, "LD_LIBRARY_PATH": f"/a:{prefix}/lib"},
    )  # fmt: skip
    assert sorted(outcome.dumps["after"]["LD_LIBRARY_PATH"].split(":")) == sorted(
        ["/mine", "/a", f"{prefix}/lib", "/yours"]
    )


# ---------------------------------------------------------------- the hook


def _hook(work: Work, folder: Path) -> str:
    """Load the hook with a test program that logs its arguments and responds like rocenv."""
    folder.mkdir()
    program, log = folder / "rocenv", folder / "log"
    program.write_text(f"""#!/bin/sh
case $1 in
  complete) shift; printf '<%s>' "$@" >>"{log}"; printf 'activate\\thelp\\nshow\\n' ;;
  trust) /usr/bin/head -n 1 "$3/.rocenv" ;;
  *) printf '<%s>' "$@"; exit 7 ;;
esac
""")
    program.chmod(0o755)
    file = work.folder / "hook.csh"
    file.write_text(HOOKS["tcsh"].render(Place(program=str(program), envs=str(work.home / "envs"))))
    return work.driver.load_hook(file)


def test_arguments_reach_the_program_unchanged(tcsh: Work) -> None:
    hook = _hook(tcsh, tcsh.folder / "it's a!b;c")
    outcome = tcsh.run(
        hook, "rocenv run 'a b' '' '*' '$HOME' \"x'y\" 'new\\\nline' '\\!x' >out", "echo $status", "cat out"
    )
    assert outcome.stdout == "7\n<run><a b><><*><$HOME><x'y><new\nline><!x>", outcome


def test_the_hook_looks_up_only_plain_env_names(tcsh: Work) -> None:
    prefix = tcsh.env()
    hook = _hook(tcsh, tcsh.folder / "bin")
    script = tcsh.script(prefix)
    for folder in (prefix.parent, prefix.parent.parent):
        (folder / script.name).write_text("echo wrong\n")
    words = (".", "..", "demo/", "./demo", "../envs/demo", "-x", "''")
    outcome = tcsh.run(hook, *(f"rocenv activate {word}; echo $?HIP_PATH" for word in words))
    told = "".join(f"<activate><{word.strip(chr(39))}>0\n" for word in words)
    assert outcome.stdout == told, outcome


def test_leaving_a_folder_keeps_an_env_that_the_user_activated(tcsh: Work) -> None:
    tcsh.env()
    hook, below = _hook(tcsh, tcsh.folder / "bin"), tcsh.folder / "t"
    below.mkdir()
    (below / ".rocenv").write_text("demo\n")
    look = "eval $rocenv_hook_test:q; echo $?HIP_PATH"
    for leave in ("deactivate", "rocenv deactivate"):
        outcome = tcsh.run(
            hook, tcsh.driver.change_folder(below), look, leave, "rocenv activate demo", "cd ..", look
        )
        assert outcome.stdout.split() == ["1", "1"], outcome


def test_the_hook_detects_folders_with_any_name(tcsh: Work) -> None:
    tcsh.env()
    hook, code = _hook(tcsh, tcsh.folder / "bin"), []
    for name in (
        "a b",
        "it's",
        '"',
        "$HOME",
        "`touch canary`",
        "a!b",
        "[x]*",
        "{a,b}",
        "a\\b",
        "~",
        "-n",
        "n\n\nl",
    ):
        below = tcsh.folder / "t" / name / "below"
        below.mkdir(parents=True)
        below.with_name(".rocenv").write_text("demo\n")
        code += [tcsh.driver.change_folder(below), "eval $rocenv_hook_test:q", "echo $?HIP_PATH"]
        code += ["cd ../../..", "eval $rocenv_hook_test:q", "echo $?HIP_PATH"]
    outcome = tcsh.run(hook, *code)
    assert outcome.stdout.split() == ["1", "0"] * (len(code) // 6), outcome
    assert not list(tcsh.folder.rglob("canary"))


def test_the_users_precmd_alias_still_runs(tcsh: Work) -> None:
    hook = _hook(tcsh, tcsh.folder / "bin")
    first = f"alias precmd 'echo mine $status'\n{hook}\n{hook}"
    shown = tcsh.driver.talk(tcsh, ["(exit 3)", "echo so $status"], first=first)
    assert shown[0].count("mine 3") == 1
    assert "so 3" in shown[1]


def test_the_tab_key_completes_words(tcsh: Work) -> None:
    hook = _hook(tcsh, tcsh.folder / "bin")
    terminal = Terminal(tcsh.driver.interactive(tcsh), tcsh.folder, {**tcsh.environ, "TERM": "vt100"})
    with terminal:
        terminal.settle()
        for line in tcsh.driver.start_up(hook):
            terminal.type(line)
        assert "<show><a b><activate>" in terminal.type("rocenv show 'a b' act\t")
    assert (tcsh.folder / "bin" / "log").read_text().endswith("<act>")
