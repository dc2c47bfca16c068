"""A machine for each test, and the look at its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.host import detect
from rocenv.matrix.load import load
from rocenv.memory.gpus import HipFigure, Look, look
from tests.memory.machines import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocenv.matrix.rows import Matrix


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """rocenv's own rows."""
    return load()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An empty machine, in a folder with a blank in its name, that `ROCENV_SYSROOT` names."""
    path = tmp_path / "a machine"
    path.mkdir()
    monkeypatch.setenv("ROCENV_SYSROOT", str(path))
    for name in ("ROCENV_TARGET", "HSA_OVERRIDE_GFX_VERSION"):
        monkeypatch.delenv(name, raising=False)
    return Machine(path)


@pytest.fixture
def seen(machine: Machine, matrix: Matrix) -> Callable[..., Look]:
    """The look at that machine; HIP's figures may be given."""

    def found(hip: Mapping[int, HipFigure] | None = None) -> Look:
        return look(detect(matrix), hip)

    return found
