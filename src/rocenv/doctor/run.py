"""Runs the checks that apply, and puts what they saw into words; a check that crashes hides no other."""

from __future__ import annotations

import difflib
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, WrongUsage
from rocenv.diagnose.texts import Step, filled, steps, unfilled
from rocenv.doctor.checks import CHECKS
from rocenv.doctor.seen import Seen, all_of
from rocenv.doctor.typed import is_own_command, typing
from rocenv.host.gpu import printable
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from rocenv.core.language import Language
    from rocenv.data.rules import Advice
    from rocenv.doctor.checks import Check
    from rocenv.doctor.scene import Scene

CRASHED = "check_failed"  # the row that tells of a check that crashed
SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A trouble in words."""

    check: str  # that found it
    code: str
    severity: str
    title: str
    detail: str
    evidence: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()  # what to do, best first
    links: tuple[str, ...] = ()
    fix: str = ""  # what may be done about it without harm; "" = nothing

    @property
    def todo(self) -> tuple[str, ...]:
        """What to do, in sentences."""
        return tuple(step.text for step in self.steps)

    @property
    def commands(self) -> tuple[str, ...]:
        """What can be pasted, in the order of the steps."""
        return tuple(command for step in self.steps for command in step.commands)


class NoSuchCheck(WrongUsage):
    """A check that is not there, or not for what is looked at."""

    def __init__(self, message: str, hints: Sequence[str]) -> None:
        super().__init__(message, hints=tuple(hints), code="check-unknown")


def applying(scene: Scene, names: Sequence[str] = ()) -> tuple[Check, ...]:
    """Return the checks that there are for a scene, those that take long last.

    Args:
        scene: What is looked at.
        names: Of the checks that are wanted; () = all.

    Raises:
        NoSuchCheck: There is no check of such a name, or it is not for this machine.
    """
    fits = [check for check in CHECKS if _fits(check, scene)]
    for name in names:
        _require(name, fits, scene)
    wanted = [check for check in fits if not names or check.name in names]
    return tuple(sorted(wanted, key=lambda check: check.slow))


def _fits(check: Check, scene: Scene) -> bool:
    return check.platform in (scene.platform, "any") and (not check.of_env or scene.asked is not None)


def _require(name: str, fits: Sequence[Check], scene: Scene) -> None:
    if any(check.name == name for check in fits):
        return
    known = next((check for check in CHECKS if check.name == name), None)
    if known is None:
        near = difflib.get_close_matches(name, [check.name for check in fits])
        raise NoSuchCheck(f"there is no check `{name}`", (*near, "rocenv doctor --list"))
    if known.of_env and scene.named is not None:
        hint = shell_join("rocenv", "doctor", scene.named.name)
        raise NoSuchCheck(f"the check `{name}` is for an env that is whole, which this one is not", (hint,))
    if known.of_env and scene.asked is None:
        hint = f"rocenv doctor NAME --check {name}"
        raise NoSuchCheck(f"the check `{name}` is for an env: name one", (hint,))
    raise NoSuchCheck(f"the check `{name}` is for {known.platform.capitalize()}", ("rocenv doctor --list",))


def look(
    scene: Scene,
    checks: Sequence[Check],
    language: Language,
    begin: Callable[[Check], AbstractContextManager[object]] = nullcontext,
) -> list[Finding]:
    """Return what the checks find, errors first.

    Args:
        scene: What is looked at.
        checks: From `applying`.
        language: Of the texts.
        begin: Is told of each check, which is run within what it returns.
    """
    found = []
    for check in checks:
        with begin(check):
            found += _looked(check, scene, language)
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _looked(check: Check, scene: Scene, language: Language) -> list[Finding]:
    try:
        return [told(check.name, seen, scene, language) for seen in all_of(check.look(scene))]
    except Exception as error:
        said = printable(f"{type(error).__name__}: {error}")
        crash = Seen(CRASHED, {"check": check.name, "error": said})
        return [told(check.name, crash, scene, language)]


def about(check: Check, scene: Scene, language: Language) -> str:
    """Return what a check looks for, as the title of what it tells first."""
    return unfilled(getattr(_row(check.title_row, scene).title, language))


def told(check: str, seen: Seen, scene: Scene, language: Language) -> Finding:
    """Return what a check saw in words."""
    row = _row(seen.tells, scene)
    values = {name: printable(value) for name, value in seen.values.items()}
    values = {"platform": scene.platform, **values}
    if scene.sent and not is_own_command(values.get("create", "")):
        values.pop("create", None)  # it may be anybody's
    facts = {name: (value,) for name, value in values.items() if value}
    return Finding(
        check=check,
        code=row.code,
        severity="error" if seen.grave else row.severity,
        title=filled(row.title, values, language) or row.code,
        detail=filled(row.detail, values, language) or "",
        evidence=tuple(_one_line(printable(line)) for line in seen.evidence),
        steps=steps(row.remedy, facts, values, language, typing(scene.platform, strange=scene.sent)),
        links=row.links,
        fix=row.fix,
    )


def _row(name: str, scene: Scene) -> Advice:
    found = next((row for row in scene.matrix.advice if row.name == name), None)
    if found is None:
        raise DataError(f"no row of the table `advice` is called `{name}`")
    return found


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"
