"""Run checks and render their findings. A check that crashes does not stop the others."""

from __future__ import annotations

import difflib
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.checks.context import before_start
from rocenv.checks.table import CHECKS
from rocenv.core.errors import WrongUsage
from rocenv.findings import Observation, advice_row, each_of, render, worst_first
from rocenv.host.gpu import printable
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from rocenv.apps.context import LaunchContext
    from rocenv.checks.context import CheckContext
    from rocenv.checks.table import Check
    from rocenv.core.language import Language
    from rocenv.findings import Finding
    from rocenv.home import Home

_CRASHED = "check_failed"  # the row that reports a check that crashed


class NoSuchCheck(WrongUsage):
    """The check does not exist, or does not apply here."""

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message, hints=hints, code="check-unknown")


def checks_for(
    context: CheckContext, names: Sequence[str] = (), command: str = "doctor"
) -> tuple[Check, ...]:
    """The checks that `doctor` or `launch` runs: all, or those in `names`; slow ones last.

    Raises:
        NoSuchCheck: One of the names is unknown, or its check does not apply here.
    """
    applying = [check for check in CHECKS if _applies(check, context, command)]
    for name in names:
        _require(name, applying, context)
    chosen = [check for check in applying if not names or check.name in names]
    return tuple(sorted(chosen, key=lambda check: check.is_slow))


def run(
    context: CheckContext,
    checks: Sequence[Check],
    language: Language,
    begin: Callable[[Check], AbstractContextManager[object]] = nullcontext,
) -> list[Finding]:
    """Run each check within the context manager from `begin`, and return the findings, errors first."""
    findings = []
    for check in checks:
        with begin(check):
            findings += [render_in(context, check.name, each, language) for each in observe(check, context)]
    return worst_first(findings)


def run_before_start(launch: LaunchContext, home: Home, language: Language) -> list[Finding]:
    """Run the checks for `launch`; an error means that starting the app would be useless or harmful."""
    context = before_start(launch, home)
    return run(context, checks_for(context, command="launch"), language)


def observe(check: Check, context: CheckContext) -> tuple[Observation, ...]:
    """Run one check. If it crashes, or one of its rows is missing, return that as an observation.

    If the check needs an env and the context has none, it runs on all envs, and errors become warnings.
    """
    try:
        if check.needs_env and context.env is None:
            return tuple(
                replace(each, severity="warning") if _severity(each, context) == "error" else each
                for env in context.envs
                for each in each_of(check.function(replace(context, env=env)))
            )
        observations = each_of(check.function(context))
        for each in observations:
            advice_row(context.matrix, each.row)
        return observations
    except Exception as error:
        text = printable(f"{type(error).__name__}: {error}")
        return (Observation(_CRASHED, {"check": check.name, "error": text}),)


def _severity(observation: Observation, context: CheckContext) -> str:
    return observation.severity or advice_row(context.matrix, observation.row).severity


def render_in(context: CheckContext, check: str, observation: Observation, language: Language) -> Finding:
    """Render an observation in a language."""
    return render(
        check,
        observation,
        context.matrix,
        language,
        platform=context.platform,
        untrusted=context.untrusted,
    )


def description(check: Check, context: CheckContext, language: Language) -> str:
    """Describe a check in one line."""
    rows = [row for row in context.matrix.advice if check.name in row.found_by]
    own = next((row for row in rows if row.name == check.name), None)
    row = own or next((row for row in rows if row.about), rows[0])
    return str(getattr(row.about or row.title, language))


def _applies(check: Check, context: CheckContext, command: str) -> bool:
    if check.platform not in (context.platform, "any"):
        return False
    if check.needs_env and context.env is None and not (check.each_env and _has_envs(context)):
        return False
    rows = (row for row in context.matrix.advice if check.name in row.found_by)
    return any(command in row.runs_in for row in rows)


def _has_envs(context: CheckContext) -> bool:
    """Whether there are envs, or may have been on the machine that a support bundle describes."""
    return context.broken is None and (bool(context.envs) or context.untrusted)


def _require(name: str, applying: Sequence[Check], context: CheckContext) -> None:
    if any(check.name == name for check in applying):
        return
    known = next((check for check in CHECKS if check.name == name), None)
    if known is None:
        close = difflib.get_close_matches(name, [check.name for check in applying])
        near = [f"did you mean `{each}`?" for each in close]
        raise NoSuchCheck(f"there is no check `{name}`", *near, "list the checks: `rocenv doctor --list`")
    if known.needs_env and context.broken is not None:
        command = shell_join("rocenv", "doctor", context.broken.name)
        raise NoSuchCheck(f"the `{name}` check needs a complete env, but this one is incomplete", command)
    if known.needs_env and context.env is None:
        commands = [shell_join("rocenv", "doctor", env.name, "--check", name) for env in context.envs[:1]]
        raise NoSuchCheck(f"the `{name}` check needs an env", *commands or ["rocenv create --help"])
    if known.platform not in (context.platform, "any"):
        raise NoSuchCheck(f"the `{name}` check is for {known.platform.capitalize()}", "rocenv doctor --list")
    raise NoSuchCheck(f"the `{name}` check runs before `rocenv launch` starts an app", "rocenv doctor --list")
