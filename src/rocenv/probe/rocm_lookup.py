"""Query an env's own `rocm_sdk` for the paths of ROCm's libraries, as PyTorch does before loading them.

Arguments: the names that `rocm_sdk` uses for the libraries. The env's own Python runs this file by its
path; it has `rocm_sdk` but not rocenv, so the file uses only `rocm_sdk` and the standard library. The
output is one line of JSON: the version as `release`, each library under its name, and any error as `error`.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def answer(names: list[str]) -> dict[str, str]:
    """Return the version and the paths that `rocm_sdk` finds, up to the first missing library."""
    found: dict[str, str] = {}
    name = "rocm_sdk"
    try:
        rocm_sdk: Any = importlib.import_module(name)
        found["release"] = rocm_sdk.__version__
        for name in names:
            found[name] = str(rocm_sdk.find_libraries(name)[0])
    except Exception as error:  # broken packages may raise anything
        found["error"] = f"{name}: {type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(sys.argv[1:])) + "\n")
