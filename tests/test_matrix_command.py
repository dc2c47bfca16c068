"""`rocenv matrix` and `rocenv explain` on the command line."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.data.load import load
from rocenv.explain.page import SCREEN
from rocenv.explain.selection import Filters, select
from tests import forked

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

MATRIX = load()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def run(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "ROCENV_HOME": str(home), "PYTHONIOENCODING": "utf-8"}
    environ.pop("ROCENV_PROFILES", None)
    return forked.run_text(argv, env=environ)


def tables(home: Path, *argv: str) -> dict[str, list[dict[str, Any]]]:
    done = run(home, "matrix", "--json", *argv)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    found: dict[str, list[dict[str, Any]]] = document["tables"]
    return found


class TestOverview:
    def test_the_overview_fits_one_screen_and_matches_the_data(self, home: Path) -> None:
        lines = run(home, "matrix").stdout.splitlines()
        assert len(lines) <= SCREEN
        heads = lines[0].partition("  TARGETS ON LINUX")[0].split()
        (row,) = (line for line in lines if "gfx1031 to gfx1036" in line)
        cells = dict(zip(heads, row.split(), strict=False))
        assert (cells["7.2"], cells["10.0+"]) == ("-", "L*"), "release-ready but not supported"
        assert "O supported by AMD" in lines[-3]
        assert "x unsupported" not in "\n".join(lines), "the legend lists only letters in the table"
        assert "`rocenv matrix --full`" in lines[-1]

    def test_a_platform_option_limits_the_overview(self, home: Path) -> None:
        lines = run(home, "matrix", "--platform", "windows").stdout.splitlines()
        heads = lines[0].partition("  TARGETS ON WINDOWS")[0].split()
        (row,) = (line for line in lines if line.endswith("gfx1200, gfx1201"))
        cells = dict(zip(heads, row.split(), strict=False))
        assert (cells["6.2"], cells["10.0+"]) == ("P", "O"), "AMD does not call it release-ready"

    def test_full_shows_every_target_on_every_platform(self, home: Path) -> None:
        lines = run(home, "matrix", "--full").stdout.splitlines()
        for target in MATRIX.targets:
            assert len([line for line in lines if line.startswith(f"{target} ")]) == 2, target
        assert any(line.startswith("gfx1031 ") and line.endswith("gfx1030 (<7)") for line in lines)


class TestRows:
    def test_each_row_shows_its_status_and_source(self, home: Path) -> None:
        text = run(home, "matrix", "--rocm", "6.1", "--target", "gfx1031", "--full").stdout
        long = [line for line in text.splitlines() if len(line) > 100 and "https://" not in line]
        assert long == []
        assert "[sdnext-3414]" in text
        assert "inferred: https://github.com/vladmandic/sdnext/issues/3414" in text, (
            "the full source with its status"
        )

    def test_the_output_fits_on_one_screen_without_full(self, home: Path) -> None:
        lines = run(home, "matrix", "--rocm", ">=6.1,<6.3", "--target", "gfx1031").stdout.splitlines()
        assert len(lines) <= SCREEN
        assert re.fullmatch(
            r"\d+ more: `rocenv matrix --rocm '>=6\.1,<6\.3' --target gfx1031 --full`", lines[-1]
        )

    def test_the_first_page_is_about_the_target(self, home: Path) -> None:
        lines = run(home, "matrix", "gfx1031").stdout.splitlines()
        assert any(line.startswith("  therock wheels 10.") for line in lines)
        assert not any("gfx1100" in line for line in lines), "other targets of the same rows"
        assert lines[-1].endswith("more: `rocenv matrix gfx1031 --full`")

    def test_a_product_name_can_replace_a_target(self, home: Path) -> None:
        assert tables(home, "--target", "RX 6750 XT") == tables(home, "--target", "gfx1031")

    def test_a_target_can_be_given_without_an_option(self, home: Path) -> None:
        found = tables(home, "--target", "gfx1031", "--rocm", "6.2")
        assert tables(home, "gfx1031", "--rocm", "6.2") == tables(home, "RX", "6750", "XT", "--rocm", "6.2")
        assert tables(home, "gfx1031", "--rocm", "6.2") == found
        done = run(home, "matrix", "gfx1031", "--target", "gfx1100")
        assert (done.returncode, "specify only one" in done.stderr) == (2, True)

    def test_json_rows_are_complete_and_ordered(self, home: Path) -> None:
        found = tables(home, "--target", "gfx1031", "--zluda", "3.8.3")
        (incident,) = (row for row in found["verdict"] if row.get("code") == "sdnext-3414")
        assert {"source", "checked", "status", "what", "rocm"} <= incident.keys()
        assert found == tables(home, "--target", "gfx1031", "--zluda", "3.8.3")

    def test_json_contains_all_rows_without_filters(self, home: Path) -> None:
        found = tables(home)
        assert len(found["target"]) == len(MATRIX.targets)
        assert len(found["verdict"]) == len(MATRIX.verdict)
        assert len(found["pack"]) == len(MATRIX.pack)

    def test_a_spec_can_be_a_range(self, home: Path) -> None:
        found = tables(home, "--rocm", ">=6.1,<6.3")
        assert {row["version"] for row in found["rocm"]} == {
            *("6.1.0", "6.1.1", "6.1.2", "6.1.3", "6.1.5"),
            *("6.2.0", "6.2.1", "6.2.2", "6.2.3", "6.2.4"),
        }
        assert {row["version"] for row in found["hip_sdk"]} == {"6.1.2", "6.2.4"}

    def test_a_row_that_contradicts_the_filters_is_omitted(self) -> None:
        found = select(MATRIX, Filters(target="gfx1201", rocm="6.2", platform="windows"))
        assert all("gfx1201" in row.targets for row in MATRIX.pack if row in found["pack"])
        assert "override" not in found
        assert "rocm" not in found, "packages are only for Linux"

    def test_torch_rows_match_the_platform_of_their_wheels(self) -> None:
        linux = select(MATRIX, Filters(torch="2.9", platform="linux"))["torch"]
        assert not any(row.channel == "radeon-windows" for row in MATRIX.torch if row in linux)
        windows = select(MATRIX, Filters(torch="2.9", platform="windows"))["torch"]
        assert {row.channel for row in MATRIX.torch if row in windows} == {"radeon-windows", "therock"}

    def test_negative_facts_are_listed(self) -> None:
        found = select(MATRIX, Filters(rocm="6.4", platform="windows"))
        assert any(getattr(row, "absent", False) for row in found["pack"])
        assert any(getattr(row, "level", "") == "unsupported" for row in found["support"])

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (("--target", "gfx1300"), "unknown target gfx1300; known: gfx"),
            (("--rocm", "9.9"), "unknown rocm 9.9; known: 5."),
            (("--zluda", "3.8.3", "--torch", "1.0"), "unknown torch 1.0"),
        ],
    )
    def test_filters_that_match_no_row_are_an_error(
        self, home: Path, argv: tuple[str, ...], said: str
    ) -> None:
        done = run(home, "matrix", *argv)
        assert done.returncode == 1
        assert said in done.stderr
        document = json.loads(run(home, "matrix", "--json", *argv).stdout)
        assert document["error"] == "no-row"

    def test_an_invalid_version_is_a_usage_error(self, home: Path) -> None:
        done = run(home, "matrix", "--rocm", "banana")
        assert done.returncode == 2
        assert "`banana` is not a valid version for `--rocm`" in done.stderr


class TestExplain:
    def test_the_json_page_of_a_target_has_answers_sources_and_commands(self, home: Path) -> None:
        document = json.loads(run(home, "explain", "gfx1031", "--json").stdout)
        assert (document["thing"], document["kind"]) == ("gfx1031", "target")
        linux, windows = document["answer"]
        assert (linux["label"], linux["status"]) == ("Linux", "maker")
        assert linux["sources"][0].keys() == {"source", "status", "checked"}
        assert windows["text"].startswith("unofficial")
        assert {section["title"] for section in document["sections"]} >= {"Linux", "Windows"}
        assert all(
            step["command"].startswith(("rocenv create ", "rocenv resolve ", "rocenv explain "))
            for step in document["commands"]
        )

    def test_several_words_do_not_need_quotes(self, home: Path) -> None:
        done = run(home, "explain", "RX", "6750", "XT")
        assert done.stdout.startswith("gfx1031: RX 6700/6750")

    def test_the_output_fits_on_one_screen_without_full(self, home: Path) -> None:
        lines = run(home, "explain", "RX", "6750", "XT").stdout.splitlines()
        assert len(lines) <= SCREEN
        assert re.fullmatch(r"\d+ more: `rocenv explain 'RX 6750 XT' --full`", lines[-1])
        full = run(home, "explain", "RX", "6750", "XT", "--full").stdout
        assert "Sources" in full.splitlines()
        assert len(full.splitlines()) > SCREEN

    @pytest.mark.parametrize(
        ("target", "command"),
        [
            ("gfx1031", "rocenv create demo --torch"),
            ("gfx1100", "rocenv create demo --torch --target gfx1031"),
            ("", "rocenv create demo --torch --target gfx1031"),
        ],
    )
    def test_commands_omit_options_that_match_this_machine(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, target: str, command: str
    ) -> None:
        monkeypatch.setenv("ROCENV_TARGET", target)
        lines = [line.strip() for line in run(home, "explain", "gfx1031").stdout.splitlines()]
        assert command in lines
        assert "rocenv resolve --platform windows --torch --target gfx1031" in lines, "`create` would fail"
        document = json.loads(run(home, "explain", "gfx1031", "--json").stdout)
        whole = "rocenv create demo --platform linux --torch --target gfx1031"
        assert document["commands"][0]["command"] == whole

    def test_commands_use_an_env_name_that_is_not_in_use(self, home: Path, tmp_path: Path) -> None:
        assert "rocenv create demo --" in run(home, "explain", "gfx1031").stdout
        used = tmp_path / "used"
        (used / "envs/demo").mkdir(parents=True)
        text = run(used, "explain", "gfx1031").stdout
        assert "rocenv create demo2 --" in text
        assert "rocenv create demo --" not in text

    def test_repair_is_suggested_only_for_an_existing_env_and_advice_appears_once(
        self, tmp_path: Path
    ) -> None:
        text = run(tmp_path, "explain", "env-files-damaged").stdout
        assert text.count("Restore the files") == 1
        assert "rocenv repair" not in text
        (tmp_path / "envs/sd").mkdir(parents=True)
        assert "rocenv repair sd\n" in run(tmp_path, "explain", "env-files-damaged").stdout
        text = run(tmp_path, "explain", "zluda-hipsdk-version-mismatch").stdout
        assert text.count("rocenv create demo --torch\n") == 1

    @pytest.mark.parametrize(("target", "with_rocm"), [("gfx1033", False), ("gfx1100", True), ("", True)])
    def test_a_vulkan_build_is_suggested_for_a_gpu_that_amd_does_not_support(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, target: str, with_rocm: bool
    ) -> None:
        monkeypatch.setenv("ROCENV_TARGET", target)
        lines = [line.strip() for line in run(home, "explain", "vulkan", "--full").stdout.splitlines()]
        vulkan = [number for number, line in enumerate(lines) if line.startswith("llama.cpp/llama-cli -m ")]
        rocm = [number for number, line in enumerate(lines) if line == "rocenv create --app llama.cpp"]
        assert len(vulkan) == 1
        assert (bool(rocm) and rocm > vulkan) == with_rocm
        assert not any("llama-cli.exe" in line for line in lines), "the commands are for another platform"

    @pytest.mark.parametrize("thing", ["3221225477", "-1073741819"])
    def test_an_exit_code_can_be_decimal(self, home: Path, thing: str) -> None:
        done = run(home, "explain", thing, "--json")
        assert json.loads(done.stdout)["thing"] == "0xC0000005"

    def test_an_unknown_subject_is_an_error(self, home: Path) -> None:
        done = run(home, "explain", "gfx1300")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no information about `gfx1300`" in done.stderr
        document = json.loads(run(home, "explain", "gfx1300", "--json").stdout)
        assert document["error"] == "thing-unknown"
        assert document["hints"]


@pytest.mark.parametrize(
    "thing", ["gfx\x1b[31m9", "\x1b]0;title\x07", "x" * 100_000, "rocm-" + "9" * 100_000]
)
def test_an_unknown_subject_is_shortened_and_sanitized(home: Path, thing: str) -> None:
    done = run(home, "explain", thing)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no information about `" in done.stderr
    assert all(line.isprintable() and len(line) < 400 for line in done.stderr.splitlines())
