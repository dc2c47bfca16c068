"""Each rule, with logs that it must recognize and with lookalikes: `tests/cases/diagnose/CODE/*.log`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocenv.data.load import load
from rocenv.diagnose import diagnose_bytes

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
MATRIX = load()
LOGS = sorted(CASES.glob("*/*.log"))


def found(path: Path) -> list[str]:
    return [finding.code for finding in diagnose_bytes(path.read_bytes(), MATRIX).findings]


@pytest.mark.parametrize(
    "path",
    [path for path in LOGS if path.name.startswith("known-")],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_a_rule_recognizes_its_logs(path: Path) -> None:
    assert found(path)[:1] == [path.parent.name]


@pytest.mark.parametrize(
    "path",
    [path for path in LOGS if path.name.startswith("alike-")],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_a_rule_does_not_recognize_lookalike_logs(path: Path) -> None:
    assert path.parent.name not in found(path)


@pytest.mark.parametrize(
    "path",
    [path for path in LOGS if path.name.startswith("both-")],
    ids=lambda p: f"{p.parent.name}-{p.stem}",
)
def test_two_independent_causes_are_both_found(path: Path) -> None:
    assert path.parent.name in found(path)


@pytest.mark.parametrize("code", sorted(rule.code for rule in MATRIX.rule))
def test_each_rule_has_logs_and_lookalikes(code: str) -> None:
    names = [path.name.partition("-")[0] for path in LOGS if path.parent.name == code]
    assert names.count("known") >= 1
    assert names.count("alike") >= 1


def test_each_log_belongs_to_a_rule() -> None:
    assert {path.parent.name for path in LOGS} <= {rule.code for rule in MATRIX.rule}
    assert all(path.name.startswith(("known-", "alike-", "both-")) for path in LOGS)
