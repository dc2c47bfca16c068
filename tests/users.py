"""Run as a user to whom file modes apply."""

from __future__ import annotations

import os
import shutil
import sys

import pytest


def missing(what: str) -> None:
    """Skip the test because a requirement is missing; in CI, where everything must exist, fail it."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def unprivileged() -> list[str]:
    """Return the start of a command line that runs the rest without root's right to ignore modes."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        missing("root ignores modes, and there is no setpriv to give that up")
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
