"""Rule messages: every reason applies to some log, and every message is complete in both languages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import DataError
from rocenv.data.load import load
from rocenv.data.remedies import filled, hold
from rocenv.diagnose import diagnose_bytes
from tests.data.data import example, loaded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocenv.core.language import Language
    from rocenv.data.rules import Rule, Text

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
MATRIX = load()
RULES = {rule.code: rule for rule in MATRIX.rule}
REASONS = [(rule.code, index) for rule in MATRIX.rule for index in range(len(rule.why))]
CHINESE = r"[\u3400-\u9fff]"

# Reasons that do not apply to any log in `tests/cases/diagnose`: code, facts that select the reason, its
# index.
KNOWN: list[tuple[str, dict[str, str], int]] = [
    ("apu-memory-not-exposed", {"platform": "linux", "gfx": "gfx1151"}, 2),
    ("comgr-version-clash", {"option": "spp-all-backedges"}, 0),
    ("gpu-memory-access-fault", {"app": "blender", "blender": "2.93.4"}, 0),
    ("gpu-memory-access-fault", {"app": "pytorch", "override": "10.3.0"}, 2),
    ("hip-no-binary-for-gpu", {"nvidia": "yes"}, 0),
    ("hip-no-binary-for-gpu", {"gfx": "gfx1103", "app": "comfyui"}, 4),
    ("hip-no-binary-for-gpu", {"gfx": "gfx1201", "app": "pytorch"}, 5),
    ("hip-no-binary-for-gpu", {"gfx": "gfx803"}, 7),
    ("hiprtc-compile-failure", {"cxx": "limits", "platform": "linux"}, 3),
    ("hsa-override-wrong", {"webui": "Segmentation fault", "gpu": "RX 5700 XT"}, 2),
    ("kfd-permission-denied", {"container": "yes"}, 0),
    ("rocblas-tensile-missing-for-gfx", {"gfx": "gfx906", "rocm": "6.4"}, 4),
    ("rocm-device-libs-missing", {"rocm": "7.10"}, 3),
    ("rocm-shared-lib-missing", {"library": "libtinfo.so.5"}, 1),
    ("windows-driver-unsuitable", {"platform": "windows", "driver": "26.2.2", "gfx": "gfx1030"}, 3),
    ("wsl-gpu-unavailable", {"refused": "ROCR: unsupported GPU", "wsl": "yes"}, 0),
    ("zluda-dll-missing-or-quarantined", {"file": "MIOpen.dll", "rocm": "6.4"}, 0),
    ("zluda-dll-missing-or-quarantined", {"file": "nvrtc64_112_0.dll"}, 3),
    ("zluda-hipsdk-version-mismatch", {"rocm": "7.1", "gfx": "gfx1200"}, 6),
    ("zluda-hipsdk-version-mismatch", {"zluda": "3.9.5", "gfx": "gfx1201"}, 7),
    ("zluda-hipsdk-version-mismatch", {"rocm": "5.7", "gfx": "gfx906", "torch": "2.7.1+cu118"}, 8),
    ("zluda-hipsdk-version-mismatch", {"module": "amdhip64.dll", "rocm": "5.7"}, 9),
    ("zluda-hipsdk-version-mismatch", {"rocm": "7.1", "zluda": "3.9.2", "gfx": "gfx1100"}, 10),
]

# Values for placeholders without a fallback.
TYPICAL = {
    "gfx": "gfx1031",
    "gpu": "AMD Radeon RX 6700 XT",
    "rocm": "6.4.2",
    "rocm_minor": "6.4",
    "driver": "25.5.1",
    "amdgpu": "6.12.12",
    "kernel": "6.8.0-51-generic",
    "platform": "linux",
}


def reason(rule: Rule, facts: Mapping[str, tuple[str, ...]]) -> int:
    """Return the index of the reason that applies."""
    values = {name: known[0] for name, known in facts.items()}
    told = (
        index
        for index, why in enumerate(rule.why)
        if hold(why.when, facts) and filled(why.text, values, "en") is not None
    )
    return next(told)


@cache
def reasons_in_logs() -> set[tuple[str, int]]:
    logs = [path for path in CASES.glob("*/*.log") if not path.name.startswith("alike-")]
    return {
        (finding.code, reason(finding.rule, finding.facts))
        for path in logs
        for finding in diagnose_bytes(path.read_bytes(), MATRIX).findings
        if finding.code == path.parent.name
    }


@pytest.mark.parametrize(("code", "facts", "index"), KNOWN)
def test_facts_select_the_reason(code: str, facts: dict[str, str], index: int) -> None:
    assert reason(RULES[code], {name: (value,) for name, value in facts.items()}) == index


@pytest.mark.parametrize(("code", "index"), REASONS)
def test_each_reason_applies_to_some_log(code: str, index: int) -> None:
    assert (code, index) in reasons_in_logs() | {(each, at) for each, _facts, at in KNOWN}


def texts(rule: Rule) -> Iterator[Text]:
    yield rule.title
    yield from (why.text for why in rule.why)
    yield from (remedy.text for remedy in rule.remedy)
    if rule.more:
        yield rule.more


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("code", sorted(RULES))
@pytest.mark.parametrize("typical", [{}, TYPICAL], ids=["with fallbacks", "filled"])
def test_each_text_is_complete_in_both_languages(
    code: str, language: Language, typical: dict[str, str]
) -> None:
    for text in texts(RULES[code]):
        needed = re.findall(r"\{(\w+)\}", getattr(text, language))
        told = filled(text, {**dict.fromkeys(needed, "x"), **typical}, language)
        assert told
        assert not re.search(r"[{}]|(?<=\S)  | $", told), told
        if language == "zh":
            assert re.search(CHINESE, told), told
            assert not re.search(rf"{CHINESE}[,;:!?]{CHINESE}", told), told


def rule_of(**values: object) -> tuple[str, dict[str, object]]:
    return "rule", example("rule", **values)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"title": {"en": "{gfx}", "zh": "{gfx}"}}, "`{gfx}` needs a fallback for when it is unknown"),
        (
            {"why": [{"text": {"en": "{gfx}", "zh": "{gfx}"}}]},
            "`{gfx}` needs a fallback for when it is unknown",
        ),
        ({"title": {"en": "{thing|a}", "zh": "{thing|b}"}}, "unknown placeholder `{thing}`"),
        ({"title": {"en": "{gfx|a}", "zh": "b"}}, "`en` and `zh` have different placeholders"),
        (
            {"remedy": [{"text": {"en": "x", "zh": "x"}, "commands": ["rocenv verify {env}"]}]},
            "`{env}` needs a fallback for when it is unknown",
        ),
        (
            {"remedy": [{"text": {"en": "x", "zh": "x"}, "when": {"thing": "*"}}]},
            "`when`: no extractor or pattern provides `thing`",
        ),
        (
            {"pattern": [{"text": ["some text"], "when": {"thing": "*"}, "weight": 0.5}]},
            "`when` in a pattern: no extractor provides `thing`",
        ),
    ],
)
def test_a_placeholder_without_a_value_is_rejected(
    values: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=re.escape(said)):
        loaded(tmp_path, rule_of(**values))


def test_pattern_groups_fill_placeholders(tmp_path: Path) -> None:
    pattern = {"text": ["some text"], "regex": "some (?P<thing>text)", "weight": 0.5}
    text = {"en": "{thing|it}", "zh": "{thing|它}"}
    rules = loaded(tmp_path, rule_of(pattern=[pattern], title=text, why=[{"text": text}])).rule
    assert filled(rules[0].title, {"thing": "text"}, "en") == "text"
