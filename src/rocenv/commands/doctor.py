"""`rocenv doctor`: check this machine and envs, fix problems, and write support bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import (
    LANGUAGE_OPTION,
    heading,
    paragraphs,
    step_lines,
    texts_for,
)
from rocenv.commands.options import FILE, json_option
from rocenv.commands.output import can_ask, color, columns, confirm, fields, note, print_json, print_text
from rocenv.context import Context
from rocenv.core.errors import Declined
from rocenv.core.progress import sanitized, size_text
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rocenv.checks.bundle import Bundle
    from rocenv.checks.context import CheckContext
    from rocenv.checks.table import Check
    from rocenv.data.remedies import Texts
    from rocenv.findings import Finding

_COLORS = {"error": "red", "warning": "yellow", "info": "blue"}


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=candidates.env_names)
@click.option(
    "--check",
    "names",
    metavar="NAME",
    multiple=True,
    shell_complete=candidates.checks,
    help="Run only this check. Repeatable.",
)
@click.option("--list", "as_list", is_flag=True, help="List the checks for this machine.")
@click.option("--fix", is_flag=True, help="Apply safe fixes. Asks before each fix.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before each fix.")
@click.option(
    "--collect",
    metavar="FILE",
    type=FILE,
    help="Write a support bundle that contains no names or serial numbers.",
)
@click.option(
    "--from",
    "bundle",
    metavar="FILE",
    type=FILE,
    help="Check the machine in a support bundle instead of this one.",
)
@LANGUAGE_OPTION
@json_option
def command(
    name: str | None,
    names: tuple[str, ...],
    as_list: bool,
    fix: bool,
    yes: bool,
    collect: Path | None,
    bundle: Path | None,
    lang: str | None,
    as_json: bool,
) -> int:
    """Check this machine and the env NAME for known problems; without NAME, check all envs briefly.

    The exit code is 1 if a check finds an error, otherwise 0.
    """
    context = Context()
    texts = texts_for(context, lang)
    options = {"--list": as_list, "--fix": fix, "--collect": collect, "--from": bundle}
    _require_one([option for option, value in options.items() if value], name, texts)
    if name == "":
        raise click.UsageError(texts("no_name"))
    if yes and not fix:
        raise click.UsageError(texts("needs", one="--yes", other="--fix"))
    if as_list:
        _print_checks(context, name, texts, as_json=as_json)
        return 0
    if bundle is not None or collect is not None:
        findings, count = _with_bundle(context, bundle, collect, names, texts)
    else:
        checked = _examine(context, name)
        findings, count = _run(context, checked, names, texts)
        if fix:
            if not as_json:
                _print(findings, count, texts, name)
            if _fix(findings, checked, context, texts, yes=yes):
                findings, count = _run_again(context, name, names, texts)
    if as_json:
        print_json({"findings": [finding_json(each) for each in findings], "checks_run": count})
    elif not fix:
        _print(findings, count, texts, name)
    return 1 if any(each.severity == "error" for each in findings) else 0


def finding_json(finding: Finding) -> dict[str, Any]:
    """Convert a finding to JSON, as `doctor --json` prints it."""
    return {
        **fields(finding, "check", "code", "severity", "title", "detail", "evidence", "links"),
        "remedy": {"text": " ".join(finding.instructions), "commands": finding.commands},
        "fix": finding.fix or None,
    }


def _require_one(options: Sequence[str], name: str | None, texts: Texts) -> None:
    """Raise UsageError if mutually exclusive options were given."""
    if name is not None:
        options = [*(each for each in options if each in ("--collect", "--from")), "NAME"]
    if len(options) > 1:
        raise click.UsageError(texts("alone", one=options[0], other=options[1]))


def _examine(context: Context, name: str | None) -> CheckContext:
    from rocenv.checks.context import examine_machine

    return examine_machine(context.home, context.matrix, name=name or "")


def _run(
    context: Context, checked: CheckContext, names: tuple[str, ...], texts: Texts
) -> tuple[list[Finding], int]:
    from rocenv.checks.run import checks_for, run

    def begin(check: Check) -> AbstractContextManager[object]:
        title = texts("running", name=check.name)
        return context.progress.wait(title, closing=False)

    checks = checks_for(checked, names)
    return run(checked, checks, texts.language, begin), len(checks)


def _run_again(
    context: Context, name: str | None, names: tuple[str, ...], texts: Texts
) -> tuple[list[Finding], int]:
    """Rerun the checks after the fixes, which may have removed the env."""
    if name and prefix_of(context.home, name).state == "absent":
        return [], 0
    return _run(context, _examine(context, name), names, texts)


def _with_bundle(
    context: Context, bundle: Path | None, file: Path | None, names: tuple[str, ...], texts: Texts
) -> tuple[list[Finding], int]:
    from rocenv.checks.bundle import collect, examine

    if bundle is not None:
        examined = examine(bundle, context.matrix, texts.language, names)
    else:
        assert file is not None
        with context.progress.wait(texts("checking")):
            examined = collect(file, context.home, context.matrix, texts.language, names)
        for line in _about_bundle(file, examined.bundle, texts):
            note(line)
    return list(examined.findings), examined.checks


def _about_bundle(file: Path, bundle: Bundle, texts: Texts) -> Iterator[str]:
    """Describe what is in a bundle, how to read it, and what the recipient does with it."""
    name = shell_join(str(file))
    yield texts("collected", file=str(file), size=size_text(file.stat().st_size))
    if bundle.variables:
        yield texts("variables", names=", ".join(bundle.variables))
    yield texts("look", command=f"more {name}" if WINDOWS else f"less {name}")
    yield texts("examine", command=f"rocenv doctor --from {name}")


def _fix(
    findings: Sequence[Finding], checked: CheckContext, context: Context, texts: Texts, *, yes: bool
) -> bool:
    from rocenv.checks.fixes import Dialog, apply

    ask = (lambda text: confirm(sanitized(text))) if can_ask() else None
    dialog = Dialog(ask=(lambda _text: True) if yes else ask, report=note, texts=texts)
    outcome = apply(findings, checked, context, dialog)
    if outcome.left and not outcome.done and not outcome.failed and dialog.ask is not None:
        raise Declined
    return outcome.done > 0


def _print_checks(context: Context, name: str | None, texts: Texts, *, as_json: bool) -> None:
    from rocenv.checks.run import checks_for, description

    checked = _examine(context, name)
    rows = [
        (each.name, description(each, checked, texts.language), each.is_slow) for each in checks_for(checked)
    ]
    if as_json:
        print_json({"checks": [{"name": check, "about": text, "slow": slow} for check, text, slow in rows]})
        return
    suffix = f" ({texts('slow')})"
    click.echo(columns([(check, text + suffix if slow else text) for check, text, slow in rows]))


def _print(findings: Sequence[Finding], count: int, texts: Texts, name: str | None) -> None:
    """Print findings, with a single line for each env that the user did not specify."""
    from rocenv.checks.table import CHECKS

    brief = {check.name for check in CHECKS if check.each_env and name is None}
    faults: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.check in brief:
            faults.setdefault(finding.env, []).append(finding)
    shown = [each for each in findings if each.check not in brief or each is faults[each.env][0]]
    for number, finding in enumerate(shown, 1):
        own = faults.get(finding.env, []) if finding.check in brief else []
        lines = _env_lines(number, own, texts) if own else _lines(number, finding, texts)
        click.echo("\n".join(lines) + "\n")
    if not findings:
        print_text(texts("no_findings", count=str(count)) + "\n" + texts("still_fails"))
        return
    counts = {each: sum(finding.severity == each for finding in shown) for each in _COLORS}
    found = texts.mark(",").join(_count(each, number, texts) for each, number in counts.items() if number)
    print_text(texts("count", count=str(count), found=found))


def _count(severity: str, number: int, texts: Texts) -> str:
    name = texts(severity)
    return f"{name} {number}" if texts.language == "zh" else f"{number} {name}{'s' * (number != 1)}"


def _env_lines(number: int, findings: Sequence[Finding], texts: Texts) -> Iterator[str]:
    """Render an env's worst problem in one line, with the first suggested command."""
    worst = findings[0]
    check = shell_join("rocenv", "doctor", worst.env)
    text = texts("of_env", title=worst.title, command=next(iter(worst.commands), check))
    if len(findings) > 1:
        text += texts("more_of_env", count=str(len(findings) - 1), command=check)
    yield from _heading(number, worst, text, texts)


def _heading(number: int, finding: Finding, text: str, texts: Texts) -> Iterator[str]:
    severity = color(texts(finding.severity), _COLORS[finding.severity])
    yield from heading(f"{number}. {severity}{texts.mark(':')}{text}  [{finding.code}]")


def _lines(number: int, finding: Finding, texts: Texts) -> Iterator[str]:
    yield from _heading(number, finding, finding.title, texts)
    for place, line in enumerate(finding.evidence):
        yield from paragraphs(texts("evidence") if not place else "", (line,))
    if finding.detail:
        yield from paragraphs(texts("why"), (finding.detail,))
    yield from step_lines(finding.steps, texts)
    if finding.fix:
        yield from paragraphs("", (texts("can_fix"),))
    if finding.links:
        yield from paragraphs(texts("more"), finding.links)
