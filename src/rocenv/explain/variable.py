"""An environment variable: what it does, and what rocenv does with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.variables import OVERRIDE
from rocenv.explain.answer import Explanation, Line, sections
from rocenv.explain.words import VERDICTS, range_in_words, target_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.knowledge import EnvRow, Variable
    from rocenv.data.rows import Matrix

_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_SERIES = "{series}"  # in a name: HIP_PATH_57 is one of HIP_PATH_{series}
_SIDES = {"rocm": "ROCm", "zluda": "ZLUDA"}


def names(matrix: Matrix) -> list[str]:
    """Return what can be asked; a row may be about several."""
    rows = [name for row in matrix.variable for name in _names_of(row)]
    rows += [row.change.name for row in matrix.environment] + [row.name for row in matrix.watched]
    return sorted({name for name in rows if _SERIES not in name})


_SET_IN_ENV = (
    "where a set has no kernels for the target, and a value below is known to do well with it; never where "
    "it has kernels, and never outside of an env"
)


def _is_named(row: EnvRow, name: str) -> bool:
    pattern = re.escape(row.change.name).replace(re.escape(_SERIES), "[0-9]+")
    return re.fullmatch(pattern, name) is not None


def meant(thing: str, matrix: Matrix) -> list[str]:
    """Return the variable that is meant."""
    name = re.sub(r"=(?!=).*", "", thing.removeprefix("$"), count=1).upper()
    return [name] if name in names(matrix) else []


def explain(name: str, matrix: Matrix) -> Explanation:
    """Return what is known about a variable."""
    rows = [row for row in matrix.variable if name in _names_of(row)]
    changes = [row for row in matrix.environment if _is_named(row, name)]
    watched = [row for row in matrix.watched if row.name == name]
    reasons = [(row.reason, row) for row in changes] + [(row.reason, row) for row in watched]
    facts = [row for row in matrix.fact if name == OVERRIDE and row.about == "override"]
    facts.sort(key=lambda row: (row.key, row.text))
    return Explanation(
        thing=name,
        kind="variable",
        title=name,
        answer=tuple(Line(label=_SIDES[row.by], text=row.meaning, rows=(row,)) for row in rows)
        or tuple(Line(text=text, rows=(row,)) for text, row in reasons),
        sections=sections(
            ("Values", [line for row in rows for line in _value_lines(row)]),
            (
                "What rocenv does with it",
                [
                    *(
                        Line(
                            label=f"{row.change.action}, {row.when}",
                            text=f"{row.change.value or 'nothing'}: {row.reason}",
                            rows=(row,),
                        )
                        for row in changes
                    ),
                    *([Line(label="set in an env", text=_SET_IN_ENV)] if name == OVERRIDE else []),
                    *(Line(label="reported where set", text=row.reason, rows=(row,)) for row in watched),
                ],
            ),
            ("By target", list(_override_lines(matrix)) if name == OVERRIDE else []),
            ("To know", [Line(label=row.key, text=row.text, rows=(row,)) for row in facts]),
        ),
    )


def _value_lines(row: Variable) -> Iterator[Line]:
    if row.value:
        yield Line(label="value", text=row.value, rows=(row,))
    if row.set_by:
        yield Line(label="set by", text=row.set_by, rows=(row,))
    if row.fragile:
        text = "what lies there breaks on network shares and read-only homes"
        yield Line(label="take care", text=text, rows=(row,))


def _override_lines(matrix: Matrix) -> Iterator[Line]:
    for row in sorted(matrix.override, key=lambda row: (target_key(row.target), row.value)):
        only = f", ROCm {range_in_words(row.rocm)}" if row.rocm else ""
        way = f"{row.value} as {row.runs_as}" if row.runs_as != "*" else "any value"
        yield Line(label=row.target, text=f"{way}: {VERDICTS[row.verdict]}{only}", rows=(row,))


def _names_of(row: Variable) -> list[str]:
    """Return the names in a row: `A / B`, where `_57` after `HIP_PATH_55` stands for HIP_PATH_57."""
    return _NAME.findall(row.name)
