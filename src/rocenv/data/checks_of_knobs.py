"""What must hold of settings for memory: what must never meet does not, in any row that sets variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.core.model import EnvChange
    from rocenv.data.checks import Placed


def check_knobs(rows: Mapping[str, Sequence[Placed]]) -> None:
    """Raise DataError where a setting for memory cannot be, or brings together what must never meet."""
    for placed in rows["knob"]:
        _check_knob(placed)
    values = list(_values(rows))
    for rule in rows["never_together"]:
        if len(rule.row.words) < 2 or not rule.row.variables:
            raise DataError(f"`words` needs two, and `variables` one (`{rule.where}`)")
        for where, names, value in values:
            if set(names) & set(rule.row.variables) and rule.row.held(value) == rule.row.words:
                raise DataError(
                    f"`{value}` brings together what `{rule.where}` says must never meet (`{where}`)"
                )
        _check_choices(rows["knob"], rule)


def _check_knob(placed: Placed) -> None:
    row = placed.row
    try:
        SpecifierSet(row.torch)
    except InvalidSpecifier as error:
        raise DataError(f"`torch`: `{row.torch}` is no range of versions (`{placed.where}`)") from error
    if bool(row.variables) != (row.where == "variable") or bool(row.value) != bool(row.variables):
        raise DataError(
            f'`variables` and `value` go with `where = "variable"` and each other (`{placed.where}`)'
        )
    if row.to_gib and row.to_gib < row.from_gib:
        raise DataError(f"`to_gib` is below `from_gib` (`{placed.where}`)")


def _values(rows: Mapping[str, Sequence[Placed]]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield where it stands, the names and the value of everything that sets variables."""
    for placed in rows["knob"]:
        yield placed.where, placed.row.variables, placed.row.value
    for placed in rows["environment"]:
        yield placed.where, (placed.row.change.name,), placed.row.change.value
    for placed in rows["launcher"]:
        changes: tuple[EnvChange, ...] = (*placed.row.environment, *placed.row.piped, *placed.row.coloured)
        yield from ((placed.where, (change.name,), change.value) for change in changes)


def _check_choices(knobs: Sequence[Placed], rule: Placed) -> None:
    """Raise DataError where two settings of a program would together be what must never meet."""
    about = [each for each in knobs if set(each.row.variables) & set(rule.row.variables)]
    for program in {each.row.program for each in about}:
        same = [each for each in about if each.row.program == program]
        if len(same) > 1 and (len({each.row.choice for each in same}) > 1 or not same[0].row.choice):
            raise DataError(
                f"`choice` has to be the same in all rows about the variables of `{rule.where}`, so that only"
                f" one is taken (`{same[-1].where}`)"
            )
