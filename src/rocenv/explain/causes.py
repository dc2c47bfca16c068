"""Explain failures: why they occur, how to fix them, log messages, and checks that find them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.template import fill, without_values
from rocenv.data.remedies import unfilled
from rocenv.data.rules import Advice
from rocenv.explain.conditions import CONTINUES, Conditions
from rocenv.explain.page import Explanation, Line, sections

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocenv.core.language import Language
    from rocenv.data.known import Known
    from rocenv.data.rows import Matrix
    from rocenv.data.rules import Remedy, Rule, Text

_HEADINGS: Mapping[str, tuple[str, str]] = {
    "cases": ("Special cases", "特殊情况"),
    "log": ("In logs", "日志中的样子"),
    "remedies": ("What to do", "解决办法"),
    "more": ("Background", "更多说明"),
    "rarely": (
        "Only in some cases; `rocenv diagnose` and `rocenv doctor` say which",
        "仅适用于部分情况，`rocenv diagnose` 和 `rocenv doctor` 会说明是否适用",
    ),
    "checks": ("Related `rocenv doctor` checks", "`rocenv doctor` 的相关检查"),
    "links": ("Further reading", "延伸阅读"),
}
_UNKNOWN = re.compile(r"\{(?!gfx\})\w+\}")  # a placeholder without a phrase for an unknown value
# What `diagnose` suggests if a log does not show the GPU.
_CREATE = "rocenv create demo --torch"
_CREATE_ZLUDA = "rocenv create demo --zluda"
_CHINESE = "[\u3000-\u9fff\uff00-\uffef]"


def names(matrix: Matrix) -> list[str]:
    """List the codes of rules and checks."""
    return sorted({row.code for row in matrix.rule} | {row.code for row in matrix.advice})


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the code that a query matches; a check's name matches its code."""
    code = re.sub(r"[\s_]+", "-", thing)
    if code in names(matrix):
        return [code]
    checks = ((row.code, name) for row in matrix.advice for name in (row.name, *row.found_by))
    return sorted({each for each, name in checks if name.replace("_", "-") == code})


def explain(name: str, matrix: Matrix, language: Language = "en") -> Explanation:
    """Explain a cause: why it happens, its log messages, and what to do."""
    rule = next((row for row in matrix.rule if row.code == name), None)
    advice = [row for row in matrix.advice if row.code == name]
    links = dict.fromkeys((*(rule.links if rule else ()), *(link for row in advice for link in row.links)))
    about = next((row.about for row in advice if row.about), None)

    def heading(key: str) -> str:
        return _HEADINGS[key][language == "zh"]

    def lines(texts: Iterable[tuple[Text, Known]]) -> list[Line]:
        whole = ((text, row) for text, row in texts if not _UNKNOWN.search(text.en))
        return [Line(text=_in(text, language), rows=(row,)) for text, row in whole]

    def check(row: Advice) -> Line:
        title = about if about and not row.about and _UNKNOWN.search(row.title.en) else row.about or row.title
        return Line(label=row.name, text=_in(title, language), rows=(row,))

    remedies, rarely = _remedies(rule, advice, Conditions(matrix, language))
    title = rule.title if rule else about or advice[0].title
    return Explanation(
        thing=name,
        kind="cause",
        title=f"{name}{'：' if language == 'zh' else ': '}{_in(title, language)}",
        answer=tuple(lines([(rule.why[-1].text, rule)] if rule else ((row.detail, row) for row in advice))),
        sections=sections(
            (heading("remedies"), remedies),
            (heading("cases"), lines((why.text, rule) for why in rule.why[:-1]) if rule else []),
            (heading("log"), _literals(rule)),
            (heading("more"), _background(rule, language)),
            (heading("rarely"), rarely),
            (heading("checks"), map(check, advice) if rule else []),
            (heading("links"), [Line(text=link) for link in links]),
        ),
    )


def _remedies(
    rule: Rule | None, advice: Iterable[Advice], conditions: Conditions
) -> tuple[list[Line], list[Line]]:
    """Render two lists: remedies without a condition or with one that users can check, then the rest.

    A remedy with the same commands and the same first words as another is omitted, because only its
    condition differs.
    """
    found: tuple[list[Line], list[Line]] = ([], [])
    seen = set()
    for remedy, row in _in_reading_order(rule, advice, conditions):
        text = _in(remedy.text, conditions.language)
        names = {"env": "demo"}
        if row is rule:
            names["create"] = _CREATE_ZLUDA if rule.code.startswith("zluda-") else _CREATE
        templates = (fill(command, names) for command in remedy.commands)
        usable = (each for each in templates if not _UNKNOWN.search(each) and "{gfx}" not in each)
        commands = tuple(without_values(each, str.upper) for each in usable)
        # Omit a remedy whose commands need values from a check: the rule has a general form of it.
        is_specific = rule is not None and row is not rule and remedy.commands and not commands
        beginning = re.split("[,，:：]", text)[0] if commands else text
        if is_specific or _UNKNOWN.search(remedy.text.en) or (beginning, commands) in seen:
            continue
        seen.add((beginning, commands))
        when = conditions(remedy.when)
        problem = (row.about or row.title) if rule and isinstance(row, Advice) else None
        found_by = "" if problem is None or _UNKNOWN.search(problem.en) else _in(problem, conditions.language)
        line = Line(
            text=conditions.applied(when or "", text, found_by),
            rows=(row,),
            commands=commands,
            platform=remedy.when.get("platform", ""),
        )
        found[when is None].append(line)
    return found


def _in_reading_order(
    rule: Rule | None, advice: Iterable[Advice], conditions: Conditions
) -> list[tuple[Remedy, Known]]:
    """Put remedies that always help first; a remedy that continues another stays after it."""
    remedies: list[tuple[Remedy, Known]] = [(each, rule) for each in rule.remedy] if rule else []
    remedies += [(each, row) for row in advice for each in row.remedy]
    last: list[tuple[Remedy, Known]] = []
    first: list[tuple[Remedy, Known]] = []
    chosen = first
    for each in remedies:
        when = {name: wanted for name, wanted in each[0].when.items() if name != "platform"}
        if conditions(when) or (rule and each[1] is not rule):
            chosen = last
        elif not each[0].text.en.startswith(CONTINUES):
            chosen = first
        chosen.append(each)
    return [*first, *last]


def _in(text: Text, language: Language) -> str:
    rendered = unfilled(text, language)
    # The space next to a Latin-script value must go if a Chinese phrase replaces the value.
    return re.sub(rf"(?<={_CHINESE}) (?={_CHINESE})", "", rendered) if language == "zh" else rendered


def _literals(rule: Rule | None) -> list[Line]:
    texts = dict.fromkeys(text for pattern in rule.pattern for text in pattern.text[:2]) if rule else {}
    return [Line(text=f"`{text}`") for text in texts]


def _background(rule: Rule | None, language: Language) -> list[Line]:
    if rule is None or rule.more is None:
        return []
    paragraphs = re.split(r"\n\s*\n", _in(rule.more, language).strip())
    return [Line(text=" ".join(each.split()), rows=(rule,)) for each in paragraphs]
