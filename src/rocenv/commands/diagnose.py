"""`rocenv diagnose`: known causes in a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.told import LANGUAGE_OPTION, label, paragraphs, spoken
from rocenv.commands.world import World, colour, harmless, json_option, note, print_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.diagnose import Diagnosis, Evidence, Finding
    from rocenv.diagnose.facts import Facts
    from rocenv.diagnose.report import Told
    from rocenv.language import Language

_SHOWN_FACTS = (
    *("gpu", "gfx", "platform", "os", "app", "rocm", "zluda", "torch"),
    *("driver", "amdgpu", "override"),
)
_UNSURE = 0.5
_LONG_BYTES = 32 << 20  # of a log that takes so long that progress is shown


@click.command()
@click.argument("log", metavar="FILE|-", type=click.Path(path_type=Path, allow_dash=True))
@LANGUAGE_OPTION
@json_option
def command(log: Path, lang: str | None, as_json: bool) -> int:
    """Find known causes in a log: a file, packed or not, a folder of logs, or - for standard input.

    The exit code is 0 if something was recognised, 1 if nothing was.
    """
    from rocenv.diagnose.report import told

    world = World()
    diagnosis = _diagnose(log, world)
    language = spoken(lang)
    machine = _machine(diagnosis, world)
    findings = [(each, told(each, world.matrix, language, machine)) for each in diagnosis.findings]
    if as_json:
        print_json({"findings": [_json(finding, texts) for finding, texts in findings]})
        return 0 if findings else 1
    for number, (finding, texts) in enumerate(findings, 1):
        click.echo(harmless("\n".join(_lines(number, finding, texts, machine, language))))
    if not findings:
        note(_nothing(log, diagnosis, language))
    return 0 if findings else 1


def _diagnose(log: Path, world: World) -> Diagnosis:
    from rocenv.diagnose import diagnose
    from rocenv.diagnose.reading import read_path, read_stream

    if str(log) == "-":
        if sys.stdin.isatty():
            note("reading the log from the keyboard; Ctrl-D ends it (Ctrl-Z and Enter on Windows)")
        return diagnose(read_stream(sys.stdin.buffer), world.matrix)
    if not log.is_file() or log.stat().st_size < _LONG_BYTES:
        return diagnose(read_path(log), world.matrix)
    with world.progress.stage("Reading the log", log.stat().st_size) as stage:
        return diagnose(read_path(log, stage.advance), world.matrix)


def _machine(diagnosis: Diagnosis, world: World) -> Facts:
    """Return what this machine adds to a log; nothing is looked at where there is nothing to tell."""
    if not diagnosis.findings:
        return {}
    from rocenv.diagnose.report import facts_of
    from rocenv.errors import RocenvError
    from rocenv.host import detect

    try:
        return facts_of(detect(world.matrix), diagnosis.facts)
    except RocenvError:  # ROCENV_TARGET names what is none: no matter here
        return {}


def _nothing(log: Path, diagnosis: Diagnosis, language: Language) -> str:
    where = "-" if str(log) == "-" else f"`{log}`"
    if not diagnosis.lines:
        return label("empty", language).format(log=where)
    return label("nothing", language).format(log=where, lines=f"{diagnosis.lines:,}")


def _json(finding: Finding, texts: Told) -> dict[str, Any]:
    return {
        "code": finding.code,
        "title": texts.title,
        "confidence": finding.confidence,
        "evidence": [_evidence_json(each) for each in finding.evidence],
        "facts": {
            name: values[0] if len(values) == 1 else list(values) for name, values in finding.facts.items()
        },
        "cause": texts.cause,
        "remedy": {"text": " ".join(step.text for step in texts.steps), "commands": list(texts.commands)},
        "links": list(texts.links),
    }


def _evidence_json(evidence: Evidence) -> dict[str, Any]:
    told = {"line": evidence.line, "text": evidence.text, "count": evidence.count}
    return {**told, "file": evidence.file} if evidence.file else told


def _lines(number: int, finding: Finding, texts: Told, machine: Facts, language: Language) -> Iterator[str]:
    sure = label("sure" if finding.confidence >= _UNSURE else "unsure", language)
    yield f"{number}. {colour(texts.title, 'yellow')}  [{finding.code}]"
    yield f"   {sure.format(percent=round(finding.confidence * 100))}"
    for each in finding.evidence:
        where = f"{each.file}:{each.line}" if each.file else str(each.line)
        times = f"  ({label('times', language).format(count=each.count)})" if each.count > 1 else ""
        yield f"   {label('line', language).format(where=where)}: {each.text}{times}"
    yield from paragraphs(label("why", language), (texts.cause,))
    for place, step in enumerate(texts.steps):
        yield from paragraphs(label("do", language) if not place else "", (step.text,))
        yield from (f"            {command}" for command in step.commands)
    for heading, facts in (("facts", finding.facts), ("machine", machine)):
        if known := [f"{name} {', '.join(facts[name])}" for name in _SHOWN_FACTS if facts.get(name)]:
            yield from paragraphs(label(heading, language), ("; ".join(known),))
    yield from paragraphs(label("more", language), (f"rocenv explain {finding.code}", *texts.links))
    yield ""
