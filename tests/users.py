"""Run commands as a user who is subject to file permissions."""

from __future__ import annotations

import os
import shutil
import sys

import pytest


def missing(what: str) -> None:
    """Skip the test because something is missing; in CI, where nothing should be missing, fail it."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def unprivileged() -> list[str]:
    """Build a command prefix that drops root's privilege to ignore file permissions."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        missing("root ignores file permissions, and setpriv, which drops that privilege, is not installed")
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]
