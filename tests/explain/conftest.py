"""The matrix that rocenv ships, and what a reader of an explanation sees of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.commands.explain import explanation_text
from rocenv.data.load import load
from rocenv.explain import explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.data.rows import Matrix


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load()


@pytest.fixture(scope="session")
def read(matrix: Matrix) -> Callable[[str], str]:
    """Return what `rocenv explain THING` prints, with every run of blanks as one."""

    def text(thing: str) -> str:
        return " ".join(" ".join(explanation_text(explain(thing, matrix), width=100)).split())

    return text
