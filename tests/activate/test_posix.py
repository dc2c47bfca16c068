"""Tests for bash, zsh, ksh and dash that go beyond the checklist in `tests/shells`."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocenv.activate.changes import apply, expand, names
from rocenv.activate.env import label
from rocenv.activate.scripts import activation_script, write_activation
from rocenv.core.errors import PrefixError
from tests.shells.driver import CHANGES, WATCHED, Work, prepend, render, set_, unset
from tests.shells.drivers import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.core.model import EnvChange

POSIX = ("bash", "zsh", "dash", "ksh")
TAKEN = "use `rocenv_deactivate` to deactivate this env"


@pytest.fixture(params=POSIX)
def posix(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    folder = tmp_path / "work"
    folder.mkdir()
    return Work(DRIVERS[request.param], folder)


def test_bytes_that_are_not_valid_utf8_are_preserved(posix: Work) -> None:
    prefix = posix.env(folder="a b" + os.fsdecode(b"\xff"))
    for locale in ("C", "C.UTF-8"):
        outcome = posix.round_trip(prefix, "set -eu", environ={**posix.environ, "LC_ALL": locale})
        assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
        assert outcome.stderr == ""


VALUE = st.text(
    st.one_of(
        st.sampled_from("'\"$`\\!%:;&|<>()[]{}*?~#= \t\n\r-\u2018漢\udcff"),
        st.characters(codec="utf-8", exclude_characters="\0"),
    ),
    max_size=12,
)
ENTRY = VALUE.map(lambda text: text.replace(":", "") or "x")
ANY_CHANGES = st.lists(
    st.one_of(
        st.builds(set_, st.sampled_from(["T_a", "T_b", "_T1"]), VALUE),
        st.builds(prepend, st.sampled_from(["T_a", "T_list", "PATH"]), ENTRY),
        st.builds(unset, st.sampled_from(["T_a", "T_b"])),
    ),
    max_size=6,
)
ANY_ENVIRONMENT = st.dictionaries(st.sampled_from(["T_a", "T_b", "T_list"]), VALUE)


@pytest.mark.parametrize("name", POSIX)
def test_every_value_is_preserved(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    work = Work(DRIVERS[name], tmp_path_factory.mktemp("values"))
    prefix = work.env()

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(ANY_CHANGES, ANY_ENVIRONMENT)
    def check(changes: Sequence[EnvChange], before: dict[str, str]) -> None:
        render(prefix, "demo", changes)
        outcome = work.round_trip(prefix, "set -eu", environ={**work.environ, **before})
        assert outcome.dumps["active"] == apply(expand(changes, str(prefix)), outcome.dumps["before"])

    check()


@pytest.mark.parametrize(
    "before",
    [
        {"LD_LIBRARY_PATH": ""},
        {"LD_LIBRARY_PATH": "/opt/rocm/lib", "HIP_PATH": "/opt/rocm", "HIP_PATH_57": "/57", "EMPTY": "x"},
        {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "", "HIP_PATH_61": "x"},
        {name: "old" for name in WATCHED if name != "LD_PRELOAD"},
    ],
)
def test_activation_reports_replaced_values(posix: Work, before: dict[str, str]) -> None:
    prefix = posix.env()
    environ = {**posix.environ, **before}
    outcome = posix.run("set -eu", posix.enter(prefix), environ=environ)
    named = [name for text in outcome.stderr.splitlines() for name in text.rpartition(": ")[2].split()]
    changes = expand(CHANGES, str(prefix))
    after = apply(changes, environ)
    replaced = {name for name in names(changes) if environ.get(name, "") not in ("", after.get(name))}
    acting = {name for name in WATCHED if name in environ} - {*names(changes)}
    assert sorted(named) == sorted((replaced | acting) - {"PATH"})


@pytest.mark.parametrize("value", ["C:", "", "a:x{prefix}/rocm", "{prefix}/rocm/"])
def test_a_variable_changed_while_active_is_kept_and_reported(posix: Work, value: str) -> None:
    prefix = posix.env()
    value = value.replace("{prefix}", str(prefix))
    outcome = posix.run(
        "set -eu",
        posix.enter(prefix),
        f"HIP_PATH={value}; unset ROCM_PATH LD_LIBRARY_PATH; export HIP_PATH_57={value}",
        posix.driver.leave(),
        posix.dump("after"),
        environ={**posix.environ, "ROCM_PATH": "/opt"},
    )
    after = outcome.dumps["after"]
    assert (after["HIP_PATH"], after["HIP_PATH_57"]) == (value, value)
    assert not {"ROCM_PATH", "LD_LIBRARY_PATH"} & set(after)
    assert outcome.stderr.endswith(": ROCM_PATH HIP_PATH HIP_PATH_57\n")


def test_a_list_with_only_the_envs_entries_is_unset_on_deactivation(posix: Work) -> None:
    prefix = posix.env()
    edit = f"LD_LIBRARY_PATH={prefix}/lib"
    outcome = posix.run(
        posix.dump("before"), posix.enter(prefix), edit, posix.driver.leave(), posix.dump("after")
    )
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_deactivation_keeps_an_entry_that_was_in_the_list_before(posix: Work) -> None:
    prefix = posix.env()
    outcome = posix.run(
        posix.enter(prefix),
        "LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/b",
        posix.driver.leave(),
        posix.dump("after"),
        environ={**posix.environ, "LD_LIBRARY_PATH": f"/a:{prefix}/lib"},
    )
    assert outcome.dumps["after"]["LD_LIBRARY_PATH"] == f"{prefix}/lib:/a:/b"


def test_a_failed_activation_does_not_change_an_active_env(posix: Work) -> None:
    other, prefix = posix.env("other"), posix.env()
    moved = prefix.rename(prefix.with_name("moved"))
    outcome = posix.run(
        "set -u",
        posix.enter(other),
        posix.dump("before"),
        f"if {posix.enter(moved)}; then echo yes; else echo no $?; fi",
        posix.dump("after"),
        posix.driver.leave(),
        "set | grep -i '^_rocenv_' || echo nothing",
    )
    assert outcome.stdout == "no 1\nnothing\n"
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_executing_the_script_explains_how_to_source_it(posix: Work) -> None:
    prefix = posix.env(folder="my env")
    done = subprocess.run(
        posix.driver.argv(prefix / ".." / "my env" / "activate"),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 33
    assert f"  . '{prefix}/activate'" in done.stderr


def test_a_script_is_not_executable_and_can_be_sourced_in_a_function(posix: Work) -> None:
    prefix = posix.env()
    assert (prefix / "activate").stat().st_mode & 0o777 == 0o644
    functions = f"f() {{ {posix.enter(prefix)}; }}\ng() {{ deactivate; }}"
    outcome = posix.run(functions, posix.dump("before"), "f", posix.dump("active"), "g", posix.dump("after"))
    assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_activation_clears_the_shells_command_cache(posix: Work) -> None:
    prefix = posix.env()
    for folder in (prefix / "bin", posix.folder / "old"):
        folder.mkdir()
        (folder / "tool").write_text(f"#!/bin/sh\necho {folder.name}\n")
        (folder / "tool").chmod(0o755)
    code = [f"PATH={posix.folder}/old:$PATH", "tool", posix.enter(prefix), "tool", "deactivate", "tool"]
    assert posix.run(*code).stdout == "old\nbin\nold\n"


# ---------------------------------------------------------------- another tool's `deactivate`


def test_a_user_alias_is_kept(posix: Work) -> None:
    expand_them = "shopt -s expand_aliases" if posix.driver.name == "bash" else ":"
    alias = "alias deactivate='echo mine'"
    outcome = posix.run(
        expand_them,
        posix.dump("before"),
        alias,
        posix.enter(posix.env()),
        "rocenv_deactivate",
        posix.dump("after"),
        "deactivate",
    )
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert (outcome.stdout, TAKEN in outcome.stderr) == ("mine\n", True)


def test_an_outer_venv_keeps_its_own_deactivate(posix: Work) -> None:
    prefix = posix.env(changes=(*CHANGES, set_("VIRTUAL_ENV", "{prefix}/venv")))
    venv = "VIRTUAL_ENV=/v; export VIRTUAL_ENV\ndeactivate() { unset VIRTUAL_ENV; unset -f deactivate; }"
    enter = posix.enter(prefix)
    outcome = posix.run(
        "set -eu",
        posix.dump("before"),
        *(venv, posix.dump("venv"), enter, enter, "rocenv_deactivate", posix.dump("back")),
        *("deactivate", posix.dump("after")),
    )
    assert TAKEN in outcome.stderr
    assert outcome.dumps["back"] == outcome.dumps["venv"]
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_the_env_can_be_deactivated_after_an_outer_venv(posix: Work) -> None:
    venv = "OTHER=/v; export OTHER\ndeactivate() { unset OTHER; unset -f deactivate; }"
    outcome = posix.run(
        *("set -eu", posix.dump("before"), venv, posix.enter(posix.env())),
        *("deactivate", "rocenv_deactivate", posix.dump("after")),
        "PATH=/nowhere command -v deactivate || echo none",
    )
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert outcome.stdout == "none\n"


def test_a_venv_activated_later_replaces_only_deactivate(posix: Work) -> None:
    enter = posix.enter(posix.env())
    outcome = posix.run(
        *("set -eu", posix.dump("before"), enter, "deactivate() { unset -f deactivate; }", "deactivate"),
        *(enter, "deactivate", posix.dump("after")),
    )
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.dumps["after"] == outcome.dumps["before"]


# ---------------------------------------------------------------- the prompt


def test_the_prompt_shows_each_env_until_it_is_deactivated(posix: Work) -> None:
    first, second = posix.enter(posix.env("one")), posix.enter(posix.env("two"))
    lines = [first, second, second, "deactivate", "deactivate", first, "PS1='new #''> '", "deactivate"]
    shown = posix.driver.talk(posix, lines)
    prompts = [text.rpartition("#> ")[0].rpartition("\n")[2].rpartition("\r")[2] for text in shown]
    assert prompts == ["(one) ", "(two) (one) ", "(two) (one) ", "(one) ", "", "(one) ", "new ", "new "]


@pytest.mark.parametrize(
    ("name", "shown"), [("demo-5.7", "demo-5.7"), ("漢字", "漢字"), ("a\x1b[31m\nb$", "a??31m?b?")]
)
def test_the_prompt_label_masks_control_characters_in_the_env_name(name: str, shown: str) -> None:
    assert label(name) == shown


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("prefix", ["/a:b", "/a\nb", "/a\x1bb"])
def test_a_prefix_with_a_path_separator_or_control_character_is_rejected(prefix: str) -> None:
    with pytest.raises(PrefixError):
        activation_script("demo", prefix, CHANGES)


def test_rendering_a_script_does_not_need_the_prefix_to_exist() -> None:
    assert "HIP_PATH='/elsewhere/rocm'" in activation_script("demo", "/elsewhere", CHANGES)


def test_a_new_script_replaces_the_old_one_completely(tmp_path: Path) -> None:
    prefix = Work(DRIVERS["bash"], tmp_path).env()
    linked = prefix / "linked"
    os.link(prefix / "activate", linked)
    before = linked.read_bytes()
    files = sorted(prefix.rglob("*"))
    write_activation(prefix, "demo", [set_("A", "b")])
    assert linked.read_bytes() == before
    assert b"A='b'" in (prefix / "activate").read_bytes()
    assert sorted(prefix.rglob("*")) == files
