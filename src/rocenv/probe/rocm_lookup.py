"""Asks an env's own `rocm_sdk` where ROCm's libraries are, as PyTorch does before it loads them.

Arguments: the names that `rocm_sdk` knows the libraries by. Run by path with the env's own Python, which has
`rocm_sdk` and no rocenv: standard library and `rocm_sdk` only. Writes one line of JSON: the release under
`release`, each library under its name, and under `error` why there is none.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def answer(names: list[str]) -> dict[str, str]:
    """What `rocm_sdk` finds, up to the first library that it does not find."""
    found: dict[str, str] = {}
    name = "rocm_sdk"
    try:
        rocm_sdk: Any = importlib.import_module(name)
        found["release"] = rocm_sdk.__version__
        for name in names:
            found[name] = str(rocm_sdk.find_libraries(name)[0])
    except Exception as error:  # whatever is wrong with the packages
        found["error"] = f"{name}: {type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(sys.argv[1:])) + "\n")
