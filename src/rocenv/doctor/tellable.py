"""Which rows of `advice` a check can tell: those that its code names, and no others."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.doctor.check import Check
    from rocenv.matrix.rows import Matrix


def tellable(check: Check, matrix: Matrix) -> frozenset[str]:
    """Return the rows that a check can tell.

    Read from its code and that of functions and tables of its module that it uses, so that there is no list
    beside the checks that could be wrong.
    """
    rows = {row.name for row in matrix.advice}
    return frozenset(rows.intersection((check.name, *_texts(check.look, set()))))


def _texts(thing: object, seen: set[int]) -> Iterator[str]:
    """Yield the texts in a function or a value, and in what it uses of its module."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, str):
        yield thing
    for part in _parts(thing):
        yield from _texts(part, seen)


def _parts(thing: object) -> tuple[object, ...]:
    if isinstance(thing, functools.partial):
        return (thing.func, *thing.args, *thing.keywords.values())
    if isinstance(thing, dict):
        return (*thing.keys(), *thing.values())
    if isinstance(thing, (tuple, list, frozenset, set)):
        return tuple(thing)
    if isinstance(thing, types.CodeType):
        return thing.co_consts
    if isinstance(thing, types.FunctionType):
        cells = (cell.cell_contents for cell in thing.__closure__ or ())
        return (thing.__code__, *_used(thing), *cells)
    return ()


def _used(function: types.FunctionType) -> Iterator[object]:
    """Yield what a function uses of its own module; of others, no check tells by their names."""
    for name in _names(function.__code__):
        used = function.__globals__.get(name)
        if getattr(used, "__module__", function.__module__) == function.__module__:
            yield used


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _names(part)
