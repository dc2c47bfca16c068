"""The shipped matrix, and `explain` pages as text."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.explain import explain, sets
from rocenv.explain.page import rendered
from rocenv.explain.sets import find_sets

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.core.model import Request
    from rocenv.data.rows import Matrix
    from rocenv.explain.sets import Found


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load()


@functools.cache
def answer(request: Request) -> Found:
    return find_sets(load(), request)


@pytest.fixture(autouse=True)
def resolved_once(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cache resolver results for the full matrix, because pages repeat the same requests."""

    def find(asked: Matrix, request: Request) -> Found:
        return answer(request) if asked is matrix else find_sets(asked, request)

    monkeypatch.setattr(sets, "find_sets", find)


@pytest.fixture(scope="session")
def read(matrix: Matrix) -> Callable[[str], str]:
    """A function that returns the output of `rocenv explain THING --full` with single spaces."""

    def text(thing: str) -> str:
        return " ".join(" ".join(rendered(explain(thing, matrix), width=100)).split())

    return text
