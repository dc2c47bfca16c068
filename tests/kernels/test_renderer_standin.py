"""The renderer tests' fake HIP runtime, which must not allocate more memory than the card has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "shims" / "fakes" / "renderer_hip.c"
ASK = """
import ctypes, sys
hip = ctypes.CDLL(sys.argv[1])
def ask(function, size):
    pointer = ctypes.c_void_p()
    return function(ctypes.byref(pointer), ctypes.c_size_t(size), 0)
print([ask(hip.hipMalloc, size) for size in (2**64 - 100, 20 << 30, 5 << 30, 4 << 30, 3 << 30)])
print(ask(hip.hipHostMalloc, 2**64 - 100))
"""


def test_allocations_are_limited_to_the_free_memory(tmp_path: Path) -> None:
    library = tmp_path / "libamdhip64.so.6"
    build = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-DSTANDIN_HIP_VERSION=60443484"]
    subprocess.run([*build, str(SOURCE), "-o", str(library)], check=True, timeout=60)
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(library)],
        env={**os.environ, "ROCENV_STANDIN_MEMORY": "8GiB", "ROCENV_STANDIN_FREE": "7GiB"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["[2, 2, 0, 2, 0]", "2"]
