"""Findings: the model that `doctor`, `launch` and `verify` share.

A check returns an `Observation`: the name of a row in `profiles/checks/`, and the values that fill its
messages. `render` turns it into a `Finding` in the user's language.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError
from rocenv.data.remedies import Step, filled, plain_word, steps
from rocenv.host.gpu import printable
from rocenv.resolve.suggest import suggest_env

if TYPE_CHECKING:
    from rocenv.core.language import Language
    from rocenv.core.model import Lock, Machine
    from rocenv.data.knowledge import Verdict
    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Advice
    from rocenv.prefix import Prefix

SEVERITIES = ("error", "warning", "info")
_MAX_WORD = 199  # a longer value may have been truncated
# Characters without special meaning in double quotes, in both cmd and PowerShell.
_QUOTABLE = re.compile(r"[\w .:+,/\\@=()~-]+")
_OWN_COMMAND = re.compile(r"rocenv create( [\w.:+,/\\@=-]+)+")


@dataclass(frozen=True, slots=True)
class Observation:
    """What a check found, without the messages."""

    row: str  # name of a row in the `advice` table
    values: Mapping[str, str] = field(default_factory=dict)  # for the placeholders in the row's messages
    evidence: tuple[str, ...] = ()  # lines as the machine printed them; `render` makes them printable
    severity: str = ""  # defaults to the row's
    # Complete commands, quoted for the shell; they also fill placeholders.
    commands: Mapping[str, str] = field(default_factory=dict)


CheckResult = Observation | Iterable[Observation] | None  # what a check may return


def each_of(found: CheckResult) -> tuple[Observation, ...]:
    """The observations that a check returned."""
    if isinstance(found, Observation):
        return (found,)
    return tuple(found or ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem, in the user's language."""

    check: str  # the check that found it
    code: str
    severity: str
    title: str
    detail: str
    evidence: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()  # the remedies, best first
    links: tuple[str, ...] = ()
    fix: str = ""  # the name of the fix for `doctor --fix`, or ""
    env: str = ""  # the affected env, or ""

    @property
    def instructions(self) -> tuple[str, ...]:
        """What to do, one sentence per step."""
        return tuple(step.text for step in self.steps)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of all steps, in order."""
        return tuple(command for step in self.steps for command in step.commands)


def set_known_to_fail(
    prefix: Prefix, lock: Lock, rows: Sequence[Verdict], matrix: Matrix, machine: Machine, app: str = ""
) -> Observation:
    """Create an observation for an env whose set is known to fail.

    `rows` lists the verdicts that apply to the set, worst first. The suggested env must work on `machine` and
    with `app`, which defaults to the env's own app.
    """
    app = app or lock.request.app
    create = suggest_env(lock, matrix, machine, name=prefix.free_name(), app=app)
    evidence = tuple(f"{row.what} (source: {row.source.partition(';')[0].strip()})" for row in rows)
    values = {"env": prefix.name, "instead": "" if create else rows[0].remedy}
    return Observation("env_known_broken", values, evidence, commands={"create": create})


def render(
    check: str,
    observation: Observation,
    matrix: Matrix,
    language: Language,
    *,
    platform: str,
    untrusted: bool = False,
) -> Finding:
    """Turn an observation into a finding.

    Commands are quoted for the shells of `platform`. If the values come from someone else (`untrusted`),
    commands contain only plain words.

    Raises:
        DataError: The observation's row does not exist.
    """
    row = advice_row(matrix, observation.row)
    commands = {
        name: command
        for name, command in observation.commands.items()
        if not untrusted or _OWN_COMMAND.fullmatch(command)
    }
    # A value named `create`, which a bundle may contain, must not fill a command's placeholder.
    plain = {name: printable(value) for name, value in observation.values.items() if name != "create"}
    values = plain | {"platform": platform} | commands
    return Finding(
        check=check,
        code=row.code,
        severity=observation.severity or row.severity,
        title=filled(row.title, values, language) or row.code,
        detail=filled(row.detail, values, language) or "",
        evidence=tuple(map(printable, observation.evidence)),
        steps=steps(
            row.remedy,
            {name: (value,) for name, value in values.items() if value},
            values,
            language,
            commands=commands,
            quote=lambda value: quoted(value, platform, untrusted=untrusted),
        ),
        links=row.links,
        fix=row.fix,
        env=plain.get("env", ""),
    )


def advice_row(matrix: Matrix, name: str) -> Advice:
    """Look up a row by name; raise DataError if it does not exist."""
    found = next((row for row in matrix.advice if row.name == name), None)
    if found is None:
        raise DataError(f"the `advice` table has no `{name}` row")
    return found


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, then by check order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def quoted(value: str, platform: str, *, untrusted: bool) -> str:
    """Quote a value as one word for the shells of `linux` or `windows`, or return "" if that is not safe.

    If the value comes from someone else (`untrusted`), it may contain only plain words and spaces.
    """
    if word := plain_word(value):
        return word
    if not 0 < len(value) <= _MAX_WORD or value[0] in " -" or "?" in value:
        return ""
    is_quotable = _QUOTABLE.fullmatch(value) is not None
    if platform == "windows":
        # A backslash before the closing quote would escape it.
        doubled = "\\" * (len(value) - len(value.rstrip("\\")))
        return f'"{value}{doubled}"' if is_quotable else ""
    if untrusted and not is_quotable:
        return ""
    # The shell does not expand a quoted `~`.
    return f"~/{shlex.quote(value[2:])}" if value.startswith("~/") else shlex.quote(value)
