"""Check selection and order, and checks that crash."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from rocenv.checks import run
from rocenv.checks.table import CHECKS, Check
from rocenv.core.errors import DataError, RocenvError
from rocenv.findings import Observation
from tests.checks.scenery import Scenery, matrix

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rocenv.checks.context import CheckContext


def crashes(_context: CheckContext) -> Observation | None:
    raise ZeroDivisionError("by\x1b[31m zero")


def is_cold(_context: CheckContext) -> Observation | None:
    return Observation(
        "disk_nearly_full", {"free": "1 GiB", "least": "20 GiB", "folder": "/x"}, ("a\nb",) * 2
    )


def lacks_a_row(_context: CheckContext) -> Observation | None:
    return Observation("no_such_row")


def closes(_context: CheckContext) -> Observation | None:
    return Observation("kfd_closed", {"groups": "render"})


def test_each_check_has_its_own_name_and_a_docstring() -> None:
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names))
    assert all(check.function.__doc__ and check.name == check.function.__name__ for check in CHECKS)


def test_each_check_has_a_description_without_placeholders_in_both_languages(scenery: Scenery) -> None:
    context = scenery.healthy().context()
    for check in CHECKS:
        english, chinese = (run.description(check, context, language) for language in ("en", "zh"))
        assert re.search("[一-龥]", chinese)
        assert english.isascii()
        assert not re.search(r"[{}]|\b(WANTED|FREE|ENV|GPU_NAME)\b", english + chinese), check.name


def test_a_check_can_have_several_findings(scenery: Scenery) -> None:
    def both(context: CheckContext) -> tuple[Observation, ...]:
        return tuple(found for found in (closes(context), is_cold(context)) if found)

    found = run.run(scenery.healthy().context(), [Check("both", both, "any")], "en")
    assert [(each.check, each.code) for each in found] == [
        ("both", "kfd-permission-denied"),
        ("both", "disk-nearly-full"),
    ]


def test_each_env_gets_its_own_finding(scenery: Scenery) -> None:
    """Two envs with the same problem get two findings."""
    scenery.healthy().root.kernel("5.10.6-200.fc33.x86_64")
    for name in ("new", "other"):
        scenery.env(name, rocm="6.2.4")
    context = scenery.context()
    found = run.run(context, run.checks_for(context, ("kernel_too_old_for_env",)), "en")
    assert [each.commands for each in found] == [("rocenv verify new",), ("rocenv verify other",)]


def test_every_row_is_used_by_a_check() -> None:
    """A row without a check would be dead data."""
    from pathlib import Path

    import rocenv.checks

    folder = Path(rocenv.checks.__file__).parent
    code = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    assert [row.name for row in matrix().advice if f'"{row.name}"' not in code] == []


def test_a_check_that_crashes_is_a_finding_and_does_not_stop_the_others(scenery: Scenery) -> None:
    checks = [Check("crashes", crashes, "any"), Check("is_cold", is_cold, "any")]
    found = {finding.check: finding for finding in run.run(scenery.healthy().context(), checks, "en")}
    assert found["crashes"].code == "check-failed" and found["crashes"].severity == "warning"
    assert "ZeroDivisionError: by?[31m zero" in found["crashes"].detail
    assert found["crashes"].commands == ("rocenv doctor --check crashes --json",)
    assert found["is_cold"].code == "disk-nearly-full"
    assert found["is_cold"].evidence == ("a b", "a b")


def test_an_observation_without_a_row_is_a_finding(scenery: Scenery) -> None:
    found = run.run(scenery.healthy().context(), [Check("lacks_a_row", lacks_a_row, "any")], "zh")
    assert found[0].code == "check-failed" and "no_such_row" in found[0].detail


def test_data_without_any_rows_is_an_error(scenery: Scenery) -> None:
    from dataclasses import replace

    context = replace(scenery.healthy().context(), matrix=replace(matrix(), advice=()))
    with pytest.raises(DataError, match="check_failed"):
        run.run(context, [Check("crashes", crashes, "any")], "en")


def test_errors_come_first_and_slow_checks_run_last(scenery: Scenery) -> None:
    begun: list[str] = []
    context = scenery.healthy().context()
    checks = [Check("is_cold", is_cold, "any"), Check("closes", closes, "any")]

    def begin(check: Check) -> AbstractContextManager[object]:
        begun.append(check.name)
        return nullcontext()

    found = run.run(context, checks, "en", begin)
    assert begun == ["is_cold", "closes"]
    assert [finding.severity for finding in found] == ["error", "warning"]
    slow = [check.is_slow for check in run.checks_for(context)]
    assert slow == sorted(slow) and any(slow)


def test_checks_run_only_on_their_system_and_with_an_env_if_they_need_one(scenery: Scenery) -> None:
    context = scenery.healthy().context()
    names = {check.name for check in run.checks_for(context)}
    in_doctor = {check for row in matrix().advice if "doctor" in row.runs_in for check in row.found_by}
    here = [check for check in CHECKS if check.platform != "windows" and check.name in in_doctor]
    assert names == {check.name for check in here if not check.needs_env}
    asked = scenery.context(env=scenery.env("sd", rocm="6.4.3"))
    assert {check.name for check in run.checks_for(asked)} - names == {
        check.name for check in here if check.needs_env
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nonsense", "no check"),
        ("kfd_close", "no check"),
        ("hip_path_stale", "for Windows"),
        ("env_never_verified", "needs an env"),
        ("app_own_python", "before `rocenv launch`"),
    ],
)
def test_unknown_and_inapplicable_checks_are_rejected(scenery: Scenery, name: str, says: str) -> None:
    with pytest.raises(RocenvError, match=says) as error:
        run.checks_for(scenery.healthy().context(), (name,))
    assert error.value.code == "check-unknown" and error.value.hints and error.value.exit_code == 2
    assert name != "kfd_close" or error.value.hints[0] == "did you mean `kfd_closed`?"


def test_requested_checks_run_in_table_order(scenery: Scenery) -> None:
    checks = run.checks_for(scenery.healthy().context(), ("gpu_resets", "no_gpu"))
    assert [check.name for check in checks] == ["no_gpu", "gpu_resets"]
