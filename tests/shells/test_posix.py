"""Tests for bash, zsh, ksh and dash only: PROMPT_COMMAND, variable attributes, and deleted folders."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.shells.driver import Outcome, Work
from tests.shells.drivers import DRIVERS

if TYPE_CHECKING:
    from pathlib import Path

line = pytest.mark.checklist
POSIX = ("bash", "zsh", "dash", "ksh")


@pytest.fixture(params=POSIX)
def posix(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return _work(request.param, tmp_path)


@pytest.fixture
def bash(tmp_path: Path) -> Work:
    return _work("bash", tmp_path)


def _work(name: str, tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS[name], folder)


@line(33)
@pytest.mark.parametrize(
    "before", ["PROMPT_COMMAND='echo S=$?;'", "PROMPT_COMMAND=('echo S=$?' 'echo T=$?')", "PROMPT_COMMAND="]
)
def test_the_users_prompt_command_is_kept_and_sees_the_exit_code(bash: Work, before: str) -> None:
    shown = bash.driver.talk(bash, ["(exit 7)", ":"], first=f"{before}\n{bash.hook()}\n{bash.hook()}")
    for word in ("S", "T"):
        assert shown[0].count(f"{word}=7") == before.count(f"{word}=$?"), shown[0]
    outcome = bash.run(before, bash.hook(), bash.hook(), 'printf "%s|" "${PROMPT_COMMAND[@]}"')
    assert outcome.stdout.count("_rocenv_look") == 1


def test_zshs_hook_list_contains_the_hook_once(tmp_path: Path) -> None:
    zsh = _work("zsh", tmp_path)
    outcome = zsh.run("precmd_functions=(mine)", zsh.hook(), zsh.hook(), "print -l $precmd_functions")
    assert sorted(outcome.stdout.split()) == ["_rocenv_look", "mine"]


@pytest.mark.quick
@pytest.mark.parametrize("code", ["set +a", "set -a", "export _ROCENV_ALL=x"])
def test_shell_options_are_restored(posix: Work, code: str) -> None:
    prefix = posix.env()
    show = 'echo "[$-]"'
    outcome = posix.run(code, show, posix.enter(prefix), show, posix.driver.leave(), show)
    assert len(set(outcome.stdout.split())) == 1, outcome.stdout
    (prefix / ".rocenv" / "record.json").unlink()
    outcome = posix.run(code, show, posix.enter(prefix), show)
    assert len(set(outcome.stdout.split())) == 1, outcome.stdout


FIXED = {"bash": ["readonly HIP_PATH=/x", "declare -i HIP_PATH=1", "declare -u HIP_PATH=x", "HIP_PATH=(a b)"]}
FIXED["zsh"] = ["readonly HIP_PATH=/x", "typeset -i HIP_PATH=1", "typeset -u HIP_PATH=x", "HIP_PATH=(a b)"]
FIXED["zsh"] += ["typeset -a HIP_PATH"]
FIXED["ksh"] = ["readonly HIP_PATH=/x", "typeset -i HIP_PATH=1", "typeset -u HIP_PATH=x"]


@pytest.mark.parametrize(("shell", "code"), [(name, code) for name in FIXED for code in FIXED[name]])
def test_variables_that_cannot_be_set_are_an_error_before_anything_changes(
    tmp_path: Path, shell: str, code: str
) -> None:
    work = _work(shell, tmp_path)
    outcome = work.run(
        code, work.dump("before"), work.enter(work.env()), work.driver.say_status(), work.dump("after"), "set"
    )
    assert "in this shell: HIP_PATH" in outcome.stderr
    assert_nothing_happened(outcome)


@pytest.mark.parametrize("code", ["readonly PATH", "readonly HIP_PATH", "HIP_PATH=x; readonly HIP_PATH"])
def test_activation_with_a_read_only_variable_fails_and_changes_nothing(posix: Work, code: str) -> None:
    """Some shells cannot detect the read-only variable in advance, so the script undoes its changes."""
    outcome = posix.run(
        code,
        posix.dump("before"),
        f"{posix.enter(posix.env())} || echo status 1",
        posix.dump("after"),
        "set",
    )
    assert outcome.stderr != ""
    assert_nothing_happened(outcome)


def assert_nothing_happened(outcome: Outcome) -> None:
    assert "status 1" in outcome.stdout
    assert outcome.dumps["after"] == outcome.dumps["before"]
    names = [text.split("=")[0] for text in outcome.stdout.splitlines() if "rocenv" in text.lower()]
    assert [name for name in names if name.lower().startswith("_rocenv")] == []


def test_a_shell_in_a_deleted_folder_continues(posix: Work) -> None:
    gone = posix.folder / "gone"
    code = [f"mkdir {gone}", f"cd {gone}", f"rmdir {gone}"]
    outcome = posix.run(posix.hook(), *code, "_rocenv_look", "PWD=foo", "_rocenv_look", "echo reached")
    assert outcome.stdout.split() == ["reached"]
    # A shell that starts in a deleted folder does not know its path.
    second = posix.folder / "second"
    second.write_text(f"{posix.hook()}\n_rocenv_look\necho again\n")
    started = posix.run(*code, f"exec {' '.join(posix.driver.argv(second))}")
    assert started.stdout == "again\n"


@pytest.mark.parametrize("alias", ["alias rocenv=/bin/false", "alias rocenv='/bin/echo -n'"])
def test_an_alias_named_rocenv_does_not_break_the_hook(posix: Work, alias: str) -> None:
    expand = "shopt -s expand_aliases" if posix.driver.name == "bash" else ":"
    outcome = posix.run(
        expand, alias, posix.hook(), "\\rocenv activate demo", posix.dump("active"), "echo reached"
    )
    assert outcome.stdout.split()[-1:] == ["reached"], outcome
    posix.env()
    outcome = posix.run(expand, alias, posix.hook(), "\\rocenv activate demo", posix.dump("active"))
    assert outcome.dumps["active"]["HIP_PATH"].endswith("/demo/rocm"), outcome


def test_a_cd_function_of_the_user_is_never_replaced(posix: Work) -> None:
    own = "cd() { echo mine; }"
    assert posix.run(own, posix.hook(), "cd /").stdout == "mine\n"
    if posix.driver.name not in ("bash", "zsh"):
        assert "_rocenv_look" in posix.run(posix.hook(), posix.hook(), "set -x; cd /").stderr


@line(31)
@pytest.mark.parametrize("second", ["first", "second"])
def test_a_venv_between_two_envs_can_be_deactivated(posix: Work, second: str) -> None:
    """The user activates A, then a venv, then A or B. The venv keeps its own `deactivate`."""
    venv = posix.folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    on = posix.driver.source(venv / "bin" / "activate")
    first, other = posix.env("first"), posix.env("second")
    enter = posix.enter(first if second == "first" else other)
    ours = posix.driver.call("rocenv", "deactivate")
    steps = [posix.hook(), posix.enter(first), on, enter, ours, "deactivate", ours]
    outcome = posix.run(posix.dump("before"), *steps, posix.dump("after"))
    after = {name: value for name, value in outcome.dumps["after"].items() if name != "PS1"}  # from venv
    assert after == outcome.dumps["before"], outcome
