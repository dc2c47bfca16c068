"""The code of a verdict or an incident: what happened, on what, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.explain.answer import Explanation, Line, Step, sections
from rocenv.explain.combinations import combination_text
from rocenv.explain.sets import linux_sets, step, wheel_sets, zluda_sets
from rocenv.explain.words import OUTCOMES, targets_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.knowledge import Incident, Verdict
    from rocenv.data.rows import Matrix


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked."""
    codes = {row.code for row in matrix.verdict if row.code} | {row.code for row in matrix.incident}
    return sorted(codes)


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the codes that are meant; `sdnext#3414` is one too."""
    code = re.sub(r"[#\s_]+", "-", thing)
    return [code] if code in names(matrix) else []


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known under a code."""
    incidents = [row for row in matrix.incident if row.code == name]
    rows = [row for row in matrix.verdict if row.code == name]
    root = next((code for code in names(matrix) if name.startswith(f"{code}-")), name)
    related = [row for row in matrix.incident if row.code != name and row.code.startswith(root)]
    title = incidents[0].title if incidents else f"a combination that {OUTCOMES[rows[0].verdict]}"
    reported = [(label, text, row) for row in incidents for label, text in row.facts.items()]
    return Explanation(
        thing=name,
        kind="code",
        title=f"{name}: {title}",
        answer=tuple(_answer(incidents, rows)),
        sections=sections(
            ("What rocenv does about it", [Line(text=_consequence(row), rows=(row,)) for row in rows]),
            ("What goes with it", [_related(row) for row in related]),
            (
                "What was reported",
                [Line(label=label, text=text, rows=(row,)) for label, text, row in reported],
            ),
        ),
        steps=_steps(rows, matrix),
        steps_title="A set that avoids it",
    )


def _answer(incidents: list[Incident], rows: list[Verdict]) -> Iterator[Line]:
    for incident in incidents:
        yield Line(text=incident.text, rows=(incident,))
    for row in rows:
        if not incidents:
            yield Line(label=OUTCOMES[row.verdict], text=combination_text(row), rows=(row,))
        elif row.remedy:
            yield Line(label="remedy", text=row.remedy, rows=(row,))


def _related(row: Incident) -> Line:
    return Line(text=f"{row.title}: {row.text} (`rocenv explain {row.code}`)", rows=(row,))


def _consequence(row: Verdict) -> str:
    where = combination_text(row, about="").partition(": ")[0]
    if row.verdict == "broken" and not row.only_if:
        return f"no set joins {where}"
    return f"a set with {where} is made, with a note" + (
        f" for the case that {row.only_if}" if row.only_if else ""
    )


def _steps(rows: list[Verdict], matrix: Matrix) -> tuple[Step, ...]:
    found = []
    for row in rows:
        for target in targets_first(row.targets)[:1]:
            find = wheel_sets if row.on_wheels else zluda_sets if row.platform == "windows" else linux_sets
            sets = find(matrix, target)
            if sets.best is not None:
                found.append(step(sets, matrix, f"{row.platform.capitalize()}, {target}"))
    return tuple(found)
