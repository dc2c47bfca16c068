"""Skipping tests that cannot run on this machine. In CI, they fail instead."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot_run(reason: str) -> NoReturn:
    """Skip the test, or fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def require_network(reason: str) -> NoReturn:
    """Skip or fail the test because the network is unavailable; `reason` names the server."""
    cannot_run(f"needs the network: {reason}")
