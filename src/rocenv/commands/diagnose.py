"""`rocenv diagnose`: find known causes in a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.findings_text import (
    LANGUAGE_OPTION,
    heading,
    paragraphs,
    quoted,
    sentences,
    step_lines,
    texts_for,
)
from rocenv.commands.options import json_option
from rocenv.commands.output import color, note, print_json
from rocenv.context import Context
from rocenv.core.progress import sanitized

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocenv.data.remedies import Texts
    from rocenv.diagnose import Diagnosis, Evidence, Finding
    from rocenv.diagnose.facts import Facts
    from rocenv.diagnose.reading import LeftOut
    from rocenv.diagnose.report import Report

_SHOWN_FACTS = (
    *("gpu", "gfx", "platform", "os", "app", "rocm", "zluda", "torch"),
    *("driver", "amdgpu", "override"),
)
_SHOWN_VALUES = 4
_UNSURE = 0.5
_LONG_BYTES = 32 << 20  # show progress for logs of at least this size


@click.command()
@click.argument("log", metavar="FILE|-", type=click.Path(allow_dash=True))
@LANGUAGE_OPTION
@json_option
def command(log: str, lang: str | None, as_json: bool) -> int:
    """Find known causes in a log: a file, gzip-compressed or not, a folder of logs, or - for standard input.

    The exit code is 0 if a cause was found, otherwise 1.
    """
    from rocenv.diagnose.report import known_combinations, report

    if not log:
        raise click.UsageError("FILE is empty: specify a log, a folder of logs, or `-`")
    context = Context()
    texts = texts_for(context, lang)
    diagnosis = _diagnose(log, context, texts)
    machine = _machine(diagnosis, context)
    findings = [(each, report(each, context.matrix, texts.language, machine)) for each in diagnosis.findings]
    combinations = known_combinations(diagnosis.facts, context.matrix)
    if as_json:
        print_json({"findings": [_json(*each, texts) for each in findings]})
        return 0 if findings else 1
    for number, (finding, shown) in enumerate(findings, 1):
        if number > 1:
            click.echo()
        codes = (finding.code, *(() if number > 1 else combinations))
        click.echo("\n".join(_lines(number, finding, shown, machine, codes, texts)))
    if not findings:
        name = "empty" if diagnosis.is_empty else "nothing"
        note(texts(name, log=f"`{log}`", lines=f"{diagnosis.lines:,}"))
    return 0 if findings else 1


def _diagnose(log: str, context: Context, texts: Texts) -> Diagnosis:
    from rocenv.diagnose import diagnose
    from rocenv.diagnose.reading import read_stream

    left_out: list[LeftOut] = []
    if log == "-":
        if sys.stdin is None:
            raise click.UsageError("there is no standard input")
        if sys.stdin.isatty():
            note(texts("typed"))
        blocks = read_stream(sys.stdin.buffer, left_out=left_out.append)
        diagnosis = diagnose(blocks, context.matrix)
    else:
        diagnosis = _diagnose_path(Path(log), context, left_out)
    for why in dict.fromkeys(each.why for each in left_out):
        paths = [each.path for each in left_out if each.why == why]
        note(texts(why, count=str(len(paths)), path=f"`{paths[0]}`"))
    return diagnosis


def _diagnose_path(path: Path, context: Context, left_out: list[LeftOut]) -> Diagnosis:
    from rocenv.diagnose import diagnose
    from rocenv.diagnose.reading import read_path

    size_bytes = path.stat().st_size if path.is_file() else 0
    if path.is_file() and size_bytes < _LONG_BYTES:
        return diagnose(read_path(path, left_out=left_out.append), context.matrix)
    with context.progress.stage("Reading the log", size_bytes) as stage:
        return diagnose(read_path(path, stage.advance, left_out.append), context.matrix)


def _machine(diagnosis: Diagnosis, context: Context) -> Facts:
    """Collect facts about this machine, if there are findings."""
    if not diagnosis.findings:
        return {}
    from rocenv.core.errors import RocenvError
    from rocenv.data.remedies import plain_word
    from rocenv.diagnose.report import facts_of
    from rocenv.host import detect

    env = next(filter(None, map(plain_word, diagnosis.facts.get("env", ()))), "")
    name = context.home.unused_name(env or "demo")
    free: Facts = {"another": (f"{env}2" if name == env else name,)}
    try:
        host = detect(context.matrix)
        here = host.gpu.target.partition(":")[0] if host.gpu else ""
        return {**facts_of(host, diagnosis.facts), **free, "here": (here,)}
    except RocenvError:  # an invalid ROCENV_TARGET is irrelevant here
        return free


def _json(finding: Finding, shown: Report, texts: Texts) -> dict[str, Any]:
    return {
        "code": finding.code,
        "title": shown.title,
        "confidence": finding.confidence,
        "evidence": [_evidence_json(each) for each in finding.evidence],
        "facts": {
            name: values[0] if len(values) == 1 else list(values) for name, values in finding.facts.items()
        },
        "cause": shown.cause,
        "remedy": {"text": sentences(shown.steps, texts.language), "commands": list(shown.commands)},
        "links": list(shown.links),
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    shown = {"line": evidence.line, "text": evidence.text, "count": evidence.count}
    return {**shown, "file": evidence.file} if evidence.file else shown


def _facts_text(facts: Facts, texts: Texts) -> str:
    known = (name for name in _SHOWN_FACTS if facts.get(name))
    listed = (f"{name} {texts.mark(',').join(facts[name][:_SHOWN_VALUES])}" for name in known)
    return texts.mark(";").join(listed)


def _lines(
    number: int, finding: Finding, shown: Report, machine: Facts, codes: Iterable[str], texts: Texts
) -> Iterator[str]:
    sure = "sure" if finding.confidence >= _UNSURE else "unsure"
    yield from heading(f"{number}. {color(shown.title, 'yellow')}  [{finding.code}]")
    yield f"   {texts(sure, percent=str(round(finding.confidence * 100)))}"
    for each in finding.evidence:
        where = f"{sanitized(each.file)}:{each.line}" if each.file else str(each.line)
        times = f"  ({texts('times', count=str(each.count))})" if each.count > 1 else ""
        yield from quoted(texts("line", where=where) + texts.mark(":"), f"{each.text}{times}")
    yield from paragraphs(texts("why"), (shown.cause,))
    yield from step_lines(shown.steps, texts)
    for name, facts in (("facts", finding.facts), ("machine", machine)):
        if set(facts) & set(_SHOWN_FACTS) - {"platform"}:
            yield from paragraphs(texts(name), (_facts_text(facts, texts),))
    pages = (f"rocenv explain {code}" for code in codes)
    yield from paragraphs(texts("more"), (*pages, *shown.links))
