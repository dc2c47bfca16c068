"""A cause of failures: how a log or a check shows it, why it happens, what cures it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.diagnose.telling import unfilled
from rocenv.explain.answer import Explanation, Line, Step, sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocenv.core.language import Language
    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Advice, Remedy, Rule, Text

_SHOWN = 8  # literals of a cause that are shown

_HEADINGS: Mapping[str, tuple[str, str]] = {
    "when": ("In special cases", "特殊情况"),
    "signs": ("What a log shows", "日志里的样子"),
    "remedies": ("What cures it", "解决办法"),
    "more": ("More about it", "更多说明"),
    "checks": ("What `rocenv doctor` looks at", "`rocenv doctor` 会检查什么"),
    "links": ("To read on", "延伸阅读"),
    "steps": ("Commands", "命令"),
}


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    return sorted({row.code for row in matrix.rule} | {row.code for row in matrix.advice})


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the codes that are meant."""
    code = re.sub(r"[\s_]+", "-", thing)
    return [code] if code in names(matrix) else []


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a cause, in English."""
    return explain_in("en", name, matrix)


def explain_in(language: Language, name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a cause."""
    rule = next((row for row in matrix.rule if row.code == name), None)
    advice = [row for row in matrix.advice if row.code == name]
    title = rule.title if rule else advice[0].title

    def heading(key: str) -> str:
        return _HEADINGS[key][language == "zh"]

    cures: list[tuple[Remedy, Known]] = [(each, rule) for each in rule.remedy] if rule else []
    cures += [(each, row) for row in advice for each in row.remedy]
    return Explanation(
        thing=name,
        kind="cause",
        title=f"{name}: {told(title, language)}",
        answer=tuple(_answer(rule, advice, language)),
        sections=sections(
            (heading("when"), _special(rule, language)),
            (heading("signs"), _signs(rule)),
            (heading("remedies"), [Line(text=told(each.text, language), rows=(row,)) for each, row in cures]),
            (heading("more"), _more(rule, language)),
            (heading("checks"), _checks(advice, language) if rule else []),
            (heading("links"), [Line(text=link) for link in _links(rule, advice)]),
        ),
        steps=_steps([each for each, _row in cures]),
        steps_title=heading("steps"),
    )


def told(text: Text, language: Language) -> str:
    """Return a text without a log to fill it from."""
    return unfilled(getattr(text, language))


def _answer(rule: Rule | None, advice: list[Advice], language: Language) -> Iterable[Line]:
    if rule:
        yield Line(text=told(rule.why[-1].text, language), rows=(rule,))
        return
    for row in advice:
        yield Line(text=told(row.detail, language), rows=(row,))


def _special(rule: Rule | None, language: Language) -> list[Line]:
    return [Line(text=told(why.text, language), rows=(rule,)) for why in rule.why[:-1]] if rule else []


def _signs(rule: Rule | None) -> list[Line]:
    texts = dict.fromkeys(text for sign in rule.sign for text in sign.text[:2]) if rule else {}
    return [Line(text=f"`{text}`") for text in list(texts)[:_SHOWN]]


def _more(rule: Rule | None, language: Language) -> list[Line]:
    if rule is None or rule.more is None:
        return []
    paragraphs = re.split(r"\n\s*\n", told(rule.more, language).strip())
    return [Line(text=" ".join(each.split()), rows=(rule,)) for each in paragraphs]


def _checks(advice: list[Advice], language: Language) -> list[Line]:
    return [Line(label=row.name, text=told(row.title, language), rows=(row,)) for row in advice]


def _links(rule: Rule | None, advice: list[Advice]) -> list[str]:
    rows: list[Rule | Advice] = [*([rule] if rule else []), *advice]
    return list(dict.fromkeys(link for row in rows for link in row.links))


def _steps(cures: Iterable[Remedy]) -> tuple[Step, ...]:
    commands = (unfilled(command) for each in cures for command in each.commands if "{create}" not in command)
    return tuple(Step(command=command, gives="") for command in dict.fromkeys(commands))
