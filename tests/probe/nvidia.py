"""Run the ZLUDA rungs on NVIDIA's own CUDA: `python -m tests.probe.nvidia`.

The API is identical, so this checks prototypes, constants, the kernel and error bounds on independent
hardware. It needs only Python, this source tree, and a Linux machine with an NVIDIA GPU, libcuda.so.1 and
libcublas.so. The exit code is 0 if every rung passed.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import site
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

_SOURCES = Path(__file__).resolve().parents[2] / "src"
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/local/cuda*/compat",
)
_WHEELS = ("nvidia/cublas/lib", "nvidia/cu*/lib")
_RUNGS = ("load", "version", "device", "memory", "gemm", "blas")


def _find(name: str) -> str:
    """Return the path of a library, or "" if no usual folder contains it."""
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    folders = [
        *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep),
        *_FOLDERS,
        *(os.path.join(package, wheel) for package in packages for wheel in _WHEELS),
    ]
    for folder in filter(None, folders):
        found = sorted(glob.glob(os.path.join(folder, name)), reverse=True)
        if found:
            return os.path.realpath(found[0])
    return ""


def main() -> int:
    """Run the rungs and print their results."""
    sys.path.insert(0, str(_SOURCES))
    from rocenv.probe.wire import Task
    from rocenv.system import process

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", default=_find("libcuda.so.1"), help="libcuda.so.1")
    parser.add_argument("--cublas", default=_find("libcublas.so.1[0-9]"), help="libcublas.so")
    chosen = parser.parse_args()
    if not chosen.cuda:
        print("libcuda.so.1 not found; specify it with --cuda")
        return 2
    libraries = {"nvcuda": chosen.cuda, "cublas": chosen.cublas}
    if not chosen.cublas:
        print("libcublas.so not found, so `blas` is skipped; specify it with --cublas")
    print("\n".join(f"{role}: {path}" for role, path in libraries.items() if path))
    libraries = {role: path for role, path in libraries.items() if path}
    beside = os.pathsep.join(os.path.dirname(path) for path in libraries.values())
    library_path = os.pathsep.join(filter(None, (beside, os.environ.get("LD_LIBRARY_PATH", ""))))
    passed = True
    with tempfile.TemporaryDirectory() as work:
        task = Task(
            target="",
            prefix="/",  # NVIDIA's libraries are not part of a set, so they can be anywhere
            libraries=libraries,
            work_dir=work,
            expected={},
            runtime="cuda",
            seed=int.from_bytes(os.urandom(4), "big"),
        )
        environ = {**os.environ, "LD_LIBRARY_PATH": library_path}
        for rung in _RUNGS if chosen.cublas else _RUNGS[:-1]:
            done = process.run(
                [sys.executable, *process.own_child("rocenv.probe.child", rung)],
                environ=environ,
                stdin=json.dumps(asdict(task)).encode(),
                timeout_s=300,
            )
            answer = json.loads(done.stdout) if done.ok else {"status": "crashed", "detail": done.end}
            passed = passed and answer["status"] == "passed"
            print(f"{rung:8} {answer['status']:8} {answer['detail']}", flush=True)
            if answer["status"] != "passed":
                print(done.error_text)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
