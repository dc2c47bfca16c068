"""A home with an awkward name, a loopback index, and uv configured as `create` does."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocenv.sources.interpreter import Interpreter, examine
from rocenv.sources.uv import Uv
from tests.wheels.index import Index, Wheel, build_wheel, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

ROCM = "whl/rocm6.2"
BIG = bytes(range(256)) * 4096 * 3  # 3 MiB, so envs share it instead of copying it


@pytest.fixture(scope="session")
def torch_wheels(python: Interpreter) -> list[Wheel]:
    """Wheels for this Python: torch, its dependencies, and two unrelated ones."""
    series = python.series.replace(".", "")
    return [
        build_wheel(
            "torch",
            "2.5.1+rocm6.2",
            tag=f"cp{series}-cp{series}-linux_x86_64",
            requires=["filelock", "pytorch-triton-rocm==3.1.0", "numpy<2"],
            files={
                "torch/__init__.py": b"def main():\n    print('torch of', __file__)\n",
                "torch/lib/libtorch_hip.so": BIG,
            },
            script="torchrun = torch:main",
        ),
        build_wheel("torch", "2.4.1+rocm6.2", tag=f"cp{series}-cp{series}-linux_x86_64"),
        build_wheel("pytorch-triton-rocm", "3.1.0"),
        build_wheel("filelock", "3.13.1"),
        build_wheel("numpy", "1.26.3"),
        build_wheel("numpy", "2.1.2"),
    ]


@pytest.fixture
def index(torch_wheels: list[Wheel]) -> Iterator[Index]:
    """The index for one matrix row."""
    with serve() as index:
        index.wheels[ROCM] = list(torch_wheels)
        yield index


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def uv(tmp_path: Path, said: list[str]) -> Uv:
    home = tmp_path / "it's a $HOME, with spaces"
    environ = {
        **os.environ,
        "HOME": str(tmp_path / "user"),
        "UV_HTTP_RETRIES": "0",
        "UV_PYTHON_DOWNLOADS": "never",
        "NO_PROXY": "127.0.0.1",
    }
    return Uv(
        cache=home / "cache" / "uv",
        pythons=home / "pythons",
        environ=environ,
        offline=False,
        report=said.append,
    )


@pytest.fixture(scope="session")
def python() -> Interpreter:
    """The Python that runs the tests, without its pip wheel, which takes a while to unpack."""
    return replace(examine(Path(sys.executable)), pip_wheel=None)
