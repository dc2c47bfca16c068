"""`scripts/diagnose-score`: how it counts, and its noise, which must not contain failures."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from pathlib import Path
from string import Formatter
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.diagnose import Diagnosis, diagnose_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.data.rows import Matrix

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "diagnose-score"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the script is for POSIX systems")

sys.path.append(str(SCRIPT.parent))

from benchmarks import diagnose as benchmark  # noqa: E402
from diagnose_score import burying, noise, scoring  # noqa: E402

# Facts that rules depend on. If they were in the noise, they would change the right answer.
MATTERS = {
    "gfx",
    "gpu",
    "rocm",
    "override",
    "zluda",
    "driver",
    "amdgpu",
    "nvidia",
    "intel",
    "igpu",
    "nfs",
    "wsl",
    "container",
    "os",
    "kernel",
    "torch_build",
    "devices",
    "exit_code",
}
SYSTEMS = ("linux", "windows")
DENIED = (
    "Unable to open /dev/kfd read-write: Permission denied\n"
    "user is not a member of the render group, access to the compute device is refused\n"
)


@cache
def matrix() -> Matrix:
    return load(ROOT / "profiles")


def found_in(data: bytes) -> Diagnosis:
    return diagnose_bytes(data, matrix())


@pytest.mark.slow
class TestNoise:
    @pytest.mark.parametrize("seed", [1, 2])
    @pytest.mark.parametrize("system", SYSTEMS)
    def test_noise_contains_no_failures(self, system: str, seed: int) -> None:
        text = "\n".join(noise.lines(30_000, seed, telling=True, system=system))
        found = found_in(text.encode())
        assert [(each.code, each.evidence[0].text) for each in found.findings] == []
        assert not MATTERS & set(found.facts)

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_distracting_noise_mentions_versions_of_the_system_and_programs(self, system: str) -> None:
        facts = found_in("\n".join(noise.lines(30_000, 1, telling=True, system=system)).encode()).facts
        assert facts["platform"] == (system,)
        apps = {"sdnext", "webui", "forge", "comfyui", "blender", "ollama", "llama.cpp", "pytorch", "pip"}
        assert len(apps & set(facts["app"])) >= 6
        assert facts["torch"] == ("2.8.0",)
        assert {"3.11.9", "3.12.3"} <= set(facts["python"])

    def test_plain_noise_contains_no_facts(self) -> None:
        assert found_in("\n".join(noise.lines(30_000, 1)).encode()).facts == {}

    def test_noise_uses_every_template_and_is_reproducible_with_a_seed(self) -> None:
        lines = noise.lines(60_000, 5, telling=True)
        assert lines == noise.lines(60_000, 5, telling=True)
        assert lines[:1000] != noise.lines(1000, 6, telling=True)
        tables = (noise.PLAIN, *noise.TELLING.values())
        templates = {each for table in tables for rows in table.values() for each in rows}
        # A template was used if its longest constant part is in the text.
        text = "\n".join(lines)
        missing = [each for each in templates - {""} if max(parts_of(each), key=len) not in text]
        assert missing == []

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_noise_contains_strings_that_extractors_search_for(self, system: str) -> None:
        lines = noise.lines(10_000, 1, telling=True, system=system)
        literals = {text for row in matrix().extractor for text in row.text}
        assert sum(any(text in line for text in literals) for line in lines) > len(lines) / 8


def parts_of(template: str) -> list[str]:
    return [part for part, *_ in Formatter().parse(template)]


class TestBurying:
    @pytest.mark.parametrize("way", burying.WAYS)
    def test_the_cause_is_found_in_a_log_buried_in_noise(self, way: str) -> None:
        found = found_in(burying.WAYS[way](burying.Noise(3000, seed=1), DENIED))
        assert [each.code for each in found.findings][:1] == ["kfd-permission-denied"]

    def test_the_lines_of_a_log_stay_intact_and_in_order_in_noise(self) -> None:
        noise = burying.Noise(3000, seed=1)
        log = "\n".join(f"line {number} of a log" for number in range(40))
        for way in ("block", "scattered"):
            buried = getattr(noise, way)(log).decode().split("\n")
            at = [buried.index(line) for line in log.split("\n")]
            assert at == sorted(at)
        gaps = [after - before for before, after in pairwise(at)]
        assert set(gaps) == {1, 2, 3, 4, 5, 6}  # the gaps between scattered lines

    @pytest.mark.parametrize(
        ("log", "system"),
        [
            (DENIED, "linux"),
            ("Loading C:\\app\\x.py\n", "windows"),
            ("OSError: [WinError 126] a module was not found\n", "windows"),
            ("ended with 0xC0000005\n", "windows"),
            ("see http://host/x, note: /home/user\n", "linux"),
        ],
    )
    @pytest.mark.parametrize("way", ["block", "scattered", "colored", "powershell"])
    def test_the_noise_matches_the_operating_system_of_the_log(self, way: str, log: str, system: str) -> None:
        buried = getattr(burying.Noise(4000, seed=1), way)(log)
        assert found_in(buried).facts["platform"] == (system,)

    def test_each_kind_of_noise_has_its_log_format(self) -> None:
        noise = burying.Noise(100, seed=1)
        assert gzip.decompress(noise.packed(DENIED)) == noise.block(DENIED)
        assert noise.powershell(DENIED).decode("utf-16").split("\r\n")[50] == DENIED.split("\n")[0]
        assert b"\x1b[1;31m" in noise.colored(DENIED)
        assert b"\r" in noise.colored(DENIED)
        assert "正在加载模型" in noise.chinese(DENIED).decode("cp936")
        assert noise.repeated(DENIED).count(b"/dev/kfd") == burying.TIMES


def answered(cause: str, *codes: str, also: tuple[str, ...] = (), wrong: str = "") -> scoring.Answer:
    case = scoring.Case(name=f"{cause}-{codes}", cause=cause, also=frozenset(also), wrong=wrong, log=b"")
    return scoring.Answer(case=case, codes=codes)


class TestCounting:
    def test_an_answer_listed_in_also_is_accepted_but_not_counted_as_right(self) -> None:
        rows = [answered("a", "a"), answered("a", "b", also=("b",)), answered("a", "c", "a"), answered("a")]
        figures = {name: (each.part, each.of) for name, each in scoring.shares(rows).items()}
        assert figures["first"] == (1, 4)
        assert figures["first, accepted"] == (2, 4)
        assert figures["among"] == (2, 4)
        assert figures["among, accepted"] == (3, 4)
        assert figures["precision"] == (3, 4)  # the answer for c is wrong

    def test_a_finding_in_a_log_without_a_cause_counts_as_wrong(self) -> None:
        rows = [answered("none"), answered("none", "a"), answered("none", "b", also=("b",))]
        figures = {name: (each.part, each.of) for name, each in scoring.shares(rows).items()}
        assert figures["silent"] == (1, 3)
        assert figures["silent, accepted"] == (2, 3)
        assert figures["precision"] == (1, 2)
        assert figures["first"] == (0, 0)

    def test_only_the_labeled_cause_counts_as_wrong_in_a_similar_log(self) -> None:
        rows = [answered("", "b", wrong="a"), answered("", "b", "a", wrong="a")]
        assert str(scoring.shares(rows)["silent, accepted"]) == "1/2 50.0 % !"
        assert scoring.confusion(rows) == []

    def test_an_accepted_answer_does_not_count_towards_the_strict_goal(self) -> None:
        figures = scoring.shares([answered("a", "b", also=("b",))])
        assert [figures[name].met for name in ("first", "first, accepted")] == [False, True]
        assert str(figures["first"]) == "0/1 0.0 % !"
        assert "first" not in scoring.JUDGED

    def test_the_confusion_matrix_counts_wrong_first_findings(self) -> None:
        rows = [answered("a", "a"), answered("a", "b"), answered("a", "b", "a"), answered("c")]
        confused = [(count, right, found) for count, right, found, _ in scoring.confusion(rows)]
        assert confused == [(2, "a", "b"), (1, "c", "none")]


class TestCommand:
    @pytest.fixture
    def score(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
        loader = SourceFileLoader("diagnose_score", str(SCRIPT))
        script = ModuleType(loader.name)
        script.__file__ = str(SCRIPT)
        monkeypatch.setitem(sys.modules, loader.name, script)
        loader.exec_module(script)
        monkeypatch.setattr(script, "OWN", tmp_path / "none")  # skip the repository's many logs

        def score(*argv: str | Path) -> int:
            monkeypatch.setattr(sys, "argv", ["diagnose-score", "--noise", "500", *map(str, argv)])
            code: int = script.main()
            return code

        return score

    def write(self, path: Path, *rows: tuple[str, str, str], also: tuple[str, ...] = ()) -> Path:
        cases = [{"id": name, "cause": cause, "also": also, "log": log} for name, cause, log in rows]
        path.write_text("".join(f"{json.dumps(case)}\n" for case in cases))
        return path

    def test_the_score_lists_wrong_answers_and_fails_below_a_goal(
        self, tmp_path: Path, score: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        cases = self.write(
            tmp_path / "mine.jsonl",
            ("right-1", "kfd-permission-denied", DENIED),
            ("wrong-1", "vram-oom", DENIED),
            ("calm-1", "none", "all is well\n"),
        )
        assert score(cases) == 1
        output = capsys.readouterr().out
        assert "vram-oom -> kfd-permission-denied  (wrong-1)" in output
        assert "wrong-1: vram-oom; found: kfd-permission-denied" in output
        assert "right-1" not in output

    def test_accepted_answers_determine_the_exit_code(
        self, tmp_path: Path, score: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        cases = self.write(
            tmp_path / "mine.jsonl", ("x-1", "vram-oom", DENIED), also=("kfd-permission-denied",)
        )
        assert score(cases) == 0
        _, _, goals, judged, plain, *_ = capsys.readouterr().out.split("\n")
        assert re.findall(r"\d+", goals) == ["95", "95", "98", "98", "95", "95"]
        assert judged.split() == "determines the exit code yes yes yes".split()
        assert re.findall(r"\d/\d \d+\.0 %(?: !)?", plain) == ["0/1 0.0 % !", "1/1 100.0 %"] * 2 + [
            "1/1 100.0 %"
        ]

    def test_json_contains_the_figures_for_each_kind_of_noise(
        self, tmp_path: Path, score: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        cases = self.write(tmp_path / "mine.jsonl", ("right-1", "kfd-permission-denied", DENIED))
        assert score("--json", cases) == 0
        (mine,) = json.loads(capsys.readouterr().out)["corpora"]
        assert mine["corpus"] == "mine.jsonl"
        assert mine["judged"] == ["first, accepted", "among, accepted", "silent, accepted"]
        assert [row["way"] for row in mine["rows"]] == ["as they are", *list(burying.WAYS)[: burying.USUAL]]
        for row in mine["rows"]:
            assert row["figures"]["first"] == {"part": 1, "of": 1, "goal": 0.95, "met": True}
            assert row["missed"] == []

    def test_a_file_with_the_wrong_format_is_reported(
        self, tmp_path: Path, score: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        other = tmp_path / "other.jsonl"
        other.write_text('{"id": "x"}\n')
        assert score(other) == 2
        assert f"`{other}` has an invalid format" in capsys.readouterr().err


class TestReadCases:
    def test_known_and_similar_logs_are_read(self, tmp_path: Path) -> None:
        for name in ("known-app", "alike-app", "notes"):
            (tmp_path / "vram-oom").mkdir(exist_ok=True)
            (tmp_path / "vram-oom" / f"{name}.log").write_bytes(b"\xff\xfeo\0k\0")
        alike, known = scoring.read_cases(tmp_path)
        assert (known.name, known.cause, known.wrong) == ("vram-oom/known-app", "vram-oom", "")
        assert (alike.name, alike.cause, alike.wrong) == ("vram-oom/alike-app", "", "vram-oom")
        assert known.text == "ok"


@pytest.mark.slow
class TestBenchmarkInputs:
    def test_the_additional_benchmark_rules_load_and_find_nothing(self, tmp_path: Path) -> None:
        rules = benchmark.copy_profiles(tmp_path / "profiles")
        more = load(tmp_path / "profiles")
        assert rules == len(matrix().rule) > 30
        assert len(more.rule) == benchmark.TIMES * rules
        log = "\n".join([*noise.lines(2000, 1, telling=True), DENIED]).encode()
        assert [each.code for each in diagnose_bytes(log, more).findings] == ["kfd-permission-denied"]

    @pytest.mark.skipif(shutil.which("grep") is None, reason="needs grep")
    def test_grep_searches_for_the_literals_in_the_rules(self, tmp_path: Path) -> None:
        literals = benchmark.literals_of(benchmark.read_rules())
        assert set(literals) == {
            text for rule in matrix().rule for pattern in rule.pattern for text in pattern.text
        }
        (tmp_path / "log").write_text("".join(f"> {text} <\n{text[:-1]}_\n" for text in literals))
        (tmp_path / "fixed").write_text("\n".join(literals))
        (tmp_path / "extended").write_text("|".join(map(benchmark.escaped, literals)))
        counts = {
            subprocess.run(
                ("grep", f"-c{flag}", file, "log"), cwd=tmp_path, capture_output=True, check=True
            ).stdout
            for flag, file in (("Ff", "fixed"), ("Ef", "extended"))
        }
        assert len(counts) == 1
        assert int(counts.pop()) >= len(literals)

    def test_the_large_log_has_one_matching_line_in_the_middle(self, tmp_path: Path) -> None:
        benchmark.write_log(tmp_path / "log", 2_000_000)
        found = found_in((tmp_path / "log").read_bytes())
        (finding,) = found.findings
        assert finding.evidence[0].text in benchmark.LINE.decode()
        assert 0.3 < finding.evidence[0].line / found.lines < 0.9
