"""Tests for elvish only: definitions in evaluated code, and source code, which must be UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS
from tests.shells.driver import CHANGES, Work
from tests.shells.drivers import DRIVERS

PROMPT = "put [($edit:prompt)]"


@pytest.fixture
def elvish(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS["elvish"], folder)


def test_deactivate_is_defined_at_the_prompt_and_removed_again(elvish: Work) -> None:
    enter = elvish.enter(elvish.env())
    shown = elvish.driver.talk(
        elvish,
        [*([enter, "deactivate", "put [(resolve deactivate)] $after-chdir"] * 2), "deactivate"],
    )
    for answer in (shown[2], shown[5]):
        assert "(external deactivate)" in answer and "▶ []" in answer
    assert "not found" in shown[6]


def test_a_users_function_can_activate_an_env(elvish: Work) -> None:
    enter = elvish.enter(elvish.env()).partition("; ")[2]
    lines = ["start", "echo hip=$E:HIP_PATH", "deactivate", "put [(resolve deactivate)] [(has-env HIP_PATH)]"]
    shown = elvish.driver.talk(elvish, lines, first=f"fn start {{ {enter} }}")
    assert f"hip={elvish.home}" in shown[1]
    assert "(external deactivate)" in shown[3] and "[$false]" in shown[3]


def test_a_deactivate_function_of_the_user_is_restored(elvish: Work) -> None:
    enters = [elvish.enter(elvish.env(name)) for name in ("first", "second")]
    shown = elvish.driver.talk(
        elvish, [*enters, "deactivate", "deactivate", "deactivate"], first="fn deactivate { echo my-own }"
    )
    assert ["my-own" in answer.rpartition("deactivate")[2] for answer in shown[2:]] == [False, False, True]


def test_a_prompt_that_the_user_sets_while_an_env_is_active_is_kept(elvish: Work) -> None:
    wrap = "var inner = $edit:prompt; set edit:prompt = { put mine; $inner }"
    shown = elvish.driver.talk(elvish, [elvish.enter(elvish.env()), wrap, PROMPT, "deactivate", PROMPT])
    assert "▶ [mine '(demo) ' '#> ']" in shown[2]
    assert "▶ [mine '#> ']" in shown[4]


def test_callback_lists_can_be_replaced_while_an_env_is_active(elvish: Work) -> None:
    first, second = (elvish.enter(elvish.env(name)) for name in ("first", "second"))
    outcome = elvish.run(
        elvish.dump("before"),
        first,
        second.partition("; ")[2],
        "set after-chdir = []",
        "deactivate",
        "deactivate",
        elvish.dump("after"),
    )
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_a_path_that_is_not_valid_utf_8_works(elvish: Work) -> None:
    prefix = elvish.env(folder=os.fsdecode(b"\xff\"\\'\xc3"))
    script = "deactivate.elv"
    (elvish.folder / script).write_bytes((elvish.script(prefix)).read_bytes())
    outcome = elvish.run(
        elvish.dump("before"),
        f"fn deactivate {{ }}; eval (slurp < {script})",
        elvish.dump("active"),
        "deactivate",
        elvish.dump("after"),
    )
    assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_rocenvs_arguments_are_completed(elvish: Work) -> None:
    elvish.env("some-env")
    shown = elvish.driver.talk(elvish, ["rocenv activate so\t"], first=elvish.hook())
    assert "rocenv activate some-env" in shown[0] or "(some-env) #>" in shown[0]


def test_the_hook_and_typed_commands_share_state(elvish: Work) -> None:
    first, second = elvish.enter(elvish.env("first")), elvish.enter(elvish.env("second"))
    lines = [
        first,
        "rocenv activate second",
        second,
        PROMPT,
        "deactivate",
        PROMPT,
        "rocenv deactivate",
        PROMPT,
    ]
    shown = elvish.driver.talk(elvish, lines, first=elvish.hook())
    assert "▶ ['(second) ' '(first) ' '#> ']" in shown[3]
    assert "▶ ['(first) ' '#> ']" in shown[5]
    assert "▶ ['#> ']" in shown[7]


def trusted(work: Work) -> Path:
    """Create a trusted folder whose `.rocenv` contains `demo`."""
    work.env()
    there = work.folder / "there"
    (there / "below").mkdir(parents=True)
    (there / ".rocenv").write_text("demo\n")
    program = Path(sys.executable).with_name("rocenv")
    subprocess.run([program, "trust", there], env={**os.environ, **work.environ}, check=True, timeout=60)
    return there


def test_leaving_a_folder_keeps_an_env_that_was_active_before(elvish: Work) -> None:
    there = trusted(elvish)
    elvish.env("other")
    lines = ["rocenv activate demo", "rocenv activate other", f"cd {there}", PROMPT, "cd ..", PROMPT]
    shown = elvish.driver.talk(elvish, lines, first=elvish.hook())
    assert "▶ ['(demo) ' '#> ']" in shown[3]
    assert "▶ ['(demo) ' '#> ']" in shown[5]


def test_the_hook_changes_nothing_in_a_deleted_folder(elvish: Work) -> None:
    below = trusted(elvish) / "below"
    lines = [f"cd {below}", f"rmdir {below}", PROMPT, f"cd {elvish.folder}", PROMPT]
    shown = elvish.driver.talk(elvish, lines, first=elvish.hook())
    assert "▶ ['(demo) ' '#> ']" in shown[2]
    assert "▶ ['#> ']" in shown[4]


def test_the_hook_reports_a_missing_program_once(elvish: Work) -> None:
    there = trusted(elvish)
    hook = elvish.folder / "hook"
    hook.write_text(HOOKS["elvish"].render(Place(program="/no/rocenv", envs="/no")))
    shown = elvish.driver.talk(elvish, [f"cd {there}", "put 1"], first=elvish.driver.load_hook(hook))
    assert ["rocenv: cannot run /no/rocenv" in answer for answer in shown] == [True, False]


def test_an_env_name_can_be_a_number(elvish: Work) -> None:
    elvish.env("3")
    shown = elvish.driver.talk(elvish, ["rocenv activate (num 3)", PROMPT], first=elvish.hook())
    assert "▶ ['(3) ' '#> ']" in shown[1]
