"""A simulated machine and its GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.data.load import load
from rocenv.host import detect
from rocenv.memory.gpus import HipFigure, Usage, read_usage
from tests.loopback import Loopback
from tests.memory.machines import Machine
from tests.mini import Mini
from tests.probe.conftest import SOURCES, compile_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from rocenv.data.rows import Matrix


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    """rocenv's own rows."""
    return load()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An empty machine at `ROCENV_SYSROOT`, in a folder with a space in its name."""
    path = tmp_path / "a machine"
    path.mkdir()
    monkeypatch.setenv("ROCENV_SYSROOT", str(path))
    for name in ("ROCENV_TARGET", "HSA_OVERRIDE_GFX_VERSION"):
        monkeypatch.delenv(name, raising=False)
    return Machine(path)


@pytest.fixture
def read_memory(machine: Machine, matrix: Matrix) -> Callable[..., Usage]:
    """A function that reads the machine's GPU memory usage, optionally with figures from HIP."""

    def found(hip: Mapping[int, HipFigure] | None = None) -> Usage:
        return read_usage(detect(matrix), hip)

    return found


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mini]:
    """A home with one env, which uses the fake HIP runtime."""
    built = tmp_path_factory.mktemp("built")
    hip, blas = built / "libamdhip64.so.5", built / "librocblas.so.3"
    compile_library(hip, SOURCES / "hip.c", SOURCES / "hiprtc.c")
    compile_library(blas, SOURCES / "rocblas.c", hip)
    libraries = {"hip": hip.read_bytes(), "hiprtc": hip.read_bytes(), "rocblas": blas.read_bytes()}
    root = tmp_path_factory.mktemp("a home with spaces")
    with Loopback(folder=root / "www") as server:
        made = Mini.build(root, server, libraries)
        made.create("demo")
        del made.env["ROCENV_TARGET"]
        yield made
