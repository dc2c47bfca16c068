"""The command line as seen by users and scripts: usage, exit codes, JSON."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rocenv
from rocenv import cli
from rocenv.commands import envs as envs_commands
from tests import forked
from tests.crash.lab import tree
from tests.debs import file
from tests.loopback import HTML, Fault
from tests.mini import LIBRARIES

if TYPE_CHECKING:
    from tests.mini import Mini

GOLDEN = Path(__file__).parent / "ui"
MEM = ("mem show", "mem watch", "mem probe", "mem model", "mem settings")
SUBCOMMANDS = (
    "config get",
    "config set",
    "config unset",
    "config path",
    "config mirrors",
    "cache clear",
    *MEM,
    "fleet verify",
    "fleet report",
)


def pool_path(mini: Mini, name: str) -> str:
    """Return a package's URL path on the server."""
    (built,) = (built for built in mini.repo.packages if built.name == name)
    return f"/debian/{built.path}"


def replace_in_pool(mini: Mini, name: str, version: str, **more: Any) -> None:
    """Replace a package on the mirror with a different version."""
    mini.repo.remove(name)
    mini.repo.add(name, version, [file(f"./{LIBRARIES}/librocblas.so.5", f"of {version}")], **more)
    mini.repo.publish()


# Import commands in new processes, because `tests.forked` imports everything and hides missing imports.
EACH_ALONE = """\
import importlib, os, pkgutil, traceback
import rocenv.cli, rocenv.commands

failed = []
for module in pkgutil.iter_modules(rocenv.commands.__path__, "rocenv.commands."):
    if (child := os.fork()) == 0:
        try:
            importlib.import_module(module.name)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        failed.append(module.name)
print(*failed)
"""


class TestUsage:
    @pytest.mark.quick
    @pytest.mark.parametrize("verb", ["", *cli.COMMANDS, *SUBCOMMANDS])
    def test_help_of_each_command_matches_the_golden_file(self, tmp_path: Path, verb: str) -> None:
        """The files are in `tests/ui`; ROCENV_WRITE_GOLDEN=1 updates them."""
        environ = {**os.environ, "COLUMNS": "100", "ROCENV_HOME": str(tmp_path / "home")}
        done = forked.run_text([*verb.split(), "--help"], env=environ)
        assert (done.returncode, done.stderr) == (0, "")
        golden = GOLDEN / f"{verb.replace(' ', '-') or 'rocenv'}.txt"
        if os.environ.get("ROCENV_WRITE_GOLDEN"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(done.stdout)
        assert done.stdout == golden.read_text()
        assert not (tmp_path / "home").exists(), "showing the help does not create files"

    def test_every_command_imports_what_it_needs(self) -> None:
        done = subprocess.run([sys.executable, "-c", EACH_ALONE], capture_output=True, text=True, check=True)
        assert not done.stdout.split(), done.stderr

    @pytest.mark.quick
    @pytest.mark.parametrize("option", ["--version", "-V"])
    def test_the_version_is_printed(self, mini: Mini, option: str) -> None:
        done = mini.run(option)
        assert (done.returncode, done.stdout) == (0, f"rocenv {rocenv.__version__}\n")

    @pytest.mark.parametrize(
        ("argv", "same"),
        [
            (("help",), ("--help",)),
            (("help", "create"), ("create", "--help")),
            (("help", "mem", "watch"), ("mem", "watch", "--help")),
            (("help", "kernels", "build", "blender"), ("kernels", "build", "blender", "--help")),
            (("help", "help"), ("--help",)),
            (("help", "run", "demo", "--", "touch", "x"), ("run", "--help")),
            (("ls", "--json"), ("list", "--json")),
            (("rm", "none"), ("remove", "none")),
        ],
    )
    def test_aliases_of_commands_work(self, mini: Mini, argv: tuple[str, ...], same: tuple[str, ...]) -> None:
        done, other = mini.run(*argv), mini.run(*same)
        assert (done.returncode, done.stdout, done.stderr) == (other.returncode, other.stdout, other.stderr)

    def test_every_suggested_command_exists(self) -> None:
        assert set(cli._ELSEWHERE.values()) | set(cli.ALIASES.values()) <= set(cli.COMMANDS)
        assert not set(cli._ELSEWHERE) & {*cli.COMMANDS, *cli.ALIASES}

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (("frob",), "no command `frob`"),
            (("craete", "x"), "did you mean `rocenv create`?"),
            (("install",), "did you mean `rocenv create`?"),
            (("updaet", "x"), "did you mean `rocenv upgrade`?"),
            (("show",), "error: missing argument `NAME`"),
            (("list", "--frob"), "error: there is no option `--frob`"),
            (("gc", "--yess"), "hint: did you mean `--yes`?"),
            (("create", "--trch"), "hint: did you mean `--torch`?\nhint: see `rocenv create --help`"),
            (("create", "--target"), "hint: see `rocenv create --help`"),
            (("create", "x", "--torch", "2", "--no-torch"), "use either --torch or --no-torch"),
            (("create", "x", "--rocm", "abc"), "`abc` is not a valid version for `--rocm`"),
            (("create", "x", "--from", "a.lock", "--rocm", "5.7"), "--from specifies the whole set"),
            (("create", "x", "--rocm", ">=" + "9" * 5000), "it is longer than 200 characters"),
            (("matrix", "--torch", "9" * 5000), "it is longer than 200 characters"),
            (("create", "x", "--platform", "amiga"), "--platform"),
            (("verify", "x", "--upto", "moon"), "`moon` is not one of `files`"),
            (("verify", "x", "--timeout", "0"), "--timeout"),
            (("verify", "x", "--timeout", "inf"), "--timeout"),
            (("run", "x"), "missing argument"),
            (("run", "x", "--"), "no command to run"),
            (("cache", "clear", "everything"), "everything"),
            (("config", "get"), "KEY"),
            (("list", "extra"), "extra"),
        ],
    )
    def test_invalid_arguments_are_usage_errors(
        self, mini: Mini, argv: tuple[str, ...], message: str
    ) -> None:
        done = mini.run(*argv)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert message in done.stderr
        assert not mini.home.exists() or "abc" in argv

    def test_the_name_of_an_argument_stays_in_capitals(self, mini: Mini) -> None:
        assert "error: FILE is empty" in mini.run("diagnose", "").stderr

    def test_help_is_shown_without_arguments(self, mini: Mini) -> None:
        done = mini.run()
        assert done.returncode == 2
        assert "Usage: rocenv" in done.stderr

    @pytest.mark.parametrize("verb", ["show", "run", "activate", "verify", "repair", "remove", "lock"])
    def test_a_missing_env_is_an_error(self, mini: Mini, verb: str) -> None:
        done = mini.run(verb, "no such", *(("--", "true") if verb == "run" else ()))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "error: there is no env `no such`\n\nhint: create it: `rocenv create 'no such' --torch`\n"
        )

    def test_there_is_no_color_or_progress_without_a_terminal(self, mini: Mini) -> None:
        mini.create()
        for argv in (("list",), ("show", "demo"), ("verify", "demo", "--upto", "files"), ("gc",), ("nope",)):
            done = mini.run(*argv, FORCE_COLOR="")
            assert "\x1b" not in done.stdout + done.stderr


def test_stdout_and_stderr_keep_their_order_in_one_pipe(mini: Mini) -> None:
    command = mini.command("create", "demo", "--rocm", "5.7", "--no-verify", "--json")
    done = subprocess.run(command, env=mini.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert 0 < done.stdout.index('"prefix"') < done.stdout.index("activate it")


def document(mini: Mini, *argv: str, code: int = 0) -> dict[str, Any]:
    """Return a command's JSON document."""
    done = mini.run(*argv, "--json")
    assert done.returncode == code, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


class TestJson:
    def test_every_reporting_command_prints_json(self, mini: Mini) -> None:
        created = document(mini, "create", "demo", "--rocm", "5.7", "--no-verify")
        assert list(created) == ["env", "prefix", "plan", "verify"]
        assert created["prefix"] == str(mini.prefix("demo"))
        assert created["verify"] is None
        plan = document(mini, "resolve", "--rocm", "5.7")
        assert plan == created["plan"] == document(mini, "create", "x", "--rocm", "5.7", "--dry-run")
        assert list(plan) == [
            *("request", "platform", "target", "runs_as", "components", "environment", "warnings", "notes")
        ]
        (part,) = plan["components"]
        assert {key: part[key] for key in ("kind", "version", "channel", "own_glibc")} == {
            "kind": "rocm",
            "version": "5.7.1",
            "channel": "mini",
            "own_glibc": False,
        }
        assert [list(each) for each in part["artifacts"]] == [
            ["name", "version", "url", "sha256", "size_bytes"]
        ] * 2
        assert "{prefix}" in plan["environment"]["ROCM_PATH"]
        (listed,) = document(mini, "list")["envs"]
        assert list(listed) == [
            *("name", "state", "prefix", "platform", "target", "created", "components", "verified")
        ]
        shown = document(mini, "show", "demo")
        assert shown["environment"]["ROCM_PATH"] == f"{mini.prefix('demo')}/rocm/usr"
        text = mini.run("show", "demo").stdout
        assert f"ROCM_PATH={mini.prefix('demo')}/rocm/usr\n" in text
        assert ":$PATH\n" in text
        assert {key: shown[key] for key in listed} == listed
        assert [each["name"] for each in shown["packages"]] == ["mini5-blas", "mini5-hip"]
        (files,) = mini.prefix("demo").glob(".rocenv/files-*.json")
        assert (shown["files"], shown["own_loader"]) == (len(json.loads(files.read_text())), "")
        verified = document(mini, "verify", "demo", "--upto", "files")
        assert (verified["env"], verified["level"]) == ("demo", "files")
        assert [(rung["rung"], rung["status"]) for rung in verified["rungs"]] == [("files", "passed")]
        assert document(mini, "list")["envs"][0]["verified"] == "files"
        assert document(mini, "repair", "demo") == {"env": "demo", "repaired": []}
        assert document(mini, "gc") == {"freed": False, "size_bytes": 0, "packages": []}
        kept = document(mini, "cache")
        assert [part["name"] for part in kept["cache"]] == ["artifacts", "indices", "wheels", "kernels"]
        assert kept["size_bytes"] == sum(part["size_bytes"] for part in kept["cache"]) > 1000
        mini.run("config", "set", "defaults.rocm", "6.4")
        assert document(mini, "config", "get", "defaults.rocm") == {"key": "defaults.rocm", "value": "6.4"}
        locked = document(mini, "lock", "demo")
        assert locked == json.loads(mini.run("lock", "demo").stdout)
        assert locked["schema"] == 2
        assert all(
            each.keys() >= {"url", "sha256", "size_bytes"} for each in locked["components"][0]["artifacts"]
        )

    @pytest.mark.parametrize(
        ("argv", "code", "error"),
        [
            (("show", "nosuch"), 1, "env-missing"),
            (("lock", "nosuch"), 1, "env-missing"),
            (("config", "get", "defaults.rocm"), 1, "config-unset"),
            (("create", "../x"), 1, "env-name"),
            (("create", "demo", "--rocm", "9"), 1, "resolution-impossible"),
            (("resolve", "--rocm", "x"), 2, "usage"),
            (("resolve", "--frob"), 2, "usage"),
            (("create", "demo", "--target", "rtx4090"), 1, "target-unknown"),
            (("create", "demo", "--target", "gfx90a:xnack-"), 1, "target-unknown"),
            (("create", "demo", "--rocm", "5.7", "--offline"), 1, "offline"),
            (("create", "demo", "--from", "no.lock"), 1, "data-invalid"),
        ],
    )
    def test_errors_are_printed_as_json(
        self, mini: Mini, argv: tuple[str, ...], code: int, error: str
    ) -> None:
        answer = document(mini, *argv, code=code)
        assert answer["error"] == error
        assert answer["message"]
        assert isinstance(answer["hints"], list)
        if error == "resolution-impossible":
            assert [sorted(each) for each in answer["conflict"]] == [
                ["component", "found", "requirement", "source"]
            ]
            (suggestion, *_) = answer["suggestions"]
            assert suggestion["components"] == [{"kind": "rocm", "version": "6.4.3"}]
            done = mini.run(*shlex.split(suggestion["command"])[1:])
            assert done.returncode == 0, "the suggested command must work"

    def test_every_error_code_is_documented(self) -> None:
        root = Path(__file__).parents[1]
        documented = set(re.findall(r"`([a-z-]+)`", (root / "docs" / "json.md").read_text()))
        source = "".join(path.read_text() for path in (root / "src").rglob("*.py"))
        codes = set(re.findall(r'\bcode ?= ?"([a-z-]+)"', source))
        of_run = {
            "command-not-found",
            "command-not-executable",
        }  # `run` does not print a document
        assert len(codes) > 30
        assert codes - of_run <= documented

    def test_the_explanation_of_conflicting_requirements_is_short_and_has_sources(self, mini: Mini) -> None:
        other = mini.run("resolve", "--rocm", "9").stderr
        assert "rocenv has no ROCm release that matches 9, only 6.4.3, 5.7.1" in other
        assert "[tests/mini.py]" in other, "each fact must have a source"
        unknown = mini.run("resolve", "--target", "gfx9999").stderr
        expected = "ROCm 6.4.3 from channel mini is not built for gfx9999; it is built for gfx1030, gfx1100"
        assert expected in unknown

    def test_create_without_a_gpu_requires_a_target(self, mini: Mini) -> None:
        done = mini.run("create", "demo", "--rocm", "5.7", "--json", ROCENV_TARGET="")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "no-gpu")
        assert '--target "RX 9070 XT"' in done.stderr

    def test_the_origin_of_the_target_is_reported(self, mini: Mini) -> None:
        assert "target gfx1100: set by ROCENV_TARGET" in mini.run("resolve", "--rocm", "5.7").stderr


class TestBugs:
    def test_an_unexpected_error_becomes_a_bug_report(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(_prefix: object) -> None:
            raise ZeroDivisionError("the cause")

        envs = tmp_path / "envs" / "demo" / ".rocenv"
        envs.mkdir(parents=True)
        monkeypatch.setenv("ROCENV_HOME", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.setattr(envs_commands, "summary", broken)
        with pytest.raises(SystemExit) as ended:
            cli.main(["list"])
        assert ended.value.code == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert "ZeroDivisionError: the cause" in err
        assert "Traceback" not in err, "only the bug report contains the traceback"
        match = re.search(r"report it with `(.+)`", err)
        assert match is not None
        report = Path(match[1]).read_text()
        for part in ("`rocenv list`", "Traceback", "in broken", f"rocenv {rocenv.__version__}", "Python 3"):
            assert part in report

    @pytest.mark.parametrize(
        "argv",
        [("list",), ("lock", "demo"), ("show", "demo", "--json"), ("show", "none", "--json"), ("--help",)],
    )
    def test_a_closed_pipe_is_not_reported_as_a_bug(self, mini: Mini, argv: tuple[str, ...]) -> None:
        mini.create()
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            mini.command(*argv), env=mini.env, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=30
        )
        os.close(writer)
        assert done.returncode in (0, 1), done.stderr
        for word in ("Traceback", "Exception", "Broken", "unexpected"):
            assert word not in done.stderr


class TestCreate:
    @pytest.mark.quick
    def test_commands_printed_by_create_work(self, mini: Mini) -> None:
        done = mini.run("create", "demo", "--rocm", "5.7", "--no-verify")
        assert (done.returncode, done.stdout) == (0, "")
        assert "rocm 5.7.1" in done.stderr
        match = re.search(r"activate it:  (.+)", done.stderr)
        assert match is not None
        shell = subprocess.run(
            ["sh", "-c", f"{match[1]} && hipconfig"], env=mini.env, capture_output=True, text=True, timeout=20
        )
        assert shell.stdout == "hipconfig of the env\n", shell.stderr
        match = re.search(r"run one command:  rocenv (.+) python3", done.stderr)
        assert match is not None
        assert mini.run(*shlex.split(match[1]), "hipconfig").stdout == "hipconfig of the env\n"

    def test_creating_an_env_with_an_existing_name_is_an_error(self, mini: Mini) -> None:
        mini.create()
        before = tree(mini.home / "envs")
        requests = len(mini.server.requests)
        done = mini.run("create", "demo", "--rocm", "6.4", "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "env-exists")
        assert "hint: or remove it: `rocenv remove demo`" in done.stderr
        assert tree(mini.home / "envs") == before
        assert len(mini.server.requests) == requests

    def test_a_second_env_with_the_same_set_downloads_nothing_and_shares_every_file(self, mini: Mini) -> None:
        mini.create()
        requests = len(mini.server.requests)
        mini.create("second", ROCENV_OFFLINE="1")
        assert len(mini.server.requests) == requests
        for name in (f"{LIBRARIES}/libamdhip64.so.5.7.1", "usr/bin/hipconfig"):
            assert os.path.samefile(*(mini.prefix(env) / "rocm" / name for env in ("demo", "second")))

    def test_a_web_page_served_as_a_package_is_rejected(self, mini: Mini) -> None:
        path = pool_path(mini, "mini5-blas")
        mini.server.always(path, Fault(body=HTML))
        done = mini.run("create", "demo", "--rocm", "5.7", "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "hash-mismatch")
        assert "mini5-blas" in done.stderr
        assert "web page" in done.stderr
        assert not mini.prefix("demo").exists()
        mini.server.always(path, Fault())
        mini.create()

    def test_a_hostile_package_is_rejected_and_reported(self, mini: Mini) -> None:
        mini.repo.remove("mini5-blas")
        mini.repo.add("mini5-blas", "5.7.1-1", [file("./../../evil", "x")])
        mini.repo.publish()
        done = mini.run("create", "demo", "--rocm", "5.7", "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "archive-refused")
        assert "mini5-blas 5.7.1-1: `./../../evil` points outside" in done.stderr
        assert not any(mini.root.rglob("evil"))
        assert not mini.prefix("demo").exists()

    def test_packages_with_conflicting_files_are_an_error(self, mini: Mini) -> None:
        mini.repo.remove("mini5-blas")
        mini.repo.add("mini5-blas", "5.7.1-1", [file("./usr/bin", "a file where the other has a folder")])
        mini.repo.publish()
        done = mini.run("create", "demo", "--rocm", "5.7", "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "package-conflict")
        assert "`usr/bin`" in done.stderr
        assert mini.run("list").stdout.count("complete") == mini.run("list").stdout.count("incomplete")

    def test_a_damaged_file_in_the_cache_is_downloaded_again(self, mini: Mini) -> None:
        mini.create()
        assert mini.run("remove", "-y", "demo").returncode == 0
        assert mini.run("gc", "-y").returncode == 0
        for path in (mini.home / "cache" / "artifacts").iterdir():
            if not path.suffix:
                path.write_bytes(path.read_bytes()[:-1] + b"\xff")
        done = mini.create()
        assert "was damaged in the cache" in done.stderr
        assert [len(mini.server.seen(pool_path(mini, name))) for name in ("mini5-hip", "mini5-blas")] == [
            2,
            2,
        ]
        assert mini.run("verify", "demo", "--upto", "files").returncode == 0

    @pytest.mark.parametrize("change", ["gone", "replaced"])
    def test_a_cached_index_is_refreshed_once_if_the_mirror_has_changed(
        self, mini: Mini, change: str
    ) -> None:
        assert (
            mini.run("resolve", "--rocm", "5.7").returncode == 0
        )  # caches the index, which is then fresh for a few hours
        replace_in_pool(mini, "mini5-blas", "5.7.1-9" if change == "gone" else "5.7.1-1")
        done = mini.create()
        assert done.stderr.count("the mirror has changed") == 1
        library = mini.prefix("demo") / "rocm" / LIBRARIES / "librocblas.so.5"
        assert library.read_text() == ("of 5.7.1-9" if change == "gone" else "of 5.7.1-1")

    def test_a_mirror_whose_packages_contradict_its_index_is_an_error(self, mini: Mini) -> None:
        right = mini.server.content(pool_path(mini, "mini5-blas"))
        assert right
        mini.server.always(pool_path(mini, "mini5-blas"), Fault(body=right[::-1]))
        done = mini.run("create", "demo", "--rocm", "5.7")
        assert done.returncode == 1
        assert "sha256" in done.stderr
        assert "moved on" not in done.stderr
        assert len(mini.server.seen(pool_path(mini, "mini5-blas"))) <= 2


class TestLocks:
    def test_an_env_from_a_lock_is_identical(self, mini: Mini) -> None:
        mini.create("demo", "--rocm", "6.4")
        lock = mini.root / "my demo.lock"
        done = mini.run("lock", "demo", "-o", str(lock))
        assert (done.returncode, done.stdout) == (0, "")
        assert shlex.quote(str(lock)) in done.stderr
        assert mini.run("lock", "demo").stdout == lock.read_text()
        before = tree(mini.prefix("demo") / "rocm")
        shutil.rmtree(mini.home)
        mini.repo.add("mini6-hip", "6.4.3-2", [])  # a newer package, which must not affect the result
        mini.repo.publish()
        done = mini.run("create", "demo", "--from", str(lock), "--no-verify")
        assert done.returncode == 0, done.stderr
        assert tree(mini.prefix("demo") / "rocm") == before
        assert (mini.prefix("demo") / "rocenv.lock").read_text() == lock.read_text()

    def test_the_closest_set_is_suggested_if_a_locked_package_was_removed(self, mini: Mini) -> None:
        mini.create()
        lock = mini.root / "demo.lock"
        assert mini.run("lock", "demo", "-o", str(lock)).returncode == 0
        shutil.rmtree(mini.home)
        replace_in_pool(mini, "mini5-blas", "5.7.1-9")
        done = mini.run("create", "new", "--from", str(lock), "--json")
        answer = json.loads(done.stdout)
        assert (done.returncode, answer["error"]) == (1, "left-the-mirror")
        assert "mini5-blas" in answer["message"]
        assert "the closest available set is ROCm 5.7.1 from mini" in answer["hints"][0]
        command = shlex.split(answer["hints"][0].split("`")[1])
        assert command[:3] == ["rocenv", "create", "new"]
        assert mini.run(*command[1:], "--no-verify").returncode == 0

    def test_a_locked_package_that_was_removed_is_installed_from_the_cache(self, mini: Mini) -> None:
        mini.create()
        lock = mini.prefix("demo") / "rocenv.lock"
        replace_in_pool(mini, "mini5-blas", "5.7.1-9")
        assert mini.run("create", "new", "--from", str(lock), "--no-verify").returncode == 0
        assert mini.run("clone", "demo", "third").returncode == 0

    @pytest.mark.parametrize("where", ["pipe", "link", "folder"])
    def test_the_lock_command_writes_to_a_pipe_or_link_but_not_to_a_folder(
        self, mini: Mini, where: str
    ) -> None:
        mini.create()
        text = mini.run("lock", "demo").stdout
        place = mini.root / "place"
        if where == "pipe":
            done = mini.run("lock", "demo", "-o", "/dev/stdout")
            assert (done.returncode, done.stdout) == (0, text)
        elif where == "link":
            (mini.root / "real").write_text("old")
            place.symlink_to("real")
            assert mini.run("lock", "demo", "-o", str(place)).returncode == 0
            assert place.is_symlink()
            assert (mini.root / "real").read_text() == text
        else:
            place.mkdir()
            done = mini.run("lock", "demo", "-o", str(place))
            assert done.returncode == 1
            assert f"cannot write `{place}`" in done.stderr


@pytest.fixture
def demo(mini: Mini) -> Mini:
    mini.create()
    return mini


PRINT_ARGUMENTS = "import sys; print(sys.argv[1:])"


class TestRun:
    @pytest.mark.parametrize("code", [0, 1, 2, 3, 7, 126, 255])
    def test_run_passes_on_the_exit_code(self, demo: Mini, code: int) -> None:
        assert demo.run("run", "demo", "--", "sh", "-c", f"exit {code}").returncode == code

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
    def test_run_ends_with_the_signal_that_killed_the_program(
        self, demo: Mini, number: signal.Signals
    ) -> None:
        assert demo.run("run", "demo", "--", "sh", "-c", f"kill -{number.value} $$").returncode == -number

    @pytest.mark.quick
    @pytest.mark.parametrize("set_", ["5.7", "6.4"])
    def test_run_passes_on_arguments_unchanged(self, mini: Mini, set_: str) -> None:
        mini.create("demo", "--rocm", set_)
        argv = [
            "",
            "a b",
            "it's",
            '"$HOME" `x` \\n',
            "line\nbreak",
            "--json",
            "--help",
            "--",
            "-x",
            "日本語",
            "*",
        ]
        for separator in (["--"], []):
            done = mini.run("run", "demo", *separator, sys.executable, "-c", PRINT_ARGUMENTS, *argv)
            assert (done.returncode, done.stdout) == (0, f"{argv}\n"), done.stderr

    def test_run_connects_the_programs_streams(self, demo: Mini) -> None:
        data = bytes(range(256)) * 1000
        script = "cat; echo to stderr >&2"
        command = demo.command("run", "demo", "--", "sh", "-c", script)
        done = subprocess.run(command, env=demo.env, input=data, capture_output=True, timeout=30)
        assert (done.stdout, done.stderr) == (data, b"to stderr\n")

    def test_a_program_started_by_run_ignores_the_same_signals_as_the_caller(self, demo: Mini) -> None:
        # Python ignores SIGPIPE, and programs inherit ignored signals.
        mask = ["grep", "SigIgn", "/proc/self/status"]
        plain = subprocess.run(mask, capture_output=True, text=True, check=True, timeout=20).stdout
        assert demo.run("run", "demo", "--", *mask).stdout == plain

    @pytest.mark.parametrize("set_", ["5.7", "6.4"])
    def test_run_uses_the_same_environment_as_an_activated_shell(self, mini: Mini, set_: str) -> None:
        mini.create("demo", "--rocm", set_)
        before = {**mini.env, "LD_LIBRARY_PATH": "/l:/m", "ROCM_PATH": "/opt/rocm", "ODD": "line\nbreak"}
        command = mini.command("run", "demo", "--", "env", "-0")
        run = subprocess.run(command, env=before, cwd="/", capture_output=True, text=True, timeout=30)
        script = f". {shlex.quote(str(mini.prefix('demo') / 'activate'))} && env -0"
        shell = subprocess.run(
            ["sh", "-c", script], env=before, cwd="/", capture_output=True, text=True, timeout=30
        )

        def lines_of(text: str) -> set[str]:
            own = ("PWD=", "OLDPWD=", "SHLVL=", "_=")  # set by shells
            return {each for each in text.split("\0") if not each.startswith(own)}

        assert lines_of(run.stdout) == lines_of(shell.stdout)
        assert f"ROCM_PATH={mini.prefix('demo')}/rocm/usr" in lines_of(run.stdout)

    def test_a_missing_rocm_tool_is_reported_with_the_command_that_adds_it(self, demo: Mini) -> None:
        lacking = demo.run("run", "demo", "--", "hipcc").stderr
        assert "a set for gfx1100 that contains `hipcc`" in lacking, (
            "in this data, --dev adds nothing to any set"
        )
        data = demo.env.pop("ROCENV_PROFILES")
        done = demo.run("run", "demo", "--", "hipcc", "--version")
        no_env = demo.run("launch", "comfyui").stderr
        demo.env["ROCENV_PROFILES"] = data
        assert "`rocenv create --app comfyui`" in no_env
        assert done.returncode == 127
        command = re.search(
            r"no set with ROCm 5\.7 contains .*tools, but .*: `rocenv create demo2 (.*)`", done.stderr
        )
        assert command, done.stderr
        assert "--channel therock" in command[1] and "--rocm 1" in command[1] and "--dev" in command[1], (
            "without these options, `create` would fall back to a set like this one"
        )
        other = demo.run("run", "demo", "--", "nosuch", "--version").stderr
        assert "--dev" not in other

    def test_a_program_that_cannot_start_returns_126_or_127(self, demo: Mini) -> None:
        (demo.root / "plain").write_text("echo hello")
        (demo.root / "odd").write_text("#!/no/such/interpreter\n")
        (demo.root / "odd").chmod(0o755)
        for program, code in (
            ("nosuch", 127),
            ("./nosuch", 127),
            ("./plain", 126),
            ("/", 126),
            ("./odd", 126),
        ):
            done = demo.run("run", "demo", "--", program)
            assert (done.returncode, done.stdout) == (code, ""), done.stderr
            assert done.stderr.startswith("error: "), done.stderr
            assert program in done.stderr

    def test_a_script_without_an_interpreter_runs_in_sh(self, demo: Mini) -> None:
        (demo.root / "script").write_text('echo "$# $1 $ROCM_PATH"\n')
        (demo.root / "script").chmod(0o755)
        done = demo.run("run", "demo", "--", "./script", "a b")
        assert done.stdout == f"1 a b {demo.prefix('demo')}/rocm/usr\n", done.stderr

    def test_running_a_program_in_an_incomplete_env_is_an_error(self, demo: Mini) -> None:
        (demo.prefix("demo") / ".rocenv" / "record.json").unlink()
        done = demo.run("run", "demo", "--", "true")
        assert done.returncode == 1
        assert "is incomplete" in done.stderr
        assert "hint: rocenv remove demo" in done.stderr


class TestActivate:
    def test_activate_prints_the_command_to_type(self, demo: Mini) -> None:
        done = demo.run("activate", "demo")
        assert done.returncode == 1
        script = f"{done.stdout}\nhipconfig && deactivate && ! command -v hipconfig"
        shell = subprocess.run(["sh", "-c", script], env=demo.env, capture_output=True, text=True, timeout=20)
        assert (shell.returncode, shell.stdout) == (0, "hipconfig of the env\n"), shell.stderr

    @pytest.mark.quick
    def test_activate_with_the_shell_option_prints_the_script(self, demo: Mini) -> None:
        done = demo.run("activate", "demo", "--shell", "sh")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == (demo.prefix("demo") / "activate").read_text()


class TestHousekeeping:
    def test_gc_frees_only_unused_packages(self, demo: Mini) -> None:
        demo.create("other", "--rocm", "6.4")
        assert demo.run("remove", "-y", "demo").returncode == 0
        answer = document(demo, "gc")
        assert (answer["freed"], len(answer["packages"])) == (False, 2)
        freed = document(demo, "gc", "-y")
        assert freed == {**answer, "freed": True}
        assert document(demo, "gc") == {"freed": False, "size_bytes": 0, "packages": []}
        assert demo.run("verify", "other", "--upto", "files").returncode == 0
        demo.create(ROCENV_OFFLINE="1")

    def test_gc_keeps_the_packages_of_a_moved_env(self, demo: Mini) -> None:
        demo.prefix("demo").rename(demo.prefix("moved"))
        assert document(demo, "gc", "-y")["packages"] == []

    def test_gc_can_clear_parts_of_the_cache(self, demo: Mini) -> None:
        assert demo.run("cache", "clear", "indices").returncode == 0
        sizes = {part["name"]: part["size_bytes"] for part in document(demo, "cache")["cache"]}
        assert sizes["indices"] == 0 < sizes["artifacts"]
        assert demo.run("cache", "clear").returncode == 0
        assert document(demo, "cache")["size_bytes"] == 0
        assert demo.run("verify", "demo", "--upto", "files").returncode == 0

    def test_clone_omits_files_that_the_user_added(self, demo: Mini) -> None:
        (demo.prefix("demo") / "mine.txt").write_text("x")
        assert demo.run("clone", "demo", "copy").returncode == 0
        assert not (demo.prefix("copy") / "mine.txt").exists()
        assert demo.run("verify", "copy", "--upto", "files").returncode == 0
        done = demo.run("clone", "nosuch", "third")
        assert done.returncode == 1
        assert "`nosuch`" in done.stderr

    def test_configured_defaults_apply_and_can_be_overridden(self, mini: Mini) -> None:
        for key, value in (("rocm", "5.7"), ("torch", "*")):
            assert mini.run("config", "set", f"defaults.{key}", value).returncode == 0
        plan = document(mini, "resolve", "--no-torch")
        assert plan["components"][0]["version"] == "5.7.1"
        assert "torch" not in plan["request"]
        assert document(mini, "resolve", "--no-torch", "--rocm", "6.4")["components"][0]["version"] == "6.4.3"
        assert document(mini, "resolve", code=1)["error"] == "resolution-impossible"

    def test_config_set_get_and_unset_work_together(self, mini: Mini) -> None:
        assert mini.run("config", "get", "defaults.rocm").returncode == 1
        assert mini.run("config", "set", "defaults.rocm", ">=6.1,<6.3").returncode == 0
        assert mini.run("config", "get", "defaults.rocm").stdout == ">=6.1,<6.3\n"
        assert mini.run("config", "path").stdout == f"{mini.home / 'config.toml'}\n"
        assert mini.run("config", "unset", "defaults.rocm").returncode == 0
        assert mini.run("config", "get", "defaults.rocm").returncode == 1

    def test_list_shows_the_state_of_each_env(self, demo: Mini) -> None:
        (demo.prefix("half") / ".rocenv").mkdir(parents=True)
        (demo.prefix("theirs")).mkdir()
        (demo.prefix("theirs") / "x").write_text("x")
        demo.create("odd")
        (demo.prefix("odd") / ".rocenv" / "record.json").write_text("{}")
        states = {env["name"]: env["state"] for env in document(demo, "list")["envs"]}
        assert states == {
            "demo": "complete",
            "half": "incomplete",
            "odd": "damaged",
            "theirs": "foreign",
        }
        text = demo.run("list").stdout
        assert "(incomplete)" in text
        assert "(damaged)" in text
        assert "`rocenv show theirs`" in text

    def test_verify_succeeds_even_if_its_result_cannot_be_saved(self, demo: Mini) -> None:
        with contextlib.suppress(FileNotFoundError):
            (demo.prefix("demo") / ".rocenv" / "verified.json").unlink()
        (demo.prefix("demo") / ".rocenv" / "verified.json").mkdir()
        (demo.root / "file").touch()  # replaces the results folder of users who cannot write to the env
        done = demo.run("verify", "demo", "--upto", "files", XDG_STATE_HOME=str(demo.root / "file"))
        assert done.returncode == 0
        assert "could not save the result" in done.stderr
