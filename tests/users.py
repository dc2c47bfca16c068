"""Being somebody for whom the modes of files mean something."""

from __future__ import annotations

import os
import shutil
import sys

import pytest


def missing(what: str) -> None:
    """Skip the test for want of something; where everything has to be there (`CI`) it fails."""
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
