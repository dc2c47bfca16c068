"""`rocenv doctor`: checks of this machine, and of an env, for known troubles."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands import candidates
from rocenv.commands.findings_text import LANGUAGE_OPTION, label, output_language, paragraphs, step_lines
from rocenv.commands.output import colour, columns, json_option, note, print_json
from rocenv.context import Context
from rocenv.core.language import LANGUAGES
from rocenv.core.progress import sanitized
from rocenv.prefix import prefix_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from rocenv.core.language import Language
    from rocenv.doctor.checks import Check
    from rocenv.doctor.run import Finding
    from rocenv.doctor.scene import Scene

_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}
_SAID: Mapping[str, tuple[str, str]] = {
    "seen": ("seen", "依据"),
    "well": ("no trouble found by {count} checks", "{count} 项检查均未发现问题"),
    "count": ("{count} checks: {found}", "{count} 项检查：{found}"),
    "fix": (
        "`rocenv doctor --fix` does this for you, once you say yes",
        "`rocenv doctor --fix` 可以代劳，执行前会先询问",
    ),
    "slow": ("slow", "较慢"),
    "running": ("running the check {name}", "正在运行检查项 {name}"),
    "no name": ("an env has a name: NAME is empty", "环境都有名称，而 NAME 为空"),
    "needs": ("{one} goes with {other} only", "{one} 只能与 {other} 一起使用"),
    "alone": ("{one} and {other} do not go together", "{one} 和 {other} 不能同时使用"),
}


@click.command()
@click.argument("name", metavar="[NAME]", required=False, shell_complete=candidates.env_names)
@click.option(
    "--check",
    "names",
    metavar="NAME",
    multiple=True,
    shell_complete=candidates.checks,
    help="Only this check; may be repeated.",
)
@click.option("--list", "as_list", is_flag=True, help="Name the checks that there are for this machine.")
@click.option("--fix", is_flag=True, help="Do what can be done without harm, each after a yes.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before each fix.")
@click.option(
    "--collect",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Pack what the checks read, without names and serial numbers, for a report.",
)
@click.option(
    "--from",
    "pack",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Examine such a pack instead of this machine.",
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
    pack: Path | None,
    lang: str | None,
    as_json: bool,
) -> int:
    """Check this machine for known troubles, and an env too where NAME names one.

    The exit code is 1 if there is an error among them, 0 if not.
    """
    language = output_language(lang)
    given = {"--list": as_list, "--fix": fix, "--collect": collect, "--from": pack}
    _require_one([option for option, value in given.items() if value], name, language)
    _require_sense(name, language, fix=fix, yes=yes)
    context = Context()
    if as_list:
        _print_checks(context, name, language, as_json=as_json)
        return 0
    if pack is not None or collect is not None:
        findings, count = _packed(context, pack, collect, names, language)
    else:
        scene = _scene(context, name)
        findings, count = _looked(context, scene, names, language)
        if fix:
            if not as_json:
                _print(findings, count, language)
            if _fixed(findings, scene, context, language, yes=yes):
                findings, count = _after(context, name, names, language)
    if as_json:
        print_json({"findings": [finding_json(each) for each in findings], "checks_run": count})
    elif not fix:
        _print(findings, count, language)
    return 1 if any(each.severity == "error" for each in findings) else 0


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as `doctor --json` prints it."""
    return {
        "check": finding.check,
        "code": finding.code,
        "severity": finding.severity,
        "title": finding.title,
        "detail": finding.detail,
        "evidence": list(finding.evidence),
        "remedy": {"text": " ".join(finding.todo), "commands": list(finding.commands)},
        "links": list(finding.links),
        "fix": finding.fix or None,
    }


def _require_one(options: Sequence[str], name: str | None, language: Language) -> None:
    """Raise UsageError where two things are wanted of which only one can be done."""
    if name is not None:
        options = [*(each for each in options if each in ("--collect", "--from")), "NAME"]
    if len(options) > 1:
        raise click.UsageError(_said("alone", language).format(one=options[0], other=options[1]))


def _scene(context: Context, name: str | None) -> Scene:
    from rocenv.doctor.scene import scene_of

    return scene_of(context.home, context.matrix, name=name or "")


def _require_sense(name: str | None, language: Language, *, fix: bool, yes: bool) -> None:
    if name == "":
        raise click.UsageError(_said("no name", language))
    if yes and not fix:
        raise click.UsageError(_said("needs", language).format(one="--yes", other="--fix"))


def _looked(
    context: Context, scene: Scene, names: tuple[str, ...], language: Language
) -> tuple[list[Finding], int]:
    from rocenv.doctor.run import applying, look

    def begin(check: Check) -> AbstractContextManager[object]:
        title = _said("running", language).format(name=check.name)
        return context.progress.stage(title) if check.slow else nullcontext()

    checks = applying(scene, names)
    return look(scene, checks, language, begin), len(checks)


def _after(
    context: Context, name: str | None, names: tuple[str, ...], language: Language
) -> tuple[list[Finding], int]:
    """Look again after fixes, which may have removed the env that was named."""
    if name and prefix_of(context.home, name).state == "absent":
        return [], 0
    return _looked(context, _scene(context, name), names, language)


def _packed(
    context: Context, pack: Path | None, file: Path | None, names: tuple[str, ...], language: Language
) -> tuple[list[Finding], int]:
    """Examine a pack, or pack what is examined."""
    from rocenv.doctor.pack import about, collect, examine

    if pack is not None:
        examined = examine(pack, context.matrix, language, names)
    else:
        assert file is not None
        examined = collect(file, context.home, context.matrix, language, names)
        for line in about(file, language):
            note(line)
    return list(examined.findings), examined.checks


def _fixed(
    findings: Sequence[Finding], scene: Scene, context: Context, language: Language, *, yes: bool
) -> bool:
    """Do what findings allow; tell whether anything was done."""
    from rocenv.doctor.fixes import Asking, apply

    asks = (lambda text: click.confirm(sanitized(text), err=True)) if sys.stdin.isatty() else None
    asking = Asking(
        ask=(lambda text: True) if yes else asks,
        tell=note,
        language=language,
    )
    return apply(findings, scene, context, asking).done > 0


def _print_checks(context: Context, name: str | None, language: Language, *, as_json: bool) -> None:
    from rocenv.doctor.run import about, applying

    scene = _scene(context, name)
    rows = [(each.name, about(each, scene, language), each.slow) for each in applying(scene)]
    if as_json:
        print_json({"checks": [{"name": check, "about": text, "slow": slow} for check, text, slow in rows]})
        return
    slowly = f" ({_said('slow', language)})"
    click.echo(columns([(check, text + slowly if slow else text) for check, text, slow in rows]))


def _print(findings: Sequence[Finding], count: int, language: Language) -> None:
    for number, finding in enumerate(findings, 1):
        click.echo("\n".join(_lines(number, finding, language)) + "\n")
    if not findings:
        click.echo(_said("well", language).format(count=count))
        return
    found = {each: sum(finding.severity == each for finding in findings) for each in _COLOURS}
    told = ", ".join(f"{label(each, language)} {number}" for each, number in found.items() if number)
    click.echo(_said("count", language).format(count=count, found=told))


def _lines(number: int, finding: Finding, language: Language) -> Iterator[str]:
    severity = colour(label(finding.severity, language), _COLOURS[finding.severity])
    yield f"{number}. {severity}: {finding.title}  [{finding.code}]"
    for place, line in enumerate(finding.evidence):
        yield from paragraphs(_said("seen", language) if not place else "", (line,))
    if finding.detail:
        yield from paragraphs(label("why", language), (finding.detail,))
    yield from step_lines(finding.steps, language)
    if finding.fix:
        yield from paragraphs("", (_said("fix", language),))
    if finding.links:
        yield from paragraphs(label("more", language), finding.links)


def _said(name: str, language: Language) -> str:
    return _SAID[name][LANGUAGES.index(language)]
