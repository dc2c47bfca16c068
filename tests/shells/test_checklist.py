"""The activation checklist, line by line, in every applicable shell.

`scripts/test-shells` prints the result as a table. `test_neighbours.py` tests the line about other tools, and
`tests/windows/test_cmd.py` tests the lines about cmd. Tests of each shell's peculiarities are in separate
files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.activate.changes import apply, expand
from rocenv.activate.env import ident, label
from rocenv.activate.shells import SHELLS
from tests.shells.driver import CHANGES, prepend, program, set_
from tests.users import unprivileged

if TYPE_CHECKING:
    from tests.shells.driver import Outcome, Work

line = pytest.mark.checklist

HOSTILE = {
    3: "a space",
    4: "it's",
    5: 'a"b',
    6: "$HOME ${PATH}",
    7: "`touch canary`",
    8: "$(touch canary) (touch canary)",
    9: ";touch canary&|<>&& touch canary",
    10: "*?[a]{b,c}**",
    11: "a\\b\\",
    12: "!! !touch ^a^b",
    13: "%n %d %% %PATH%",
    14: "漢字 é \N{GRINNING FACE}",
    15: "~ -n",
}
ROCENV = Path(sys.executable).with_name("rocenv")
EVERYTHING = "".join(HOSTILE.values())


def assert_applied(outcome: Outcome, prefix: Path) -> None:
    assert outcome.dumps["active"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])


def assert_no_canary(work: Work) -> None:
    assert [str(path) for path in work.folder.rglob("canary*")] == []


# ---------------------------------------------------------------- strict shells


@line(1, 2)
def test_activation_and_deactivation_in_strict_shells(work: Work) -> None:
    prefix = work.env()
    for name, mode in work.driver.modes.items():
        outcome = work.round_trip(prefix, mode)
        assert_applied(outcome, prefix)
        assert outcome.stderr == "", name


@line(2)
def test_deactivating_without_an_env_is_reported(work: Work) -> None:
    outcome = work.run(work.hook(), work.driver.call("rocenv", "deactivate"), work.driver.say_status())
    assert outcome.stdout.split("\n")[0] == "status 0", outcome
    assert "no env is active" in outcome.stderr


# ---------------------------------------------------------------- hostile names and values


@line(*HOSTILE)
def test_paths_are_never_run_as_code(work: Work) -> None:
    names = [text.replace("/", "") for text in HOSTILE.values()]
    # Each string is the last folder of one prefix; one more prefix has all of them as parent folders.
    prefixes = {str(number): work.env(folder=name) for number, name in zip(HOSTILE, names, strict=True)}
    prefixes["start"] = work.env(folder=Path(*(name.lstrip() for name in names)) / "~x" / "-n")
    steps = [
        step
        for key, prefix in prefixes.items()
        for step in (work.enter(prefix), work.dump(key), work.driver.leave())
    ]
    for locale in ("C", "C.UTF-8"):
        outcome = work.run(
            *(work.dump("before"), *steps, work.dump("after"), work.driver.say("reached")),
            environ={**work.environ, "LC_ALL": locale, "LANG": locale},
        )
        assert (outcome.status, outcome.stdout.split(), outcome.stderr) == (0, ["reached"], ""), outcome
        for key, prefix in prefixes.items():
            expected = apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
            assert outcome.dumps[key] == expected, (key, locale)
        assert outcome.dumps["after"] == outcome.dumps["before"]
    assert_no_canary(work)


@line(18)
def test_values_are_preserved(work: Work) -> None:
    texts = [
        *HOSTILE.values(),
        EVERYTHING,
        "a\nb\n",
        "\t a  b ",
        "-n",
        "~",
        "~root",
        "=",
        "",
        "\u2018x\u2019",
    ]
    texts += [
        EVERYTHING[::-1],
        "a'\"'\"'b",
        "'",
        '"',
        "\\'",
        "#x",
        "a=b=c",
        "$",
        "\\",
        "'''",
        "'#",
        '"#',
        "\x01\x7f",
    ]
    changes = [set_(f"T_{index}", text) for index, text in enumerate(texts)]
    changes += [prepend("T_list", text) for text in texts if text and ":" not in text]
    prefix = work.env(changes=changes)
    before = {f"T_{index}": text for index, text in enumerate(reversed(texts))} | {
        "T_list": "a:b b:$(touch canary)"
    }
    outcome = work.round_trip(prefix, environ={**work.environ, **before})
    assert outcome.dumps["active"] == apply(expand(changes, str(prefix)), outcome.dumps["before"])
    assert outcome.dumps["before"]["T_list"] == before["T_list"]
    assert_no_canary(work)


@line(19)
def test_text_like_a_placeholder_in_a_path_is_unchanged(work: Work) -> None:
    prefix = work.env(folder="{prefix}{name}{rocm} FUNCTIONS __VIRTUAL_ENV__ %s {0}")
    assert_applied(work.round_trip(prefix), prefix)


@line(8, 20)
def test_an_env_name_in_the_prompt_is_shown_and_never_run(work: Work) -> None:
    name = "$(touch canary)`touch canary`%n%(?.a.b)\\u\\$(touch canary)!!${HOME}{prefix}(touch canary)"
    prefix = work.env(name, folder="$(touch canary)`touch canary`(touch canary)")
    shown = work.driver.talk(work, [work.enter(prefix), work.driver.say("again"), work.driver.leave()])
    assert f"({label(name)}) #> " in shown[0]
    assert f"({label(name)}) #> " in shown[1]
    assert f"({label(name)})" not in shown[2].splitlines()[-1]
    assert_no_canary(work)


@line(16)
@pytest.mark.parametrize("folder", ["a:b", "a\nb", "a\x1bb"])
def test_create_rejects_a_folder_that_path_cannot_contain(tmp_path: Path, folder: str) -> None:
    home = tmp_path / folder
    done = subprocess.run(
        [ROCENV, "create", "demo", "--rocm", "5.7", "--target", "gfx1100", "--offline", "--yes"],
        env={**os.environ, "ROCENV_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    said = [text for text in done.stderr.splitlines() if text.startswith("error: ")]
    why = "separates the entries of PATH" if ":" in folder else "control characters"
    assert len(said) == 1 and why in said[0]
    assert not (home / "envs" / "demo").exists()


# ---------------------------------------------------------------- activation


@line(22)
def test_activating_an_env_twice_has_the_effect_of_activating_it_once(work: Work) -> None:
    prefix = work.env()
    enter = work.enter(prefix)
    outcome = work.run(
        work.dump("before"),
        enter,
        work.dump("once"),
        enter,
        enter,
        work.dump("twice"),
        work.driver.leave(),
        work.dump("after"),
    )
    assert outcome.dumps["twice"] == outcome.dumps["once"] != outcome.dumps["before"]
    assert outcome.dumps["after"] == outcome.dumps["before"]


@line(28)
def test_activation_adds_no_empty_entries_to_empty_lists(work: Work) -> None:
    prefix = work.env()
    for before in (
        [work.driver.put("LD_LIBRARY_PATH", ""), work.driver.put("PATH", "")],
        [work.driver.erase("PATH")],
    ):
        outcome = work.round_trip(prefix, *before)
        assert_applied(outcome, prefix)
        assert outcome.dumps["active"]["LD_LIBRARY_PATH"] == f"{prefix}/lib64:{prefix}/lib"
        assert "" not in outcome.dumps["active"]["PATH"].split(":")


@line(47)
def test_activation_reports_previous_values(work: Work) -> None:
    prefix = work.env()
    replaced = ["HIP_PATH", "HIP_PATH_57", "ROCM_PATH"]
    acting = ["HIP_PATH_61", "HIP_PATH_62", "HIP_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION"]
    outcome = work.round_trip(
        prefix, environ={**work.environ, **dict.fromkeys([*replaced, *acting], "/opt/x")}
    )
    assert_applied(outcome, prefix)
    for text, names in (("replaced until you deactivate the env", replaced), ("still in effect", acting)):
        said = next((said for said in outcome.stderr.splitlines() if text in said), "")
        assert sorted(said.rpartition(":")[2].split()) == names


# ---------------------------------------------------------------- deactivation


@line(21, 23, 24, 25, 26)
def test_deactivation_restores_previous_values(work: Work) -> None:
    prefix = work.env()
    befores: tuple[dict[str, str], ...] = (
        {},
        {"LD_LIBRARY_PATH": "", "HIP_PATH": "", "EMPTY": "", "HIP_PATH_57": ""},
        {"LD_LIBRARY_PATH": "/a::/b:", "HIP_PATH_57": "/5", "HIP_PATH": " ", "EMPTY": "no"},
        {"LD_LIBRARY_PATH": ":"},
        {"LD_LIBRARY_PATH": f"/x:{prefix}/lib64:/y:{prefix}/lib:{prefix}/lib:/"},
        {
            "HIP_PATH": f"{prefix}/rocm",
            "ROCM_PATH": f"{prefix}/rocm",
            "PATH": f"/usr/bin:{prefix}/bin:/bin:{prefix}/bin",
        },
    )
    for before in befores:
        outcome = work.round_trip(prefix, environ={**work.environ, **before})
        assert_applied(outcome, prefix)
        assert outcome.dumps["active"]["PATH"] == f"{prefix}/bin:/usr/bin:/bin", (
            "the entry is first and occurs once"
        )
        assert before.items() <= outcome.dumps["before"].items()


@line(27)
def test_deactivation_keeps_edits_to_lists(work: Work) -> None:
    prefix = work.env()
    for given in ({}, {"LD_LIBRARY_PATH": "/old"}):
        outcome = work.run(
            work.dump("before"),
            work.enter(prefix),
            work.driver.surround("PATH", "/front", "/back"),
            work.driver.surround("LD_LIBRARY_PATH", "/mine", "/theirs"),
            work.driver.leave(),
            work.dump("after"),
            environ={**work.environ, **given},
        )
        assert "so not restored" not in outcome.stderr
        old = "".join(f"{value}:" for value in given.values())
        assert outcome.dumps["after"] == {
            **outcome.dumps["before"],
            "PATH": f"/front:{work.environ['PATH']}:/back",
            "LD_LIBRARY_PATH": f"/mine:{old}/theirs",
        }


@line(29)
def test_a_variable_changed_while_active_is_kept_and_reported(work: Work) -> None:
    prefix = work.env()
    change = [
        work.driver.put("HIP_PATH", "mine"),
        work.driver.put("HIP_PATH_57", "new"),
        work.driver.erase("EMPTY"),
    ]
    outcome = work.run(
        work.dump("before"), work.enter(prefix), *change, work.driver.leave(), work.dump("after")
    )
    assert outcome.dumps["after"] == {**outcome.dumps["before"], "HIP_PATH": "mine", "HIP_PATH_57": "new"}
    (said,) = outcome.stderr.splitlines()
    assert "so not restored" in said
    assert sorted(said.rpartition(":")[2].split()) == ["EMPTY", "HIP_PATH", "HIP_PATH_57"]


@line(30)
def test_deactivating_an_env_returns_to_the_previous_one(work: Work) -> None:
    first, second = work.env("first"), work.env("second", folder="sec ond")
    outcome = work.run(
        work.dump("before"),
        work.enter(first),
        work.dump("first"),
        work.enter(second),
        work.dump("second"),
        work.driver.leave(),
        work.dump("back"),
        # Activate the envs in the opposite order; deactivation must return to the previous one.
        work.enter(second),
        work.enter(first),
        work.dump("again"),
        work.driver.leave(),
        work.dump("after"),
    )
    dumps = outcome.dumps
    assert outcome.stderr == ""
    assert dumps["second"] == apply(expand(CHANGES, str(second)), dumps["first"])
    assert dumps["again"] == dumps["back"] == dumps["first"] != dumps["before"]
    assert dumps["after"] == dumps["before"]


@line(32)
def test_deactivation_leaves_nothing_behind(work: Work) -> None:
    first, second = work.env("first"), work.env("second")
    outcome = work.run(
        work.driver.put("HSA_OVERRIDE_GFX_VERSION", "1"),
        work.enter(first),
        work.enter(second),
        work.enter(second),
        work.driver.put("HIP_PATH", "changed"),
        work.driver.leave(),
        work.driver.leave(),
        work.driver.say("listing"),
        work.driver.list_names(),
        environ={**work.environ, "ROCENV_HOME": ""},
    )
    listing = outcome.stdout.partition("listing")[2].lower().replace("rocenv_home", "")
    assert "path" in listing
    # The name of the folder in which the tests run may contain "rocenv".
    assert "rocenv" not in listing.replace(str(work.folder).lower(), "")
    assert "deactivate" not in listing


@line(32)
def test_rocenvs_internal_variables_are_not_exported(work: Work) -> None:
    outcome = work.run(work.enter(work.env()), work.hook(), work.dump("active"))
    assert [name for name in outcome.dumps["active"] if "rocenv" in name.lower()] == []


@line(25)
@pytest.mark.own_variables
def test_shell_variables_stay_unexported(work: Work) -> None:
    outcome = work.run(
        work.driver.put_own("HIP_PATH", "mine"),
        work.enter(work.env()),
        work.dump("active"),
        work.driver.leave(),
        work.dump("after"),
    )
    assert outcome.dumps["active"]["HIP_PATH"].endswith("/demo/rocm")
    assert "HIP_PATH" not in outcome.dumps["after"]


# ---------------------------------------------------------------- the prompt


@line(34)
def test_the_prompt_is_kept_and_not_exported(work: Work) -> None:
    names = "/usr/bin/env | /usr/bin/grep -cE '^(PS1|PROMPT|prompt|fish_prompt)='"
    lines = [work.enter(work.env()), work.driver.call("/bin/sh", "-c", names), work.driver.leave()]
    shown = work.driver.talk(work, lines)
    assert "\n0" in shown[1].replace("\r", "\n")
    assert shown[0].rstrip().endswith("(demo) #>")
    assert shown[2].rstrip().endswith("#>") and not shown[2].rstrip().endswith("(demo) #>")


@line(35)
def test_the_prompt_marker_can_be_disabled(work: Work) -> None:
    shown = work.driver.talk(work, [work.enter(work.env()), work.driver.leave()], ROCENV_DISABLE_PROMPT="1")
    assert "(demo)" not in "".join(shown)


# ---------------------------------------------------------------- unusual shells


@line(36)
def test_redefined_commands_do_not_affect_the_script(work: Work) -> None:
    prefix = work.env()
    for name, code in work.driver.oddities.items():
        outcome = work.run(
            work.driver.put("HIP_PATH", "old"),
            work.dump("before"),
            code,
            work.enter(prefix),
            work.dump("active"),
            work.driver.leave(),
            work.dump("after"),
        )
        assert [*work.folder.rglob("canary")] == [], f"{name}: {outcome}"
        assert_applied(outcome, prefix)
        assert outcome.dumps["after"] == outcome.dumps["before"], name


@line(37)
def test_executing_the_script_explains_how_to_source_it(work: Work) -> None:
    script = work.script(work.env())
    done = subprocess.run(
        work.driver.argv(script), env=work.environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert SHELLS[work.driver.name].source(str(script)) in done.stderr


@line(38)
def test_deactivate_in_a_child_shell_explains_the_inherited_env(work: Work) -> None:
    prefix = work.env()
    child = work.folder / f"child{work.driver.suffix}"
    ask = [work.hook(), work.driver.call("rocenv", "deactivate"), work.driver.say_status()]
    child.write_text("\n".join([*ask, ""]))
    outcome = work.run(work.enter(prefix), work.driver.call("/usr/bin/env", *work.driver.argv(child)))
    assert "status 1" in outcome.stdout
    assert "inherited" in outcome.stderr and "exit" in outcome.stderr
    # Users without the hook run the program itself.
    done = subprocess.run(
        [ROCENV, "deactivate"],
        env={**work.environ, "PATH": f"{prefix}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1 and "inherited" in done.stderr


@line(39)
def test_activating_a_missing_or_moved_env_is_an_error(work: Work) -> None:
    gone, moved = work.env("gone"), work.env("moved")
    (gone / ".rocenv" / "record.json").unlink()
    moved = moved.rename(moved.with_name("elsewhere"))
    for prefix in (gone, moved):
        outcome = work.run(
            work.dump("before"),
            work.driver.attempt(work.enter(prefix)),
            work.driver.say_status(),
            work.dump("after"),
        )
        assert "status" in outcome.stdout and "status 0" not in outcome.stdout, outcome
        assert "no longer exists" in outcome.stderr or "was made for" in outcome.stderr
        assert outcome.dumps["after"] == outcome.dumps["before"]


@line(39)
def test_activating_a_copied_env_is_an_error_but_activating_it_through_a_link_works(work: Work) -> None:
    """Only some shells expose the path of the script that they source."""
    prefix = work.env()
    copy, link = prefix.with_name("copy"), prefix.with_name("link")
    shutil.copytree(prefix, copy, symlinks=True)
    link.symlink_to(prefix)
    outcome = work.run(work.dump("before"), work.enter(link), work.dump("entered"))
    assert outcome.dumps["entered"] == apply(expand(CHANGES, str(prefix)), outcome.dumps["before"])
    if work.driver.name in ("bash", "zsh", "ksh", "fish", "xonsh"):
        outcome = work.run(work.dump("before"), work.driver.attempt(work.enter(copy)), work.dump("after"))
        assert "was made for" in outcome.stderr
        assert outcome.dumps["after"] == outcome.dumps["before"]


@line(39)
def test_a_user_who_cannot_write_to_the_env_gets_caches_in_their_own_home(work: Work) -> None:
    changes = (*CHANGES, set_("TORCH_HOME", "{prefix}/cache/torch"), set_("XDG_CACHE_HOME", "{prefix}/cache"))
    prefix = work.env(changes=changes)
    (prefix / "cache").mkdir()
    own = f"/rocenv/{ident(str(prefix))}"
    for given, chosen in (
        (None, f"{work.folder}/.cache{own}"),
        ("/local/me's", f"/local/me's{own}"),
        ("relative", f"{work.folder}/.cache{own}"),
        (f"/local/me{own}", f"/local/me{own}"),
    ):
        environ = work.environ | ({} if given is None else {"XDG_CACHE_HOME": given})
        for mode, cache, user in ((0o755, "", ()), (0o555, chosen, unprivileged())):
            (prefix / "cache").chmod(mode)
            steps = (work.dump("before"), work.enter(prefix), work.dump("active"), work.driver.leave())
            outcome = work.run(*steps, work.dump("after"), environ=environ, prefix=user)
            assert outcome.dumps["active"] == apply(
                expand(changes, str(prefix), cache), outcome.dumps["before"]
            ), (given, mode)
            assert outcome.dumps["after"] == outcome.dumps["before"]
            assert "changed while" not in outcome.stderr
            assert list((prefix / "cache").iterdir()) == []


@line(39)
def test_an_env_deleted_while_active_can_be_deactivated(work: Work) -> None:
    prefix = work.env()
    outcome = work.run(
        work.dump("before"),
        work.enter(prefix),
        work.driver.call("/bin/rm", "-r", str(prefix)),
        work.driver.leave(),
        work.dump("after"),
    )
    assert outcome.dumps["after"] == outcome.dumps["before"]
    assert outcome.stderr == ""


@line(40)
def test_reactivating_an_env_puts_its_programs_first_on_path_again(work: Work) -> None:
    prefix = work.env()
    base = work.environ["PATH"]
    outcome = work.run(
        work.enter(prefix),
        work.driver.put("PATH", f"/local:{base}:{prefix}/bin"),
        work.enter(prefix),
        work.dump("again"),
        work.driver.leave(),
        work.dump("after"),
    )
    assert outcome.dumps["again"]["PATH"] == f"{prefix}/bin:/local:{base}"
    assert outcome.dumps["after"]["PATH"] == f"/local:{base}"
    # A login shell inside an active env puts system folders first, as on macOS.
    login = work.run(
        work.enter(prefix),
        work.dump("active"),
        work.driver.leave(),
        work.dump("after"),
        environ={**work.environ, "PATH": f"{base}:{prefix}/bin"},
    )
    assert login.dumps["active"]["PATH"] == f"{prefix}/bin:{base}"


@line(41)
def test_activation_in_one_terminal_does_not_affect_another(work: Work) -> None:
    first, second = work.env("first"), work.env("second")

    def tree() -> list[tuple[str, int]]:
        return sorted((str(path), path.lstat().st_mtime_ns) for path in work.home.rglob("*"))

    before = tree()
    other = work.run(work.hook(), work.driver.call("rocenv", "activate", "second"), work.dump("active"))
    one = work.run(
        work.hook(), work.enter(first), work.dump("active"), work.driver.leave(), work.dump("after")
    )
    assert tree() == before, "another terminal could read files that activation writes"
    assert other.dumps["active"]["HIP_PATH"] == f"{second}/rocm"
    assert one.dumps["active"]["HIP_PATH"] == f"{first}/rocm"
    assert "second" not in one.dumps["after"]["PATH"]


def processes(trace: Path) -> int:
    """Return how many processes and programs started, according to strace; threads do not count."""
    lines = trace.read_text().splitlines()
    calls = [call for call in lines if "CLONE_THREAD" not in call and "? ERESTART" not in call]
    return sum(
        "execve(" in call or "fork(" in call or "clone(" in call or "clone3(" in call for call in calls
    )


LAST = "/bin/true"


def strace(trace: Path) -> list[str]:
    calls = "trace=execve,fork,vfork,clone,clone3"
    return [program("strace"), "-f", "--seccomp-bpf", "-qq", "-e", calls, "-o", str(trace)]


@line(45)
def test_activation_starts_no_process(work: Work) -> None:
    prefix, driver, trace = work.env(), work.driver, work.folder / "trace"
    environ = {**work.environ, "HSA_OVERRIDE_GFX_VERSION": "1", "ROCM_PATH": "/opt"}

    def started(*code: str) -> int:
        outcome = work.run(*code, driver.say("reached"), environ=environ, prefix=strace(trace))
        assert outcome.stdout.split() == ["reached"], outcome
        return processes(trace)

    enter, leave = work.enter(prefix), driver.leave()
    nothing = started()
    assert nothing >= 1
    assert started(enter, enter, driver.put("HIP_PATH", "x"), leave) == nothing
    assert started(driver.call("/bin/true")) > nothing, (
        "processes are not counted correctly, so this test would always pass"
    )
    hook = started(work.hook())
    assert (
        started(work.hook(), driver.call("rocenv", "activate", "demo"), driver.call("rocenv", "deactivate"))
        == hook
    )


@line(45)
def test_an_unchanged_prompt_starts_no_process(work: Work) -> None:
    driver, trace = work.driver, work.folder / "trace"
    there = work.folder / "there" / "a" / "b"
    there.mkdir(parents=True)
    (there.parent.parent / ".rocenv").write_text("demo\n")
    # Ignore processes that the shell starts after the terminal closes; elvish starts some.
    once, five_times = [driver.call(LAST)], [*[""] * 5, driver.call(LAST)]
    lines = [driver.change_folder(there), "", *once, *once, *five_times]
    driver.talk(work, lines, first=work.hook(), prefix=strace(trace))
    _before, first, second, _after = trace.read_text().split(f'execve("{LAST}"')
    counts = []
    for part in (first, second):
        trace.write_text(part)
        counts.append(processes(trace))
    assert counts[0] == counts[1]


# ---------------------------------------------------------------- the hook


@line(46)
def test_the_hook_prints_nothing(work: Work) -> None:
    outcome = work.run(work.hook(), work.hook(), work.dump("after"), work.driver.say("reached"))
    assert (outcome.stdout.split(), outcome.stderr) == (["reached"], "")


def test_the_hooks_function_sources_scripts_and_calls_the_program(work: Work) -> None:
    prefix = work.env("my-env")
    driver = work.driver
    outcome = work.run(
        work.hook(),
        work.dump("before"),
        driver.call("rocenv", "activate", "my-env"),
        work.dump("active"),
        driver.call("rocenv", "deactivate"),
        work.dump("after"),
        driver.attempt(driver.call("rocenv", "activate", "no-such")),
        driver.say_status(),
        driver.attempt(driver.call("rocenv", "activate", "../my-env")),
        driver.say_status(),
        driver.call("rocenv", "--version"),
        driver.attempt(driver.call("rocenv", "run", "no such", "--", "a b", "*", "$HOME")),
        driver.say_status(),
    )
    assert_applied(outcome, prefix)
    assert outcome.dumps["after"] == outcome.dumps["before"]
    lines = outcome.stdout.splitlines()
    assert [text for text in lines if text.startswith("status")] == ["status 1", "status 1", "status 1"], (
        outcome
    )
    assert any(text.startswith("rocenv ") for text in lines)
    assert "no-such" in outcome.stderr and "no such" in outcome.stderr


@line(33)
def test_the_hook_preserves_the_exit_code_of_the_last_command(work: Work) -> None:
    driver = work.driver
    there = work.folder / "there"
    there.mkdir()
    (there / ".rocenv").write_text("demo\n")
    work.env()
    lines = [
        driver.call("/bin/sh", "-c", "exit 7"),
        driver.say_status(),
        driver.change_folder(there),
        driver.call("/bin/sh", "-c", "exit 9"),
        driver.say_status(),
    ]
    shown = driver.talk(work, lines, first=f"{work.hook()}\n{work.hook()}")
    assert "status 7" in shown[1] and "status 9" in shown[4], shown


@line(48)
def test_only_trusted_folders_activate_envs(work: Work) -> None:
    driver = work.driver
    there, below = work.folder / "th ere", work.folder / "th ere" / "be'low"
    below.mkdir(parents=True)
    file = there / ".rocenv"
    file.write_text("demo\n")
    demo, other = work.env(), work.env("other")
    path = driver.call("/bin/sh", "-c", 'echo "path=$PATH"')

    def write(name: str) -> str:
        return driver.call("/bin/sh", "-c", f"echo {name} >'{file}'")

    shown = driver.talk(
        work,
        [
            driver.change_folder(below),
            path,
            path,  # 0..2
            driver.call("rocenv", "trust", str(there)),
            path,  # 3..4
            driver.change_folder(there),
            path,  # 5..6
            driver.change_folder(work.folder),
            path,  # 7..8
            driver.change_folder(below),
            path,  # 9..10
            write("other"),
            driver.change_folder(there),
            path,  # 11..13
            driver.call("rocenv", "trust"),
            driver.change_folder(there),
            path,  # 14..16
            driver.change_folder(work.folder),
            path,  # 17..18
        ],
        first=work.hook(),
    )
    assert "rocenv trust" in shown[0], "the message shows the command"
    assert "rocenv trust" not in shown[1] + shown[2], "once"
    assert f"path={demo}/bin:" not in shown[1]
    for index in (4, 6, 10):
        assert f"path={demo}/bin:" in shown[index], shown[index]
    assert f"{demo}/bin" not in shown[8]
    assert "rocenv trust" in shown[11] + shown[12], "a changed file is untrusted again"
    assert f"path={other}/bin:" not in shown[13]
    assert f"path={other}/bin:" in shown[16]
    assert f"{other}/bin" not in shown[18]


@line(48)
def test_leaving_the_folder_keeps_a_manually_activated_env(work: Work) -> None:
    driver = work.driver
    there = work.folder / "there"
    there.mkdir()
    (there / ".rocenv").write_text("demo\n")
    demo, other = work.env(), work.env("other")
    subprocess.run(
        [ROCENV, "trust", there],
        env={**os.environ, **work.environ},
        check=True,
    )
    path = driver.call("/bin/sh", "-c", 'echo "path=$PATH"')
    lines = [
        driver.change_folder(there),
        driver.call("rocenv", "activate", "other"),
        driver.change_folder(work.folder),
        path,  # 3
        driver.call("rocenv", "deactivate"),
        driver.call("rocenv", "deactivate"),
        driver.call("rocenv", "activate", "demo"),
        driver.call("rocenv", "activate", "other"),
        driver.change_folder(there),
        driver.change_folder(work.folder),
        path,  # 10
    ]
    shown = driver.talk(work, lines, first=work.hook())
    assert f"path={other}/bin:" in shown[3]
    assert f"{demo}/bin:" in shown[10], "the user activated the env before entering the folder"
