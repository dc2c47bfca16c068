"""Fixtures and settings for all tests."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests import shipped, slow
from tests.loopback import Loopback
from tests.mini import Mini

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A shell's background jobs ignore Ctrl-C, and their children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Remove an AMD user's settings and programs, which must not affect tests. Tests set what they need.
SETTINGS = re.compile(
    r"(ROCM|HIP|HSA|HCC|AMD|GPU|MIOPEN|ROCBLAS|HIPBLASLT|TENSILE|TORCH|PYTORCH|CUDA|ZLUDA|TRITON)(_.*|$)"
    r"|ROCENV_(?!WRITE_GOLDEN).*|LD_LIBRARY_PATH|LD_PRELOAD|(OCL|OPENCL)_.*"
)
PROGRAMS = (
    *("hipcc", "hipconfig", "rocminfo", "rocm-smi", "amd-smi", "rocm_agent_enumerator", "clinfo"),
    *("clang-offload-bundler", "llvm-objcopy"),  # from GPU compilers
)


def forget_the_machine() -> None:
    """Remove settings of GPU software from the environment, and its programs from PATH."""
    for name in [name for name in os.environ if SETTINGS.fullmatch(name)]:
        del os.environ[name]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(map(without_gpu_programs, folders))


def without_gpu_programs(folder: str) -> str:
    """Return the folder or, if it contains GPU programs, a folder of links to its other programs."""
    if not any(os.path.lexists(os.path.join(folder, name)) for name in PROGRAMS):
        return folder
    links = tempfile.mkdtemp(prefix="programs-")
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    for entry in os.scandir(folder):
        if entry.name not in PROGRAMS:
            os.symlink(entry.path, os.path.join(links, entry.name))
    return links


forget_the_machine()
shipped.keep()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and slow.is_slow(item):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Exclude loaded modules from garbage collection, because pefile collects garbage for every file."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def mini(tmp_path: Path) -> Iterator[Mini]:
    """A simulated machine with a mirror and tiny sets. `mini.run("create", ...)` runs the real program."""
    root = tmp_path / "mini"
    root.mkdir()
    with Loopback(folder=root / "www") as server:
        yield Mini.build(root, server)
