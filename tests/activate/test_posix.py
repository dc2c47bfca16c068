"""The contract: after sourcing, the environment is what `apply` says; after `deactivate`, what it was."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocenv.activate.changes import apply, conflicts, expand
from rocenv.activate.scripts import activation_script
from rocenv.activate.shells.posix import quote
from rocenv.activate.write import write_activation
from rocenv.core.errors import PrefixError
from tests.activate.conftest import HOSTILE, SHELLS, make_shell, prepend, set_, source, unset
from tests.shells.driver import CHANGES, WATCHED, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.activate.conftest import Outcome, Shell

    MakeEnv = Callable[..., Path]

ROUND_TRIP = """\
{before}
dump before
{activate}
dump active
deactivate
dump after
echo reached
"""


def round_trip(shell: Shell, prefix: Path, before: str = "", **options: object) -> Outcome:
    script = ROUND_TRIP.format(before=before, activate=source(prefix))
    outcome = shell.run(script, **options)  # type: ignore[arg-type]
    assert (outcome.status, outcome.stdout) == (0, "reached\n"), outcome.stderr
    assert outcome.dumps["after"] == outcome.dumps["before"]
    return outcome


def assert_applied(outcome: Outcome, prefix: Path) -> None:
    assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])


OPTIONS = {
    "plain": "",
    "nounset": "set -u",
    "errexit": "set -e",
    "errexit, nounset": "set -eu",
    "allexport": "set -a",
    "noglob, noclobber": "set -fC",
    "odd IFS": "IFS=/_Ri",
    "empty IFS": "IFS=",
    "no IFS": "unset IFS",
    "CDPATH": "CDPATH=/usr:/",
    "no PATH": "unset PATH",
    "empty PATH": "PATH=",
    "prompt": "PS1='$ '",
    "bash pipefail": "set -euo pipefail; shopt -s inherit_errexit nullglob extglob nocasematch",
    "bash traps": "set -ETe; trap 'echo trapped; exit 9' ERR",
    "zsh ksh": "setopt KSH_ARRAYS SH_WORD_SPLIT GLOB_SUBST KSH_GLOB NO_NOMATCH",
    "zsh strict": "setopt ERR_EXIT NO_UNSET PIPE_FAIL RC_QUOTES",
    "zsh globs": "setopt EXTENDED_GLOB NULL_GLOB IGNORE_BRACES PROMPT_SUBST SH_FILE_EXPANSION",
    "zsh warnings": "setopt WARN_CREATE_GLOBAL WARN_NESTED_VAR POSIX_BUILTINS NO_GLOBAL_EXPORT",
}


def fits(name: str, options: str) -> bool:
    first = options.partition(" ")[0]
    return first not in ("bash", "zsh") or first == name.partition("-")[0]


@pytest.mark.parametrize(
    ("shell", "options"),
    [(name, options) for name in SHELLS for options in OPTIONS if fits(name, options)],
    indirect=["shell"],
)
def test_whatever_the_shell_is_set_to(shell: Shell, make_env: MakeEnv, options: str) -> None:
    prefix = make_env()
    outcome = round_trip(shell, prefix, OPTIONS[options])
    assert_applied(outcome, prefix)
    assert outcome.stderr == ""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_nothing_in_a_path_is_code(shell: Shell, make_env: MakeEnv, locale: str) -> None:
    prefix = make_env(folder=HOSTILE.replace("/", "") + os.fsdecode(b"\xff"))
    outcome = round_trip(shell, prefix, f"LC_ALL={locale}; export LC_ALL; set -eu")
    assert_applied(outcome, prefix)
    assert outcome.stderr == ""
    assert not (shell.folder / "canary").exists()


def test_a_path_may_begin_like_an_option_or_a_home(shell: Shell, make_env: MakeEnv) -> None:
    changes = (
        set_("A", "-n"),
        set_("B", "~"),
        set_("C", "~root"),
        set_("D", "\n\t x\n"),
        prepend("PATH", "~/-e"),
    )
    prefix = make_env(changes=changes)
    outcome = round_trip(shell, prefix)
    assert outcome.dumps["active"] == apply(changes, outcome.dumps["before"])


NAMES = (
    "cd",
    "hash",
    "printf",
    "echo",
    "source",
    "test",
    "unalias",
    "typeset",
    "emulate",
    "deactivate",
    "alias",
)
SPECIAL = ("unset", "export", "eval", "set", "shift", "exit", "return", ".")


def test_aliases_do_not_reach_the_script(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    names = [name for name in ("local", "command", "builtin", *SPECIAL, *NAMES) if name != "."]
    aliases = "\n".join(f"alias {name}='touch canary; false'" for name in names)
    expand_them = "shopt -s expand_aliases" if shell.kind == "bash" else ""
    script = f"{expand_them}\ndump before\n{aliases}\n\\{source(prefix)}\ndump active\n"
    outcome = shell.run(script + "rocenv_deactivate\ndump after\n\\alias deactivate\n")
    assert_applied(outcome, prefix)
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert not (shell.folder / "canary").exists()
    assert "leave this env with `rocenv_deactivate`" in outcome.stderr
    assert "touch canary" in outcome.stdout, "the user's own alias stays"


def test_functions_do_not_reach_the_script(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    # A plain sh and a POSIX bash refuse functions named like special builtins themselves.
    names = [*NAMES, *(SPECIAL if shell.name in ("bash", "zsh") else ())]
    refused = ("source",) if shell.name == "bash-posix" else ()
    names = [name for name in names if name not in ("deactivate", "return", ".", *refused)]
    functions = "\n".join(f"{name}() {{ touch canary; }}" for name in names)
    script = f"HIP_PATH=old; export HIP_PATH\ndump before\n{functions}\n{source(prefix)}\ndump active\n"
    outcome = shell.run(script + "deactivate\ndump after\n")
    assert_applied(outcome, prefix)
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert not (shell.folder / "canary").exists()


@pytest.mark.parametrize(
    "before",
    [
        "",
        "LD_LIBRARY_PATH=; HIP_PATH=; EMPTY=; export LD_LIBRARY_PATH HIP_PATH EMPTY",
        "LD_LIBRARY_PATH=/a::/b:; HIP_PATH_57=/5; HIP_PATH=' '; export LD_LIBRARY_PATH HIP_PATH HIP_PATH_57",
        "LD_LIBRARY_PATH=:; export LD_LIBRARY_PATH",
        "LD_LIBRARY_PATH=/x:{prefix}/lib64:/y:{prefix}/lib:{prefix}/lib:/; export LD_LIBRARY_PATH",
        "HIP_PATH={prefix}/rocm; export HIP_PATH",
        "unset PATH",
        "PATH=",
    ],
)
def test_what_was_there_comes_back(shell: Shell, make_env: MakeEnv, before: str) -> None:
    prefix = make_env()
    outcome = round_trip(shell, prefix, before.replace("{prefix}", str(prefix)))
    assert_applied(outcome, prefix)
    for name in ("PATH", "LD_LIBRARY_PATH"):
        assert outcome.dumps["active"][name].startswith(str(prefix))


@pytest.mark.parametrize("shell", ["bash", "bash-posix", "zsh"], indirect=True)  # a plain sh cannot tell
def test_a_variable_that_was_not_exported_is_not_exported_afterwards(shell: Shell, make_env: MakeEnv) -> None:
    script = f"HIP_PATH=mine\n{source(make_env())}\ndump active\ndeactivate\ndump after\necho $HIP_PATH\n"
    outcome = shell.run(script)
    assert outcome.stdout == "mine\n"
    assert "HIP_PATH" in outcome.dumps["active"]
    assert "HIP_PATH" not in outcome.dumps["after"]


def test_sourcing_twice_is_sourcing_once(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    again = source(prefix)
    script = f"set -eu\ndump before\n{again}\ndump once\nPATH=/new:$PATH\n{again}\n{again}\ndump twice\n"
    outcome = shell.run(script + "deactivate\ndump after\n")
    once, twice = outcome.dumps["once"], outcome.dumps["twice"]
    base = outcome.dumps["before"]["PATH"]
    assert twice == {**once, "PATH": f"{prefix}/bin:/new:{base}"}
    assert outcome.dumps["after"] == {**outcome.dumps["before"], "PATH": f"/new:{base}"}


def test_an_env_on_top_of_another_leads_back_to_it(shell: Shell, make_env: MakeEnv) -> None:
    first, second = make_env("first"), make_env("second", folder="sec ond")
    script = f"set -eu\ndump before\n{source(first)}\ndump first\n{source(second)}\ndump second\n"
    script += "deactivate\ndump back\ndeactivate\ndump after\n"
    outcome = shell.run(script)
    dumps = outcome.dumps
    assert outcome.stderr == ""
    assert dumps["second"] == apply(expand(CHANGES, str(second)), dumps["first"])
    assert dumps["back"] == dumps["first"]
    assert dumps["after"] == dumps["before"]


def test_an_env_below_another_is_returned_to(shell: Shell, make_env: MakeEnv) -> None:
    first, second = make_env("first"), make_env("second")
    script = f"set -eu\ndump before\n{source(first)}\ndump first\n{source(second)}\n{source(first)}\n"
    outcome = shell.run(script + "dump again\ndeactivate\ndump after\n")
    assert outcome.dumps["again"] == outcome.dumps["first"]
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_nothing_of_ours_stays_behind(shell: Shell, make_env: MakeEnv) -> None:
    first, second = make_env("first"), make_env("second")
    listing = {"zsh": "set; typeset -f", "bash": "set", "dash": "set"}[shell.kind]
    script = f"HSA_OVERRIDE_GFX_VERSION=1\nPS1='$ '\n{source(first)}\n{source(second)}\n{source(second)}\n"
    script += f"HIP_PATH=changed\ndeactivate\ndeactivate\n{listing}\n"
    outcome = shell.run(script + "command -v deactivate\necho status $?\n")
    assert "rocenv" not in outcome.stdout.lower()
    assert "status 0" not in outcome.stdout
    assert "PS1='$ '" in outcome.stdout


def test_nothing_of_ours_is_exported(shell: Shell, make_env: MakeEnv) -> None:
    outcome = shell.run(f"set -a\n{source(make_env())}\ndump active\n")
    assert [name for name in outcome.dumps["active"] if "rocenv" in name.lower()] == []


def test_lists_edited_while_active_keep_the_edits(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    edits = f"PATH=/front:$PATH:/back\nLD_LIBRARY_PATH=/mine:{prefix}/lib64:/theirs\n"
    outcome = shell.run(f"set -eu\ndump before\n{source(prefix)}\n{edits}deactivate\ndump after\n")
    assert outcome.stderr == ""
    base = outcome.dumps["before"]["PATH"]
    assert outcome.dumps["after"] == {
        **outcome.dumps["before"],
        "PATH": f"/front:{base}:/back",
        "LD_LIBRARY_PATH": "/mine:/theirs",
    }


def test_an_entry_that_was_there_before_stays(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    script = f"LD_LIBRARY_PATH=/a:{prefix}/lib; export LD_LIBRARY_PATH\n{source(prefix)}\n"
    outcome = shell.run(script + "LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/b\ndeactivate\ndump after\n")
    assert outcome.dumps["after"]["LD_LIBRARY_PATH"] == f"{prefix}/lib:/a:/b"


def test_a_list_reduced_to_our_entries_becomes_unset_again(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    edit = f"LD_LIBRARY_PATH={prefix}/lib\n"
    outcome = shell.run(f"dump before\n{source(prefix)}\n{edit}deactivate\ndump after\n")
    assert outcome.dumps["after"] == outcome.dumps["before"]


@pytest.mark.parametrize("value", ["mine", "C:", "", "a:x{prefix}/rocm", "{prefix}/rocm/"])
def test_a_variable_changed_while_active_stays_changed_and_is_named(
    shell: Shell, make_env: MakeEnv, value: str
) -> None:
    prefix = make_env()
    value = value.replace("{prefix}", str(prefix))
    script = f"set -eu\nROCM_PATH=/opt; export ROCM_PATH\n{source(prefix)}\nHIP_PATH={value}\n"
    script += f"unset ROCM_PATH LD_LIBRARY_PATH\nHIP_PATH_57={value}\nexport HIP_PATH_57\n"
    outcome = shell.run(f"{script}deactivate\ndump after\n")
    after = outcome.dumps["after"]
    assert (after["HIP_PATH"], after["HIP_PATH_57"]) == (value, value)
    assert not {"ROCM_PATH", "LD_LIBRARY_PATH"} & set(after)
    message = outcome.stderr.splitlines()[-1]
    assert message.endswith(": ROCM_PATH HIP_PATH HIP_PATH_57")


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"LD_LIBRARY_PATH": ""},
        {"LD_LIBRARY_PATH": "/opt/rocm/lib", "HIP_PATH": "/opt/rocm", "HIP_PATH_57": "/57", "EMPTY": "x"},
        {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "", "HIP_PATH_61": "x"},
        dict.fromkeys(WATCHED, "old"),
    ],
)
def test_what_the_machine_had_is_reported(shell: Shell, make_env: MakeEnv, before: dict[str, str]) -> None:
    before.pop("LD_PRELOAD", None)
    prefix = make_env()
    outcome = shell.run(f"set -eu\n{source(prefix)}\n", {"PATH": "/usr/bin:/bin", **before})
    named = [name for line in outcome.stderr.splitlines() for name in line.rpartition(": ")[2].split()]
    assert sorted(named) == sorted(
        conflicts(expand(CHANGES, str(prefix)), WATCHED, {"PATH": "/bin", **before})
    )


def test_executed_it_says_what_to_type(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env(folder="my env")
    for name in (str(prefix / "activate"), "../my env/activate"):
        done = subprocess.run(
            [*shell.argv, name], cwd=shell.folder, capture_output=True, text=True, check=False, timeout=30
        )
        assert done.returncode == 33
        assert f"  . '{prefix}/activate'" in done.stderr


def test_it_is_not_executable_and_can_be_sourced_from_a_function(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    assert (prefix / "activate").stat().st_mode & 0o777 == 0o644
    script = (
        f"f() {{ {source(prefix)}; }}\ndump before\nf\ndump active\ng() {{ deactivate; }}\ng\ndump after\n"
    )
    outcome = shell.run(script)
    assert_applied(outcome, prefix)
    assert outcome.dumps["after"] == outcome.dumps["before"]


@pytest.mark.parametrize("active", [False, True])
def test_an_env_that_has_moved_changes_nothing_and_says_so(
    shell: Shell, make_env: MakeEnv, active: bool
) -> None:
    other, prefix = make_env("other"), make_env("demo")
    moved = prefix.rename(prefix.with_name("moved"))
    script = f"set -u\n{source(other) if active else ''}\ndump before\n"
    script += f"if {source(moved)}; then echo yes; else echo no $?; fi\n"
    script += f"dump after\n{'deactivate' if active else ''}\nset | grep -i _rocenv_\n"
    outcome = shell.run(script)
    assert outcome.stdout == "no 1\n"
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert str(prefix) in outcome.stderr
    assert "rocenv list" in outcome.stderr


def test_an_env_removed_while_active_can_still_be_left(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    script = f"dump before\n{source(prefix)}\nrm -r {quote(str(prefix))}\n"
    outcome = shell.run(f"{script}deactivate\ndump after\n")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_a_child_shell_starts_and_ends_where_its_parent_is(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    child = shell.folder / "child"
    child.write_text(f"set -eu\n{source(prefix)}\ndeactivate\n/usr/bin/env -0 >dump.child\n")
    inner = " ".join(map(quote, [*shell.argv, str(child)]))
    outcome = shell.run(f"{source(prefix)}\ndump active\n{inner}\n")
    ignored = {"SHLVL", "OLDPWD"}
    assert {k: v for k, v in outcome.dumps["child"].items() if k not in ignored} == {
        k: v for k, v in outcome.dumps["active"].items() if k not in ignored
    }
    assert outcome.stderr == ""


def test_a_venv_below_keeps_its_own_deactivate(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env(changes=(*CHANGES, set_("VIRTUAL_ENV", "{prefix}/venv")))
    venv = "VIRTUAL_ENV=/v; export VIRTUAL_ENV\ndeactivate() { unset VIRTUAL_ENV; unset -f deactivate; }\n"
    script = f"set -eu\ndump before\n{venv}dump venv\n{source(prefix)}\n{source(prefix)}\n"
    outcome = shell.run(f"{script}rocenv_deactivate\ndump back\ndeactivate\ndump after\n")
    assert "leave this env with `rocenv_deactivate`" in outcome.stderr
    assert outcome.dumps["back"] == outcome.dumps["venv"]
    assert outcome.dumps["after"] == outcome.dumps["before"]
    # Whoever leaves the venv first can still leave the env, and then has `deactivate` for nothing.
    script = f"set -eu\ndump before\n{venv.replace('VIRTUAL_ENV', 'OTHER')}{source(prefix)}\ndeactivate\n"
    outcome = shell.run(f"{script}rocenv_deactivate\ndump after\ncommand -v deactivate || echo none\n")
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert outcome.stdout == "none\n"


def test_a_venv_on_top_that_takes_deactivate_away_leaves_a_way_out(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    script = f"set -eu\ndump before\n{source(prefix)}\ndeactivate() {{ unset -f deactivate; }}\ndeactivate\n"
    outcome = shell.run(script + f"{source(prefix)}\ndeactivate\ndump after\n")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.dumps["after"] == outcome.dumps["before"]


def test_no_process_is_started(shell: Shell) -> None:
    def forbid_processes() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        if os.getuid() == 0:  # the limit is not for root
            os.setgroups([])
            os.setgid(54321)
            os.setuid(54321)

    # An unprivileged user must be able to read it.
    folder = Path(tempfile.mkdtemp(prefix="activate"))
    try:
        folder.chmod(0o755)
        (folder / ".rocenv").mkdir()
        (folder / ".rocenv" / "record.json").touch()
        write_activation(folder, "demo", CHANGES)
        readable = make_shell(shell.name, folder)
        readable.folder.chmod(0o777)
        script = f"{source(folder)}\n{source(folder)}\nHIP_PATH=x\nPS1=y\ndeactivate\necho reached\n"
        environ = {"PATH": "/nonexistent", "HSA_OVERRIDE_GFX_VERSION": "1", "ROCM_PATH": "/opt"}
        assert readable.run(script, environ, preexec_fn=forbid_processes).stdout == "reached\n"
        control = make_shell("dash", folder).run(
            "x=$(:)\necho reached\n", environ, preexec_fn=forbid_processes
        )
        assert control.stdout == ""
    finally:
        shutil.rmtree(folder)


def test_programs_are_found_anew(shell: Shell, make_env: MakeEnv) -> None:
    prefix = make_env()
    for folder in (prefix / "bin", shell.folder / "old"):
        folder.mkdir()
        (folder / "tool").write_text(f"#!/bin/sh\necho {folder.name}\n")
        (folder / "tool").chmod(0o755)
    script = f"PATH={shell.folder}/old:$PATH\ntool\n{source(prefix)}\ntool\ndeactivate\ntool\n"
    assert shell.run(script).stdout == "old\nbin\nold\n"


VALUE = st.text(
    st.one_of(
        st.sampled_from("'\"$`\\!%:;&|<>()[]{}*?~#= \t\n\r-\u2018漢\udcff"),
        st.characters(codec="utf-8", exclude_characters="\0"),
    ),
    max_size=12,
)


@pytest.mark.parametrize("name", SHELLS)
def test_every_value_arrives_byte_for_byte(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    shell = make_shell(name, tmp_path_factory.mktemp("values"))
    prefix = shell.folder / "env"
    (prefix / ".rocenv").mkdir(parents=True)
    (prefix / ".rocenv" / "record.json").touch()

    entry = VALUE.map(lambda text: text.replace(":", "") or "x")
    changes_of = st.lists(
        st.one_of(
            st.builds(set_, st.sampled_from(["T_a", "T_b", "_T1"]), VALUE),
            st.builds(prepend, st.sampled_from(["T_a", "T_list", "PATH"]), entry),
            st.builds(unset, st.sampled_from(["T_a", "T_b"])),
        ),
        max_size=6,
    )

    @settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changes_of, st.dictionaries(st.sampled_from(["T_a", "T_b", "T_list"]), VALUE))
    def check(changes: list[object], before: dict[str, str]) -> None:
        write_activation(prefix, "demo", changes)  # type: ignore[arg-type]
        outcome = shell.run(
            ROUND_TRIP.format(before="set -eu", activate=source(prefix)), {"PATH": "/usr/bin:/bin", **before}
        )
        expanded = expand(changes, str(prefix))  # type: ignore[arg-type]
        assert outcome.dumps["active"] == apply(expanded, outcome.dumps["before"])
        assert outcome.dumps["after"] == outcome.dumps["before"]

    check()


@pytest.mark.parametrize("prefix", ["/a:b", "/a\nb", "/a\x1bb"])
def test_a_prefix_that_cannot_stand_in_a_list_is_refused(prefix: str) -> None:
    with pytest.raises(PrefixError):
        activation_script("demo", prefix, CHANGES)


def test_a_script_replaces_an_older_one_whole(make_env: MakeEnv) -> None:
    prefix = make_env()
    linked = prefix / "linked"
    os.link(prefix / "activate", linked)
    before = linked.read_bytes()
    files = sorted(prefix.rglob("*"))
    write_activation(prefix, "demo", [set_("A", "b")])
    assert linked.read_bytes() == before
    assert b"A='b'" in (prefix / "activate").read_bytes()
    assert sorted(prefix.rglob("*")) == files


def test_shells_are_there() -> None:
    for argv in SHELLS.values():
        assert program(argv[0])
