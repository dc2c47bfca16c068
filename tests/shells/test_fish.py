"""Tests for fish only: universal variables, path variables, and the prompt function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS
from rocenv.core.model import EnvChange
from tests.programs import PYTHON
from tests.shells.driver import CHANGES, Work, program
from tests.shells.drivers import DRIVERS
from tests.shells.drivers.fish import Fish

if TYPE_CHECKING:
    from pathlib import Path

SHOW = "set --show PATH LD_LIBRARY_PATH HIP_PATH HIP_PATH_57 EMPTY LIST"


class _Configured(Fish):
    """fish with its configuration, which universal variables require."""

    def argv(self, script: Path) -> list[str]:
        return [program("fish"), str(script)]


@pytest.fixture
def configured(tmp_path: Path) -> Work:
    return Work(_Configured(), tmp_path)


@pytest.fixture
def fish(tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS["fish"], folder)


def test_variables_are_restored_with_their_attributes(configured: Work) -> None:
    changes = (*CHANGES, EnvChange(action="prepend", name="LIST", value="/first"))
    prefix = configured.env(changes=changes)
    kinds = (
        "set -U HIP_PATH /everywhere; set -Ux LD_LIBRARY_PATH /u1 /u2; set -Ux EMPTY everywhere",
        "set -U HIP_PATH /everywhere; set -g HIP_PATH /own; set -g LIST a:b 'c d'",
        "set -gx --path LIST a b; set -gx --unpath HIP_PATH_57 a:b c; set -gx --unpath LD_LIBRARY_PATH a:b c",
    )
    for kind in kinds:
        outcome = configured.run(kind, SHOW, "echo half", configured.enter(prefix), "deactivate", SHOW)
        before, _, after = outcome.stdout.partition("half\n")
        assert after == before
        configured.run("set -Ue HIP_PATH LD_LIBRARY_PATH EMPTY")


def test_a_universal_variable_that_cannot_be_hidden_is_reported(configured: Work) -> None:
    outcome = configured.run(
        "set -Ux HIP_PATH_57 /everywhere", configured.enter(configured.env()), configured.dump("active")
    )
    assert "still in effect: HIP_PATH_57" in outcome.stderr
    assert outcome.dumps["active"]["HIP_PATH_57"] == "/everywhere"


def test_a_universal_list_gets_entries_only_in_the_current_shell(configured: Work) -> None:
    prefix = configured.env()
    outcome = configured.run(
        "set -Ux LD_LIBRARY_PATH /u1 /u2", configured.enter(prefix), configured.dump("active"),
        "set LD_LIBRARY_PATH /mine $LD_LIBRARY_PATH", "deactivate", configured.dump("after"),
        "set -eg LD_LIBRARY_PATH", configured.dump("universal"),
    )  # fmt: skip
    values = [outcome.dumps[name]["LD_LIBRARY_PATH"] for name in ("active", "after", "universal")]
    assert values == [f"{prefix}/lib64:{prefix}/lib:/u1:/u2", "/mine:/u1:/u2", "/u1:/u2"]


def test_the_callers_local_variables_are_ignored(fish: Work) -> None:
    prefix = fish.env()
    outcome = fish.run(
        fish.dump("before"),
        "function enter",
        "set -l HIP_PATH local; set -lx ROCM_PATH local; set -lx PATH /local $PATH",
        fish.enter(prefix),
        "end",
        "enter",
        fish.dump("active"),
        "begin; set -lx ROCM_PATH local; set -lx PATH /local; deactivate; end",
        fish.dump("after"),
    )
    assert outcome.stderr == ""
    assert outcome.dumps["active"]["PATH"] == f"{prefix}/bin:{fish.environ['PATH']}"
    assert outcome.dumps["active"]["ROCM_PATH"] == f"{prefix}/rocm"
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_bytes_that_are_not_valid_text_are_preserved(fish: Work) -> None:
    value = "a\udcff\udcc3b\uf600\uf7ff\ufdd0\r"
    prefix = fish.env(
        folder="x\udcff", changes=(*CHANGES, EnvChange(action="set", name="HIP_PATH", value=value))
    )
    outcome = fish.round_trip(prefix, environ={**fish.environ, "HIP_PATH": value[::-1]})
    assert outcome.dumps["active"]["HIP_PATH"] == value
    assert outcome.dumps["active"]["PATH"].startswith(f"{prefix}/bin:")


def test_a_deactivate_function_of_the_user_is_kept(fish: Work) -> None:
    own = "function deactivate; echo mine; end"
    outcome = fish.run(own, fish.enter(fish.env()), "deactivate", "rocenv_deactivate", "deactivate")
    assert outcome.stdout == "mine\nmine\n"
    assert "use `rocenv_deactivate` to deactivate this env" in outcome.stderr


def test_the_users_prompt_function_still_sees_the_exit_code(fish: Work) -> None:
    prompt = "function fish_prompt; set -l s $status $pipestatus; echo one $s; echo '#> '; end"
    lines = [prompt, fish.enter(fish.env()), "sh -c 'exit 3' | sh -c 'exit 4'", "deactivate"]
    shown = fish.driver.talk(fish, lines)
    assert "(demo) one 0 0" in shown[1]
    assert "(demo) one 4 3 4" in shown[2]
    assert shown[3].splitlines()[-2] == "one 0 0"


def test_a_prompt_function_set_or_wrapped_while_an_env_is_active_is_kept(fish: Work) -> None:
    enter = fish.enter(fish.env())
    wrap = "functions -c fish_prompt theirs; function fish_prompt; echo -n '[venv] '; theirs; end"
    unwrap = "functions -e fish_prompt; functions -c theirs fish_prompt; functions -e theirs"
    names = "functions --all --names | string match '*rocenv*'; set --names | string match -i '*_rocenv*'"
    lines = [
        enter, wrap, "deactivate", enter, "deactivate", unwrap, "echo", names,  # 0..7
        enter, "function fish_prompt; echo -n 'other #> '; end", "deactivate", enter, "deactivate",  # 8..12
    ]  # fmt: skip
    shown = [text.replace("\r", "\n").rstrip() for text in fish.driver.talk(fish, lines)]
    assert shown[0].endswith("\n(demo) #>")
    assert shown[1].endswith("\n[venv] (demo) #>")
    assert shown[2].endswith("\n[venv] #>")
    assert shown[3].endswith("\n(demo) [venv] #>")
    assert shown[4].endswith("\n[venv] #>")
    assert shown[6].endswith("\n#>")
    assert "_rocenv" not in shown[7].replace(names, "")
    assert shown[9].endswith("\nother #>")
    assert shown[10].endswith("\nother #>")
    assert shown[11].endswith("\n(demo) other #>")
    assert shown[12].endswith("\nother #>")


def test_rocenvs_arguments_are_completed(fish: Work) -> None:
    program = fish.folder / "the program"
    program.write_text(
        f"{PYTHON}import sys\n"
        "print({'folder': ':folders', 'file': ':files'}.get(sys.argv[2], f'{sys.argv[1:]}\\tsaid'))\n"
    )
    program.chmod(0o755)
    (fish.folder / "hook.fish").write_text(HOOKS["fish"].render(Place(program=str(program), envs="/nowhere")))
    (fish.folder / "a folder").mkdir()
    (fish.folder / "a file").touch()
    outcome = fish.run(
        *["source hook.fish"] * 2,
        "set -g IFS ''",
        "complete -C 'rocenv run \\'a  b\\' $HOME '",
        *(f"complete -C 'rocenv {word} a'" for word in ("folder", "file")),
        "complete -C 'rocenv folder \"a'",
    )
    assert outcome.stderr == ""
    assert [text.split("\t")[0] for text in outcome.stdout.splitlines()] == [
        "['complete', 'run', 'a  b', '$HOME', '']", "a folder/", "a file", "a folder/", "a folder/",
    ]  # fmt: skip


def test_completion_handles_quotes_and_command_prefixes(configured: Work) -> None:
    program = configured.folder / "program"
    program.write_text(f"{PYTHON}import sys\nprint(sys.argv[2:], file=open('asked', 'a'))\nsys.exit('x')\n")
    program.chmod(0o755)
    (configured.folder / "hook.fish").write_text(
        HOOKS["fish"].render(Place(program=str(program), envs="/nowhere"))
    )
    words = ("rocenv activate 'x", 'rocenv activate "x', "rocenv activate x\\ ")
    lines = (*words, "command rocenv act", "env A=1 rocenv act")
    asked = (f"complete -C {configured.driver.quote(line)}" for line in lines)
    outcome = configured.run("source hook.fish", *asked)
    assert outcome.stderr == ""
    assert (configured.folder / "asked").read_text().splitlines() == [
        "['activate', 'x']", "['activate', 'x']", "['activate', 'x ']", "['act']", "['act']",
    ]  # fmt: skip


def test_the_hook_reports_a_missing_program_once(fish: Work) -> None:
    (fish.folder / ".rocenv").write_text("demo\n")
    (fish.folder / "hook.fish").write_text(HOOKS["fish"].render(Place(program="/no such", envs="/nowhere")))
    outcome = fish.run("source hook.fish", "_rocenv_hook_look", "_rocenv_hook_look")
    assert outcome.stderr == "rocenv: cannot run /no such\n"


def test_the_hook_does_not_reactivate_an_active_env(fish: Work) -> None:
    demo, other = fish.env(), fish.env("other")
    there = fish.folder / "there"
    there.mkdir()
    (there / ".rocenv").write_text("demo\n")
    outcome = fish.run(
        fish.hook(), f"rocenv trust {there}", "rocenv activate demo; rocenv activate other",
        f"cd {there}; _rocenv_hook_look", fish.dump("there"), "cd ..; _rocenv_hook_look", fish.dump("back"),
    )  # fmt: skip
    for dump in outcome.dumps.values():
        assert dump["PATH"].startswith(f"{other}/bin:{demo}/bin:")
