"""Detecting slow tests: those that start programs, threads or servers, or try random cases.

A hand-maintained list would soon go out of date. Instead, a test counts as slow if it mentions one of
`STARTERS`, or if it uses a fixture, function or class in `tests` that does. Two marks override this: `slow`
for tests that are slow for other reasons, and `quick` for tests that are worth the time.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

STARTERS = {
    "concurrent.futures.thread",
    "http.server",
    "multiprocessing",
    "pty",
    "rocenv.sources.uv",
    "rocenv.system.process",
    "socket",
    "subprocess",
    "threading",
}


def is_slow(item: pytest.Function) -> bool:
    """Whether `scripts/test --quick` skips this test."""
    if item.get_closest_marker("slow") or item.get_closest_marker("quick"):
        return item.get_closest_marker("slow") is not None
    if hasattr(item.function, "hypothesis"):
        return True
    fixtures = (each.func for defs in item._fixtureinfo.name2fixturedefs.values() for each in defs)
    return any(map(_starts_something, (item.function, *fixtures)))


@functools.cache
def _starts_something(used: Any) -> bool:
    visited: set[int] = set()
    waiting = [used]
    while waiting:
        each = waiting.pop()
        if id(each) in visited:
            continue
        visited.add(id(each))
        module = each.__name__ if isinstance(each, ModuleType) else getattr(each, "__module__", None)
        if module in STARTERS:
            return True
        if isinstance(module, str) and module.split(".")[0] == "tests":
            waiting.extend(_uses(each))
    return False


def _uses(thing: Any) -> Iterator[Any]:
    """Yield the objects that a function mentions, or the members of a class."""
    if isinstance(thing, type):
        for member in vars(thing).values():
            yield getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        yield from thing.__bases__
    function = inspect.unwrap(thing) if callable(thing) else getattr(thing, "func", None)
    if not isinstance(function, FunctionType):
        return
    names, scope = set(_names(function.__code__)), function.__globals__
    places = [scope, getattr(scope.get(function.__qualname__.split(".")[0]), "__dict__", {})]
    for name in names:
        module = scope.get(name, sys.modules.get(name))
        if isinstance(module, ModuleType) and module.__name__.startswith("tests."):
            places.append(vars(module))
    for place in places:
        yield from (place[name] for name in names & place.keys())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
