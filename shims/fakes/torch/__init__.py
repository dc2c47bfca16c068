"""Stands in for a CUDA build of torch for Windows; slow, and limited to what a check or a small app needs.

Computations on "cuda" use `lib/torch_cuda.dll`, and through it the cuBLAS and driver loaded in this process.
For tests only (see ../../README.md); the tests build the wheels.
"""

import builtins
import random
from array import array

from torch import _libraries
from torch._tensor import Tensor, bool, count_of, float32, float64

_libraries.load()

from torch import backends, cuda, nn, version  # noqa: E402 - as in torch, the libraries come first
from torch.version import __version__  # noqa: E402

__all__ = [
    "Tensor",
    "__version__",
    "backends",
    "bool",
    "cuda",
    "float32",
    "float64",
    "manual_seed",
    "matmul",
    "nn",
    "ones",
    "rand",
    "randn",
    "tensor",
    "version",
    "zeros",
]

double, float = float64, float32
_random = random.Random()


def manual_seed(seed):
    """Make random numbers reproducible."""
    _random.seed(seed)


def _filled(shape, device, value):
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    made = Tensor(array("f", (value() for _ in range(count_of(shape)))), shape, float32)
    return made.to(device)


def rand(*shape, device="cpu"):
    """Return random numbers from 0 to 1."""
    return _filled(shape, device, _random.random)


def randn(*shape, device="cpu"):
    """Return numbers around 0."""
    return _filled(shape, device, lambda: _random.gauss(0, 1))


def ones(*shape, device="cpu"):
    """Return ones."""
    return _filled(shape, device, lambda: 1.0)


def zeros(*shape, device="cpu"):
    """Return zeros."""
    return _filled(shape, device, lambda: 0.0)


def tensor(values, device="cpu"):
    """Return a vector, or a matrix made of rows."""
    rows = values if isinstance(values[0], (list, tuple)) else [values]
    flat = [builtins.float(each) for row in rows for each in row]
    shape = (len(rows), len(rows[0])) if rows is values else (len(values),)
    return Tensor(array("f", flat), shape, float32).to(device)


def matmul(a, b):
    """Multiply two matrices."""
    return a @ b
