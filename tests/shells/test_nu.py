"""Tests for nushell only: lists in variables, data that the hook reads, and versions without `%`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.env import Place
from rocenv.activate.shells import nu
from rocenv.core.model import EnvChange
from tests.shells.driver import CHANGES, Work
from tests.shells.drivers import DRIVERS
from tests.shells.test_checklist import EVERYTHING

if TYPE_CHECKING:
    from pathlib import Path

SHELL = "nu"


@pytest.fixture
def nushell(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS["nu"], folder)


def test_lists_and_strings_keep_their_types(nushell: Work) -> None:
    prefix = nushell.env()
    before = [
        "$env.PATH = ($env.PATH | str join ':')",
        "$env.ENV_CONVERSIONS.LD_LIBRARY_PATH = {to_string: {|list| $list | str join ':'}}",
        "$env.LD_LIBRARY_PATH = [/a, '', /b]",
        "$env.HIP_PATH = 5",
    ]
    ask = "print --raw ($env.LD_LIBRARY_PATH | describe) ($env.HIP_PATH | describe)"
    active = [nushell.enter(prefix), nushell.dump("active"), ask]
    after = [nushell.driver.leave(), nushell.dump("after"), ask]
    outcome = nushell.run(*before, nushell.dump("before"), *active, *after)
    assert outcome.stdout.split() == ["list<string>", "string", "list<string>", "int"]
    assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_the_hook_reads_names_and_values_unchanged(nushell: Work) -> None:
    name = "x" + EVERYTHING.replace("/", "")
    changes = [*CHANGES, EnvChange(action="set", name="VALUE", value=EVERYTHING + "\n\x01'\"")]
    prefix = nushell.env(name, changes)
    driver = nushell.driver
    active = [driver.call("rocenv", "activate", name), nushell.dump("active")]
    outcome = nushell.run(
        nushell.hook(), nushell.dump("before"), *active, "deactivate", nushell.dump("after")
    )
    assert outcome.dumps["active"] == apply(expand(changes, str(prefix)), outcome.dumps["before"])
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert not list(nushell.folder.rglob("canary*"))


def test_values_that_are_not_valid_text_are_rejected(nushell: Work) -> None:
    changes = [EnvChange(action="set", name="VALUE", value=os.fsdecode(b"a\xffb"))]
    prefix = nushell.env(changes=changes)
    outcome = nushell.run(nushell.enter(prefix), nushell.dump("active"))
    assert outcome.status != 0 and not outcome.dumps
    outcome = nushell.run(
        nushell.hook(), nushell.driver.call("rocenv", "activate", "demo"), nushell.dump("active")
    )
    assert outcome.stderr and "VALUE" not in outcome.dumps["active"]


def test_using_the_script_as_a_module_or_overlay_is_an_error(nushell: Work) -> None:
    script = nushell.driver.quote(str(nushell.script(nushell.env())))
    for code in (f"use {script}", f"overlay use {script}"):
        outcome = nushell.run(code, nushell.dump("active"))
        assert outcome.status != 0 and not outcome.dumps
        assert "Use `source` with this file" in outcome.stderr


@pytest.mark.parametrize("prompt", ["{|| 'mine' }", "'mine'"])
def test_a_prompt_that_the_user_sets_while_an_env_is_active_is_kept(nushell: Work, prompt: str) -> None:
    enter, leave = nushell.enter(nushell.env()), nushell.driver.leave()
    mine, other = f"$env.PROMPT_COMMAND = {prompt}", "$env.PROMPT_COMMAND = {|| 'other' }"
    shown = nushell.driver.talk(nushell, [mine, enter, enter, leave, enter, other, leave])
    ends = [text.rsplit("\n", 1)[-1].strip() for text in shown]
    marked = "(demo) mine#>"
    assert ends == ["mine#>", marked, marked, "mine#>", marked, "other#>", "other#>"]


@pytest.fixture
def hook(nushell: Work) -> str:
    """Code that loads a hook whose program reports its arguments."""
    program = nushell.folder / "program"
    program.write_text(
        "#!/bin/sh\ncase $1 in\nin) cat ;;\ntty) test -t 0 && test -t 1 && echo both ;;\n"
        '*) printf "[%s]" "$@"; echo err >&2; exit 3 ;;\nesac\n'
    )
    program.chmod(0o755)
    file = nushell.folder / "hook.nu"
    file.write_text(nu.hook(Place(program=str(program), envs="/envs")))
    return nushell.driver.load_hook(file)


def test_the_hook_passes_arguments_input_and_terminal_to_the_program(nushell: Work, hook: str) -> None:
    words = "007 1kb true null 1..2 'a b' '*' \"$HOME\" --flag -x=y -- -n '' ...[c d]"
    outcome = nushell.run(hook, "'text' | rocenv in | print --raw $in", f"rocenv {words}")
    given = "".join(f"[{word}]" for word in "007 1kb true null 1..2".split())
    assert outcome.stdout == f"text\n{given}[a b][*][$HOME][--flag][-x=y][--][-n][][c][d]"
    assert (outcome.status, outcome.stderr.splitlines()[0]) == (3, "err")
    shown = nushell.driver.talk(nushell, ["rocenv tty"], first=hook)
    assert shown[0].split()[0] == "both"


def test_rocenvs_arguments_are_completed(nushell: Work) -> None:
    nushell.env("my-env")
    shown = nushell.driver.talk(nushell, ["rocenv deacti\t"], first=nushell.hook())
    assert "no env is active" in shown[0]


def test_the_hook_does_not_reactivate_an_active_env(nushell: Work) -> None:
    driver = nushell.driver
    nushell.env()
    nushell.env("other")
    there, below = nushell.folder / "there", nushell.folder / "there" / "below"
    below.mkdir(parents=True)
    (there / ".rocenv").write_text("demo\n")
    lines = [
        "rocenv trust there", "rocenv activate demo", "rocenv activate other",
        driver.change_folder(there), driver.change_folder(nushell.folder),
        "deactivate", "deactivate", driver.change_folder(below), f"^/bin/rm -r {below}",
    ]  # fmt: skip
    shown = driver.talk(nushell, lines, first=nushell.hook())
    ends = [text.rsplit("\n", 1)[-1].strip() for text in shown]
    both = "(other) (demo) #>"
    # In a deleted folder, the hook cannot search for `.rocenv`, so it changes nothing.
    assert ends == ["#>", "(demo) #>", *[both] * 3, "(demo) #>", "#>", "(demo) #>", "(demo) #>"]


def test_the_hook_reports_a_missing_program_once(nushell: Work) -> None:
    there = nushell.folder / "there"
    there.mkdir()
    (there / ".rocenv").write_text("demo\n")
    file = nushell.folder / "hook.nu"
    file.write_text(nu.hook(Place(program="/no such", envs="/envs")))
    lines = [nushell.driver.change_folder(there), ""]
    shown = nushell.driver.talk(nushell, lines, first=nushell.driver.load_hook(file))
    assert "rocenv: cannot run /no such" in shown[0] and "cannot run" not in shown[1]


def test_an_older_nushell_gets_a_hook_without_the_sigil(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(program="/100%/rocenv", envs="/envs")
    texts = {}
    for version in ("0.100.0", "0.111.1", "0.112.0", "0.120.0", "1.0.0", ""):
        monkeypatch.setenv("NU_VERSION", version)
        texts[version] = nu.hook(place)
    assert ["%print" in text for text in texts.values()] == [False, False, True, True, True, True]
    assert ["@complete" in text for text in texts.values()] == [False, False, True, True, True, True]
    assert all("const program = '/100%/rocenv'" in text for text in texts.values())
