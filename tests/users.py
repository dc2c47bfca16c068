"""Running commands as other users and with different permissions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def missing(what: str) -> None:
    """Skip the test because something is missing, or fail it in CI, where nothing should be missing."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def unprivileged() -> list[str]:
    """Build a command prefix that drops root's ability to bypass file permissions."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        missing("root ignores file permissions, and setpriv, which drops that privilege, is not installed")
    return ["setpriv", "--inh-caps=-all", "--bounding-set=-all"]


def second_user() -> list[str]:
    """Build a command prefix for another user, who can read everything and write only to their own files."""
    if sys.platform == "win32" or os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    if shutil.which("setpriv") is None:
        missing("setpriv is not installed")
    caps = "-all,+dac_read_search"
    user = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    # Without this, access(2) ignores the capabilities of users other than root.
    user.append("--securebits=+no_setuid_fixup")
    return ["setpriv", *user, f"--inh-caps={caps}", f"--ambient-caps={caps}", f"--bounding-set={caps}"]


def read_only(folder: Path) -> list[str]:
    """Build a command prefix that runs a command with a real read-only mount of a folder."""
    steps = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        missing("this machine allows no mounts")
    return ["unshare", "-m", "sh", "-c", steps, str(folder)]
