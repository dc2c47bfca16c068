"""`rocenv doctor`: checks for this machine and an env, fixes, and support bundles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import (
    LANGUAGE_OPTION,
    heading,
    label,
    output_language,
    paragraphs,
    step_lines,
)
from rocenv.commands.output import (
    can_ask,
    colour,
    columns,
    confirm,
    json_option,
    note,
    print_json,
    print_text,
)
from rocenv.context import Context
from rocenv.core.errors import Declined
from rocenv.core.language import LANGUAGES
from rocenv.core.progress import sanitized, size_text
from rocenv.prefix import prefix_of
from rocenv.system import WINDOWS
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from rocenv.checks.bundle import Bundle
    from rocenv.checks.context import CheckContext
    from rocenv.checks.table import Check
    from rocenv.core.language import Language
    from rocenv.findings import Finding

_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}
_MESSAGES: Mapping[str, tuple[str, str]] = {
    "evidence": ("seen", "依据"),
    "none": ("{count} checks found no problems", "{count} 项检查均未发现问题"),
    "count": ("{count} checks, {found}", "{count} 项检查：{found}"),
    "fix": (
        "`rocenv doctor --fix` can do this for you; it asks first",
        "`rocenv doctor --fix` 可以代劳，执行前会先询问",
    ),
    "of env": ("{title}: `{command}`", "{title}：`{command}`"),
    "more of env": ("; {count} more: `{command}`", "；另有 {count} 项：`{command}`"),
    "slow": ("slow", "较慢"),
    "running": ("Running the check {name}", "正在运行检查项 {name}"),
    "checking": ("Running all checks", "正在运行所有检查项"),
    "no name": ("NAME is empty", "NAME 为空"),
    "needs": ("{one} works only with {other}", "{one} 只能与 {other} 一起使用"),
    "collected": (
        "Wrote `{file}` ({size}): what the checks need to know about the GPUs, the kernel and the drivers, "
        "and what they found. It contains no user names, host names or serial numbers, and none of your "
        "folders",
        "已写入 `{file}`（{size}）：检查所需的 GPU、内核和驱动信息，以及检查结果；"
        "不含用户名、主机名、序列号，也不含您的文件夹",
    ),
    "variables": ("Environment variables in it: {names}", "其中的环境变量：{names}"),
    "look": (
        "It is plain text. Read it before you send it: `{command}`",
        "它是纯文本，发送之前请先查看：`{command}`",
    ),
    "examine": ("The recipient runs: `{command}`", "收到的人运行：`{command}`"),
    "alone": ("{one} and {other} cannot be used together", "{one} 和 {other} 不能同时使用"),
}


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
@click.option("--fix", is_flag=True, help="Fix what can be fixed safely. Asks before each fix.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before each fix.")
@click.option(
    "--collect",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a support bundle, without names and serial numbers.",
)
@click.option(
    "--from",
    "bundle",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Check the machine of a support bundle instead of this one.",
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
    """Check this machine for known problems, and the env NAME, or else all envs briefly.

    The exit code is 1 if a check finds an error, else 0.
    """
    language = output_language(lang)
    options = {"--list": as_list, "--fix": fix, "--collect": collect, "--from": bundle}
    _require_one([option for option, value in options.items() if value], name, language)
    if name == "":
        raise click.UsageError(_message("no name", language))
    if yes and not fix:
        raise click.UsageError(_message("needs", language, one="--yes", other="--fix"))
    context = Context()
    if as_list:
        _print_checks(context, name, language, as_json=as_json)
        return 0
    if bundle is not None or collect is not None:
        findings, count = _with_bundle(context, bundle, collect, names, language)
    else:
        checked = _examine(context, name)
        findings, count = _run(context, checked, names, language)
        if fix:
            if not as_json:
                _print(findings, count, language, name)
            if _fix(findings, checked, context, language, yes=yes):
                findings, count = _run_again(context, name, names, language)
    if as_json:
        print_json({"findings": [finding_json(each) for each in findings], "checks_run": count})
    elif not fix:
        _print(findings, count, language, name)
    return 1 if any(each.severity == "error" for each in findings) else 0


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as `doctor --json` prints it."""
    return {
        "check": finding.check,
        "code": finding.code,
        "severity": finding.severity,
        "title": finding.title,
        "detail": finding.detail,
        "evidence": list(finding.evidence),
        "remedy": {"text": " ".join(finding.instructions), "commands": list(finding.commands)},
        "links": list(finding.links),
        "fix": finding.fix or None,
    }


def _require_one(options: Sequence[str], name: str | None, language: Language) -> None:
    """Raise UsageError if two options were given that exclude each other."""
    if name is not None:
        options = [*(each for each in options if each in ("--collect", "--from")), "NAME"]
    if len(options) > 1:
        raise click.UsageError(_message("alone", language, one=options[0], other=options[1]))


def _examine(context: Context, name: str | None) -> CheckContext:
    from rocenv.checks.context import examine_machine

    return examine_machine(context.home, context.matrix, name=name or "")


def _run(
    context: Context, checked: CheckContext, names: tuple[str, ...], language: Language
) -> tuple[list[Finding], int]:
    from rocenv.checks.run import checks_for, run

    def begin(check: Check) -> AbstractContextManager[object]:
        title = _message("running", language, name=check.name)
        return context.progress.wait(title, closing=False)

    checks = checks_for(checked, names)
    return run(checked, checks, language, begin), len(checks)


def _run_again(
    context: Context, name: str | None, names: tuple[str, ...], language: Language
) -> tuple[list[Finding], int]:
    """Run the checks after fixes, which may have removed the env in question."""
    if name and prefix_of(context.home, name).state == "absent":
        return [], 0
    return _run(context, _examine(context, name), names, language)


def _with_bundle(
    context: Context, bundle: Path | None, file: Path | None, names: tuple[str, ...], language: Language
) -> tuple[list[Finding], int]:
    from rocenv.checks.bundle import collect, examine

    if bundle is not None:
        examined = examine(bundle, context.matrix, language, names)
    else:
        assert file is not None
        with context.progress.wait(_message("checking", language)):
            examined = collect(file, context.home, context.matrix, language, names)
        for line in _about_bundle(file, examined.bundle, language):
            note(line)
    return list(examined.findings), examined.checks


def _about_bundle(file: Path, bundle: Bundle, language: Language) -> Iterator[str]:
    """Tell the user what is in a bundle, how to read it, and what the recipient does with it."""
    name = shell_join(str(file))
    yield _message("collected", language, file=str(file), size=size_text(file.stat().st_size))
    if bundle.variables:
        yield _message("variables", language, names=", ".join(bundle.variables))
    yield _message("look", language, command=f"more {name}" if WINDOWS else f"less {name}")
    yield _message("examine", language, command=f"rocenv doctor --from {name}")


def _fix(
    findings: Sequence[Finding], checked: CheckContext, context: Context, language: Language, *, yes: bool
) -> bool:
    from rocenv.checks.fixes import Dialog, apply

    ask = (lambda text: confirm(sanitized(text))) if can_ask() else None
    dialog = Dialog(ask=(lambda _text: True) if yes else ask, report=note, language=language)
    outcome = apply(findings, checked, context, dialog)
    if outcome.left and not outcome.done and not outcome.failed and dialog.ask is not None:
        raise Declined
    return outcome.done > 0


def _print_checks(context: Context, name: str | None, language: Language, *, as_json: bool) -> None:
    from rocenv.checks.run import checks_for, description

    checked = _examine(context, name)
    rows = [(each.name, description(each, checked, language), each.is_slow) for each in checks_for(checked)]
    if as_json:
        print_json({"checks": [{"name": check, "about": text, "slow": slow} for check, text, slow in rows]})
        return
    suffix = f" ({_message('slow', language)})"
    click.echo(columns([(check, text + suffix if slow else text) for check, text, slow in rows]))


def _print(findings: Sequence[Finding], count: int, language: Language, name: str | None) -> None:
    """Print findings; those about an env that the user did not specify take one line per env."""
    from rocenv.checks.table import CHECKS

    brief = {check.name for check in CHECKS if check.each_env and name is None}
    faults: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.check in brief:
            faults.setdefault(finding.env, []).append(finding)
    shown = [each for each in findings if each.check not in brief or each is faults[each.env][0]]
    for number, finding in enumerate(shown, 1):
        own = faults.get(finding.env, []) if finding.check in brief else []
        lines = _env_lines(number, own, language) if own else _lines(number, finding, language)
        click.echo("\n".join(lines) + "\n")
    if not findings:
        click.echo(_message("none", language, count=str(count)))
        return
    counts = {each: sum(finding.severity == each for finding in shown) for each in _COLOURS}
    separator = "，" if language == "zh" else ", "
    found = separator.join(_count(each, number, language) for each, number in counts.items() if number)
    print_text(_message("count", language, count=str(count), found=found))


def _count(severity: str, number: int, language: Language) -> str:
    name = label(severity, language)
    return f"{name} {number}" if language == "zh" else f"{number} {name}{'s' * (number != 1)}"


def _env_lines(number: int, findings: Sequence[Finding], language: Language) -> Iterator[str]:
    """Report an env's worst fault in one line, with its first command."""
    worst = findings[0]
    check = shell_join("rocenv", "doctor", worst.env)
    text = _message("of env", language, title=worst.title, command=next(iter(worst.commands), check))
    if len(findings) > 1:
        text += _message("more of env", language, count=str(len(findings) - 1), command=check)
    yield from _heading(number, worst, text, language)


def _heading(number: int, finding: Finding, text: str, language: Language) -> Iterator[str]:
    severity = colour(label(finding.severity, language), _COLOURS[finding.severity])
    colon = "：" if language == "zh" else ": "
    yield from heading(f"{number}. {severity}{colon}{text}  [{finding.code}]")


def _lines(number: int, finding: Finding, language: Language) -> Iterator[str]:
    yield from _heading(number, finding, finding.title, language)
    for place, line in enumerate(finding.evidence):
        yield from paragraphs(_message("evidence", language) if not place else "", (line,))
    if finding.detail:
        yield from paragraphs(label("why", language), (finding.detail,))
    yield from step_lines(finding.steps, language)
    if finding.fix:
        yield from paragraphs("", (_message("fix", language),))
    if finding.links:
        yield from paragraphs(label("more", language), finding.links)


def _message(key: str, language: Language, /, **values: str) -> str:
    return _MESSAGES[key][LANGUAGES.index(language)].format(**values)
