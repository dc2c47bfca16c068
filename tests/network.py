"""When a test that this machine cannot run may be left out: at home, but never in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot_run(reason: str) -> NoReturn:
    """Skip the test; in CI, where everything it needs must be there, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def require_network(reason: str) -> NoReturn:
    """Leave out a test for want of network, as `cannot_run` does; `reason` says what did not answer."""
    cannot_run(f"needs the network: {reason}")
