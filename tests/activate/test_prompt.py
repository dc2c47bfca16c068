"""What a person sees: the prompt of an interactive shell on a terminal."""

from __future__ import annotations

import os
import pty
import select
import time
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.env import label
from tests.activate.conftest import make_shell, source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.activate.conftest import Shell

    MakeEnv = Callable[..., Path]

HOSTILE_NAME = "$(touch canary)`touch canary`%n%(?.a.b)\\u\\$(touch canary)!!${HOME}{prefix}"
# Without a line editor, which would redraw what is typed.
PLAIN = {"bash": ["--noediting"], "zsh": ["-o", "NO_ZLE"], "dash": []}
OPTIONS = {"bash": "set -o histexpand", "zsh": "setopt PROMPT_SUBST PROMPT_BANG PROMPT_PERCENT", "dash": ""}


def talk(shell: Shell, lines: list[str]) -> str:
    """Return what a terminal shows while the lines are typed, one after each prompt that ends in `#>`."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.folder)
        environ = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8", "HOME": str(shell.folder)}
        os.execve(shell.argv[0], [*shell.argv, *PLAIN[shell.kind], "-i"], environ)
    shown = b""
    try:
        os.write(terminal, f"PS1='#''> '; {OPTIONS[shell.kind]}\n".encode())
        for line in [*lines, "exit"]:
            shown += _until_prompt(terminal)
            os.write(terminal, line.encode() + b"\n")
        shown += _until_prompt(terminal, closed=True)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return os.fsdecode(shown)


def _until_prompt(terminal: int, *, closed: bool = False) -> bytes:
    shown, until = b"", time.monotonic() + 10
    while closed or not shown.endswith(b"#> "):
        if not select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
            pytest.fail(f"the shell went quiet after {shown!r}")
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            piece = b""
        if not piece:
            return shown
        shown += piece
    return shown


@pytest.fixture(params=["bash", "zsh", "dash"])
def interactive(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    return make_shell(request.param, tmp_path)


def test_the_name_stands_in_the_prompt_until_it_is_left(interactive: Shell, make_env: MakeEnv) -> None:
    first, second = make_env("one"), make_env("two")
    shown = talk(
        interactive, [source(first), source(second), source(second), "deactivate", "deactivate", ":"]
    )
    prompts = [line.rpartition("#> ")[0].rpartition("\r")[2] for line in shown.splitlines() if "#> " in line]
    assert prompts[1:] == ["(one) ", "(two) (one) ", "(two) (one) ", "(one) ", "", ""]


def test_a_name_is_only_shown(interactive: Shell, make_env: MakeEnv) -> None:
    prefix = make_env(HOSTILE_NAME, folder="$(touch canary)`touch canary`")
    shown = talk(interactive, [source(prefix), ":", "deactivate", ":"])
    assert shown.count(f"({label(HOSTILE_NAME)}) #> ") == 2
    assert not (interactive.folder / "canary").exists()


def test_it_can_be_switched_off(interactive: Shell, make_env: MakeEnv) -> None:
    shown = talk(interactive, ["ROCENV_DISABLE_PROMPT=1", source(make_env("one")), "deactivate", ":"])
    assert "(one)" not in shown


def test_a_prompt_set_while_active_stays(interactive: Shell, make_env: MakeEnv) -> None:
    shown = talk(interactive, [source(make_env("one")), "PS1='new #''> '", "deactivate", ":"])
    assert shown.count("new #> ") == 3


def test_a_prompt_that_is_not_exported_is_neither_lost_nor_exported(
    interactive: Shell, make_env: MakeEnv
) -> None:
    shown = talk(interactive, [source(make_env("one")), "/usr/bin/env | grep -c PS1", "deactivate", ":"])
    assert "\r\n0\r\n" in shown


@pytest.mark.parametrize(
    ("name", "shown"), [("demo-5.7", "demo-5.7"), ("漢字", "漢字"), ("a\x1b[31m\nb$", "a??31m?b?")]
)
def test_label(name: str, shown: str) -> None:
    assert label(name) == shown
