"""`rocenv complete`: candidates for a word, in the format that every hook reads."""

from __future__ import annotations

import inspect
import os
from typing import TYPE_CHECKING

import click
import pytest

from rocenv import cli
from rocenv.activate.shells import HOOKS, SHELLS
from rocenv.commands import candidates
from rocenv.config import DEFAULTS
from rocenv.data.load import load
from rocenv.explain import explain, find
from rocenv.explain.phrases import plain
from rocenv.explain.selection import Filters, select
from rocenv.probe.ladder import RUNGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.commands.lab import Lab

MATRIX = load()
# These commands take the name of an existing env.
ENV_VERBS = [
    "show",
    "run",
    "launch",
    "activate",
    "verify",
    "shim",
    "repair",
    "remove",
    "rename",
    "clone",
    "lock",
]
ODD_NAMES = [
    "a b",
    "it's",
    'q"q',
    "$(touch canary)",
    "`x`",
    "漢字",
    "a;b",
    "a&b",
    "%n",
    "#x",
    "!!",
    "a=b",
    "[a]",
    "\\",
]
BAD_NAMES = ["a\nb", "a\tb", "\x1b[31m", "\udcff", "\u202e", "-n", ".hidden", ".demo.1.removing"]


def complete(lab: Lab, *words: str) -> list[str]:
    """Return the values that a shell offers."""
    return [line.partition("\t")[0] for line in lines(lab, *words)]


def lines(lab: Lab, *words: str) -> list[str]:
    done = lab.run("complete", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    text = os.fsdecode(done.stdout)
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert not text or text.endswith("\n")
    found = text.splitlines()
    assert all(line.count("\t") <= 1 for line in found)
    return found


class TestCommands:
    def test_commands_are_offered_with_their_help_except_hidden_ones(self, lab: Lab) -> None:
        assert lines(lab, "") == [f"{verb}\t{text}" for verb, (_, text) in cli.COMMANDS.items()]
        assert complete(lab, "comp") == []

    def test_commands_are_completed_from_a_prefix(self, lab: Lab) -> None:
        assert complete(lab, "re") == ["repair", "rename", "remove", "resolve"]
        assert complete(lab, "create") == ["create"]
        assert complete(lab, "no such") == []

    def test_completing_commands_imports_no_other_command(self, lab: Lab) -> None:
        imported = lab.modules("complete", "")
        assert {name for name in imported if name.startswith("rocenv.commands.")} == {
            "rocenv.commands.complete"
        }

    def test_options_are_completed_with_their_help_and_offered_once(self, lab: Lab) -> None:
        assert complete(lab, "-") == ["-V", "--version", "-h", "--help"]
        target = "--target\tThe GPU: a target (gfx1100) or a product ('RX 6750 XT'). Default: this machine's."
        assert target in lines(lab, "create", "--")
        assert complete(lab, "create", "--ta") == ["--target"]
        assert complete(lab, "create", "x", "--no-") == ["--no-torch", "--no-guard", "--no-verify"]
        assert complete(lab, "create", "--yes", "-") == complete(lab, "create", "x", "--yes", "-")
        assert "--yes" not in complete(lab, "create", "--yes", "-")

    def test_subcommands_are_completed(self, lab: Lab) -> None:
        assert complete(lab, "config", "") == ["get", "mirrors", "path", "set", "unset"]
        assert complete(lab, "cache", "cl") == ["clear"]
        assert complete(lab, "cache", "clear", "") == ["artifacts", "indices", "wheels", "kernels"]

    def test_each_command_completes_its_own_options(self, lab: Lab) -> None:
        assert complete(lab, "--help") == complete(lab, "create", "--help") == ["--help"]
        assert complete(lab, "--ver") == ["--version"]
        for words in (
            (),
            ("",) * 3,
            ("--", ""),
            ("frob", ""),
            ("complete", ""),
            ("--json", ""),
            ("-x", "--y=", ""),
        ):
            lines(lab, *words)
        assert complete(lab) == complete(lab, "complete", "") == []


class TestEnvs:
    @pytest.mark.parametrize("verb", ENV_VERBS)
    def test_only_complete_envs_are_offered(self, lab: Lab, verb: str) -> None:
        for name in ("second", "first", *ODD_NAMES):
            lab.env(name)
        (lab.env("partly") / ".rocenv" / "record.json").unlink()
        (lab.home / "envs" / "foreign").mkdir()
        (lab.home / "envs" / "file").touch()
        assert complete(lab, verb, "") == sorted(["first", "second", *ODD_NAMES])
        assert complete(lab, verb, "fi") == ["first"]
        assert complete(lab, verb, "nothing") == []
        assert not list(lab.root.rglob("canary*"))

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_unusual_env_names_are_completed(self, lab: Lab, name: str) -> None:
        lab.env(name)
        assert name in complete(lab, "show", name[:1])
        assert complete(lab, "show", name) == [name]

    def test_envs_with_invalid_names_are_not_offered(self, lab: Lab) -> None:
        for name in BAD_NAMES:
            lab.env(name)
        assert set(complete(lab, "show", "")) <= {"-n"}

    def test_a_missing_home_has_no_candidates(self, lab: Lab) -> None:
        assert complete(lab, "show", "") == []
        assert not lab.home.exists()
        lab.home.touch()
        assert complete(lab, "show", "") == []

    @pytest.mark.parametrize("verb", ["create", "rename demo", "clone demo", "show demo", "activate demo"])
    def test_envs_are_not_offered_where_another_value_is_expected(self, lab: Lab, verb: str) -> None:
        lab.env("demo")
        assert complete(lab, *verb.split(), "") == []

    @pytest.mark.parametrize(
        "words", ["run demo", "run demo --", "run demo -- ls", "run demo ls", "launch demo --"]
    )
    def test_the_command_to_run_is_not_completed(self, lab: Lab, words: str) -> None:
        lab.env("demo")
        for word in ("", "-", "--", "--a", "d"):
            assert complete(lab, *words.split(), word) == [], word

    def test_launch_options_can_follow_the_name(self, lab: Lab) -> None:
        lab.env("demo")
        assert complete(lab, "launch", "demo", "--a") == complete(lab, "launch", "--a") == ["--app"]
        assert complete(lab, "launch", "demo", "webui.bat", "--a") == []
        assert complete(lab, "launch", "demo", "--app", "sd") == ["sdnext"]


class TestValues:
    @pytest.mark.parametrize(
        "words", ["create x --target", "resolve --target", "matrix --target", "verify x --target"]
    )
    def test_targets_are_offered_with_their_product_names(self, lab: Lab, words: str) -> None:
        row = MATRIX.targets["gfx1031"]
        assert lines(lab, *words.split(), "gfx1031") == [f"gfx1031\t{row.products}"]
        assert complete(lab, *words.split(), "") == list(MATRIX.targets)

    @pytest.mark.parametrize("verb", ["create x", "resolve", "matrix"])
    @pytest.mark.parametrize(
        ("option", "newer", "older"),
        [("--rocm", "6.4.2", "5.7.1"), ("--zluda", "3.9.5", "3.8.4"), ("--torch", "2.10", "2.7")],
    )
    def test_versions_are_listed_newest_first(
        self, lab: Lab, verb: str, option: str, newer: str, older: str
    ) -> None:
        platform = "windows" if option == "--zluda" else "linux"
        found = complete(lab, *verb.split(), "--platform", platform, option, "")
        near = [version for version in found if version.startswith((newer, older))]
        assert near[0].startswith(newer) and near[-1].startswith(older), found
        assert complete(lab, *verb.split(), option, "nothing") == []

    def test_only_the_last_target_of_a_list_is_completed(self, lab: Lab) -> None:
        found = complete(lab, "create", "x", "--target", "gfx1100,gfx120")
        assert found == ["gfx1100,gfx1200", "gfx1100,gfx1201"]

    def test_offered_versions_depend_on_the_platform(self, lab: Lab) -> None:
        sdk = {row.version for row in MATRIX.hip_sdk}
        sets = {row.version for row in MATRIX.rocm}
        here = set(complete(lab, "create", "--rocm", ""))
        there = set(complete(lab, "create", "--platform=windows", "--rocm", ""))
        assert sets <= here and sdk <= there
        assert not (sdk - sets - {row.version for row in MATRIX.rocm_wheels}) & here
        assert sdk | sets <= set(complete(lab, "matrix", "--rocm", ""))

    @pytest.mark.parametrize("part", ["rocm", "torch", "zluda"])
    def test_every_offered_version_can_be_resolved(self, lab: Lab, part: str) -> None:
        for version in complete(lab, "matrix", f"--{part}", ""):
            assert select(MATRIX, Filters(**{part: version})), version

    def test_python_versions_are_completed(self, lab: Lab) -> None:
        found = complete(lab, "create", "--python", "3.1")
        assert found[0] == max(found, key=lambda text: int(text.removeprefix("3.")))
        assert {"3.10", "3.11", "3.12"} <= set(found)

    def test_channels_are_completed(self, lab: Lab) -> None:
        assert "amd\tAMD's own packages" in lines(lab, "create", "--channel", "")
        assert "hip-sdk" in complete(lab, "create", "--platform", "windows", "--channel", "")
        assert "hip-sdk" not in complete(lab, "create", "--channel", "")

    def test_apps_are_completed(self, lab: Lab) -> None:
        assert complete(lab, "launch", "--app", "") == [row.key for row in MATRIX.launcher]

    def test_choices_are_completed(self, lab: Lab) -> None:
        lab.env("demo")
        assert complete(lab, "create", "--platform", "") == ["linux", "windows"]
        assert complete(lab, "verify", "demo", "--upto", "") == list(RUNGS)
        assert complete(lab, "hook", "") == list(HOOKS)
        serving = [name for name, shell in SHELLS.items() if "linux" in shell.platforms]
        assert complete(lab, "activate", "demo", "--shell", "") == serving
        assert "cmd" not in serving

    def test_explain_completes_targets_releases_and_variables(self, lab: Lab) -> None:
        found = complete(lab, "explain", "")
        wanted = {"gfx1031", "rocm-6.1", "hip-sdk-6.4", "zluda-3.9.5", "torch-2.9", "gfx1031-pack"}
        assert wanted | {"HSA_OVERRIDE_GFX_VERSION", "zluda", "pack", "sdnext-3414"} <= set(found)
        assert not any(" " in thing for thing in found)
        assert "Radeon RX 6750 XT" in complete(lab, "explain", "Radeon RX 67")
        assert complete(lab, "explain", "RX", "67") == []

    def test_everything_that_explain_offers_can_be_explained(self, lab: Lab) -> None:
        things = complete(lab, "explain", "")
        assert explain(things[-1], MATRIX).title
        assert [thing for thing in things if not find(plain(thing), MATRIX)] == []

    def test_setting_keys_are_completed(self, lab: Lab) -> None:
        lab.home.mkdir()
        lab.config.write_text("[mirrors]\n'https://a.b/' = 'https://c/'\n")
        for verb in ("get", "set", "unset"):
            assert complete(lab, "config", verb, "defaults.") == [f"defaults.{name}" for name in DEFAULTS]
            assert complete(lab, "config", verb, "m") == ["mirrors", "mirrors.https://a.b/"]
        assert complete(lab, "config", "set", "defaults.rocm", "") == []

    @pytest.mark.parametrize("words", ["create --from", "lock demo -o"])
    def test_file_arguments_are_completed_by_the_shell(self, lab: Lab, words: str) -> None:
        assert lines(lab, *words.split(), "") == lines(lab, *words.split(), "/etc/pas") == [":files"]

    @pytest.mark.parametrize(
        "words", ["trust", "trust --check", "verify x --save-artifacts", "launch --write-shortcut"]
    )
    def test_folder_arguments_are_completed_by_the_shell(self, lab: Lab, words: str) -> None:
        assert lines(lab, *words.split(), "") == lines(lab, *words.split(), "./a b") == [":folders"]


class TestOneWord:
    """Words of the form `--option=value`, which only bash splits."""

    def test_a_value_is_completed_within_an_unsplit_word(self, lab: Lab) -> None:
        assert complete(lab, "create", "--target=gfx103")[:2] == ["--target=gfx1030", "--target=gfx1031"]
        assert complete(lab, "create", "--platform=") == ["--platform=linux", "--platform=windows"]
        assert complete(lab, "launch", "demo", "--app=sd") == ["--app=sdnext"]
        assert complete(lab, "create", "--frob=") == []
        assert lines(lab, "create", "--from=") == [":files"]

    def test_options_are_completed_as_bash_splits_them(self, lab: Lab) -> None:
        assert complete(lab, "create", "--target", "=", "gfx103")[:2] == ["gfx1030", "gfx1031"]
        assert complete(lab, "create", "--target", "=") == list(MATRIX.targets)
        assert complete(lab, "create", "--target", "=", "gfx1031", "--rocm", "=", "6.4.2") == ["6.4.2"]
        assert complete(lab, "create", "--target", "=", "gfx1031", "--ta") == []
        assert complete(lab, "create", "--frob", "=") == []
        assert lines(lab, "create", "--from", "=", "a") == [":files"]

    def test_urls_and_names_are_completed_as_bash_splits_them(self, lab: Lab) -> None:
        lab.env("a=b")
        assert complete(lab, "show", "a", "=", "b") == complete(lab, "show", "a", "=") == ["b"]
        lab.config.write_text("[mirrors]\n'https://a.b/' = 'https://c/'\n")
        assert complete(lab, "config", "get", "mirrors.https", ":", "//a") == ["//a.b/"]
        assert complete(lab, "config", "get", "mirrors.https", ":") == ["//a.b/"]

    def test_separators_in_unusual_positions_are_handled(self, lab: Lab) -> None:
        for words in (
            ("=",),
            (":", "="),
            ("create", "="),
            ("create", "=", "="),
            ("create", "--x", ":=", "="),
            ("==",),
        ):
            lines(lab, *words)


class TestFailures:
    @pytest.mark.parametrize(
        "words", [("show", ""), ("create", "--target", ""), ("config", "get", ""), ("",)]
    )
    def test_broken_settings_cause_no_error(self, lab: Lab, words: tuple[str, ...]) -> None:
        lab.env("demo")
        lab.config.write_text("x = = 1")
        lines(lab, *words)

    @pytest.mark.parametrize("words", [("create", "--target", ""), ("explain", ""), ("launch", "--app", "")])
    def test_broken_data_files_cause_no_error(self, lab: Lab, words: tuple[str, ...]) -> None:
        folder = lab.root / "profiles"
        folder.mkdir()
        lab.environ["ROCENV_PROFILES"] = str(folder)
        assert lines(lab, *words) == []
        (folder / "x.toml").write_text("schema = 1\n[[frob]]\n")
        assert lines(lab, *words) == []

    def test_words_that_are_not_utf8_are_handled(self, lab: Lab) -> None:
        for words in ((b"\xff",), (b"show", b"\xff\n\x1b"), (b"create", b"--target=\xff"), (b"-\xff", b"")):
            done = lab.run("complete", *words)
            assert (done.returncode, done.stderr) == (0, b"")
            assert not done.stdout or words[-1] == b""

    def test_many_or_long_words_are_handled(self, lab: Lab) -> None:
        lines(lab, *["x"] * 5000, "")
        lines(lab, "create", "x" * 100_000)
        lines(lab, "create", "--rocm=" + "9" * 100_000)

    def test_a_closed_pipe_causes_no_error(self, lab: Lab) -> None:
        done = lab.run("complete", "", before=["sh", "-c", '"$@" | :', "sh"])
        assert done.stderr == b""


def parameters(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    """Yield the parameters for a command and its subcommands."""
    for parameter in command.params:
        yield f"{path} {parameter.name}", parameter
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from parameters(child, f"{path} {name}")


# New names, and values that only the user knows.
WITHOUT_CANDIDATES = {
    *("create name", "rename new", "clone new", "run argv", "launch argv", "config set value"),
    *("create driver", "resolve driver", "verify timeout_s"),
    "kernels build blender app_version",
    *("fleet verify partition", "fleet verify listed", "fleet verify timeout_s"),
}


def test_every_parameter_has_candidates_if_possible() -> None:
    for verb in cli.COMMANDS:
        command = cli.load_command(verb)
        for path, parameter in parameters(command, verb):
            if getattr(parameter, "is_flag", False) or path in WITHOUT_CANDIDATES:
                continue
            known = isinstance(parameter.type, (click.Choice, click.Path))
            assert known or parameter._custom_shell_complete is not None, path


def test_every_candidate_function_is_used() -> None:
    used = set()
    for verb in cli.COMMANDS:
        command = cli.load_command(verb)
        used |= {parameter._custom_shell_complete for _, parameter in parameters(command, verb)}
    own = inspect.getmembers(candidates, inspect.isfunction)
    public = {
        each for name, each in own if not name.startswith("_") and each.__module__ == candidates.__name__
    }
    assert public <= used
