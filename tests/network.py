"""Skip tests that this machine cannot run; in CI, they fail instead."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot_run(reason: str) -> NoReturn:
    """Skip the test; in CI, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def require_network(reason: str) -> NoReturn:
    """Like `cannot_run`, but because of the network; `reason` names the server."""
    cannot_run(f"needs the network: {reason}")
