"""The commands that reports suggest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.diagnose import diagnose_bytes
from rocenv.diagnose.report import report, suggest_env

if TYPE_CHECKING:
    from rocenv.diagnose.facts import Facts

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
MATRIX = load()
# FILE and MODEL are allowed, because only users know their files.
METAVARS = r"\b(?:NAME2?|TARGET|PROGRAM|PATH|FOLDER|DIR|VERSION|SITE_PACKAGES)\b|…"


@pytest.mark.parametrize("code", sorted(path.name for path in CASES.iterdir()))
def test_commands_contain_no_placeholder_words(code: str) -> None:
    for path in sorted((CASES / code).glob("*.log")):
        for finding in diagnose_bytes(path.read_bytes(), MATRIX).findings:
            told = report(finding, MATRIX, "en")
            assert told.steps, path
            assert [each for each in told.commands if re.search(METAVARS, each)] == [], path


def test_no_command_appears_twice() -> None:
    log = b"Blender 4.5.2 LTS\ncycles | ERROR System is out of GPU memory\n# app blender (Blender) in /x\n"
    (finding,) = diagnose_bytes(log, MATRIX).findings
    commands = report(finding, MATRIX, "en").commands
    assert "rocenv mem settings cycles" in commands
    assert len(set(commands)) == len(commands)


def test_a_suggested_command_without_a_target_detects_the_gpu() -> None:
    assert suggest_env({}, MATRIX) == "rocenv create demo --torch"
    facts: Facts = {"platform": ("windows",), "zluda": ("yes",)}
    assert suggest_env(facts, MATRIX) == "rocenv create demo --zluda"
    assert suggest_env({"gfx": ("gfx9999",)}, MATRIX) == ""


def test_a_suggested_env_has_torch_only_for_apps_that_need_it() -> None:
    facts: Facts = {"gfx": ("gfx1100",), "platform": ("linux",)}
    assert "--torch" in suggest_env(facts, MATRIX)
    assert "--torch" in suggest_env({**facts, "app": ("comfyui", "pytorch")}, MATRIX)
    assert suggest_env({**facts, "app": ("blender",)}, MATRIX) == "rocenv create demo --target gfx1100"


def test_commands_use_one_name_that_is_not_in_use() -> None:
    for path in sorted(CASES.glob("*/known-*.log")):
        for finding in diagnose_bytes(path.read_bytes(), MATRIX).findings:
            facts: Facts = {"another": ("spare",)}
            commands = report(finding, MATRIX, "en", facts).commands
            created = {name for each in commands for name in re.findall(r"rocenv create (\S+)", each)}
            assert created <= {"spare"}, path


def test_commands_contain_the_gpu_from_the_log() -> None:
    for path in sorted(CASES.glob("*/known-*.log")):
        diagnosis = diagnose_bytes(path.read_bytes(), MATRIX)
        known = set(diagnosis.facts.get("gfx", ())) & set(MATRIX.targets)
        for finding in diagnosis.findings:
            commands = report(finding, MATRIX, "en").commands
            creating = [each for each in commands if each.startswith("rocenv create ")]
            assert not known or all("--target" in each for each in creating), path
