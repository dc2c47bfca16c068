"""The `torch` rung: a matrix multiplication and a convolution in the env's torch, checked on the CPU.

Arguments: SEED, and `hip` or `zluda`: the API that torch must use. The env's own Python runs this file by
its path; it has torch but not rocenv, so the file uses only torch and the standard library. The output is a
line of JSON in the same format that the other rungs' children use, and the exit code is 0.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

_SIZE = 256
_BATCH, _IN, _OUT, _IMAGE, _WINDOW = 4, 3, 16, 32, 3
_U32 = 2.0**-24
# Winograd and FFT convolutions transform their input first, which loses more precision than any order of
# summation.
_TRANSFORM_LOSS = 256


def _within(got: Any, exact: Any, magnitude: Any, factor: float) -> str:
    """Describe what is wrong with `got`; return "" if it is within factor * magnitude of `exact`."""
    values = got.double().cpu()
    error = (values - exact).abs()
    wrong = int((~(error <= factor * magnitude)).sum())  # NaN is wrong
    if wrong and not int((values != 0).sum()):
        return f"all {error.numel()} elements are 0"
    return f"{wrong} of {error.numel()} elements are wrong" if wrong else ""


def _gamma(terms: int) -> float:
    return terms * _U32 / (1 - terms * _U32)


def matmul(torch: Any, device: str) -> str:
    """Describe what is wrong with a float32 matrix multiplication on `device`."""
    a, b = (torch.rand(_SIZE, _SIZE) * 2 - 1 for _ in range(2))
    got = a.to(device) @ b.to(device)
    exact, magnitude = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    return _within(got, exact, magnitude, _gamma(_SIZE))


def conv2d(torch: Any, device: str) -> str:
    """Describe what is wrong with a convolution with 16 output channels on `device`.

    Source: ROCm/ROCm#3951, where this shape caused a memory aperture violation
    """
    convolve = torch.nn.functional.conv2d
    image = torch.rand(_BATCH, _IN, _IMAGE, _IMAGE) * 2 - 1
    weight = torch.rand(_OUT, _IN, _WINDOW, _WINDOW) * 2 - 1
    got = convolve(image.to(device), weight.to(device), padding=1)
    exact = convolve(image.double(), weight.double(), padding=1)
    magnitude = convolve(image.double().abs(), weight.double().abs(), padding=1)
    return _within(got, exact, magnitude, _TRANSFORM_LOSS * _gamma(_IN * _WINDOW * _WINDOW))


def runs_on(torch: Any, expected: str) -> str:
    """Explain why this torch is not built for `expected` (hip or zluda), or return "" if it is."""
    if expected == "hip":
        return "" if torch.version.hip else "is not a ROCm build"
    if torch.version.hip or not torch.version.cuda:
        return "is not a CUDA build, which ZLUDA needs"
    return ""


def answer(seed: int, expected: str) -> dict[str, Any]:
    """Run the rung and return its result."""
    try:
        torch: Any = importlib.import_module("torch")
    except Exception as error:  # its libraries may raise anything
        return {"status": "failed", "detail": f"cannot import torch: {type(error).__name__}: {error}"}
    name = f"torch {torch.__version__}"
    fault = runs_on(torch, expected)
    if fault:
        return {"status": "failed", "detail": f"{name} {fault}"}
    if not torch.cuda.is_available():
        return {"status": "skipped", "detail": f"no GPU here: {name} sees none", "no_device": True}
    try:
        return products(torch, seed, expected, name)
    except Exception as error:
        return {"status": "failed", "detail": f"{name}: {type(error).__name__}: {error}"}


def products(torch: Any, seed: int, expected: str, name: str) -> dict[str, Any]:
    """Compute the products on the first GPU, and return the result."""
    runtime = f"HIP {torch.version.hip}"
    if expected == "zluda":
        # ZLUDA tags its device names; no tag means other libraries, and perhaps another GPU.
        gpu = torch.cuda.get_device_name(0)
        if not gpu.endswith("[ZLUDA]"):
            return {"status": "failed", "detail": f"{name} runs on `{gpu}` instead of ZLUDA"}
        runtime = f"CUDA {torch.version.cuda} on {gpu}"
    torch.manual_seed(seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    faults = {"matmul": matmul(torch, "cuda"), "conv2d": conv2d(torch, "cuda")}
    wrong = [f"{check}: {fault}" for check, fault in faults.items() if fault]
    if wrong:
        return {"status": "failed", "detail": f"{name}: {'; '.join(wrong)}, seed {seed}"}
    return {"status": "passed", "detail": f"{name}, {runtime}: matmul and conv2d, seed {seed}"}


if __name__ == "__main__":
    out = os.dup(1)
    os.dup2(2, 1)
    line = json.dumps(answer(int(sys.argv[1]), sys.argv[2]))
    sys.stderr.flush()
    os.write(out, line.encode() + b"\n")
    os._exit(0)
