"""When a test that this machine cannot run may be skipped: locally, but never in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def cannot_run(reason: str) -> NoReturn:
    """Skip the test; in CI, where all requirements must exist, fail it."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def require_network(reason: str) -> NoReturn:
    """Skip a test without network, like `cannot_run`; `reason` says what did not answer."""
    cannot_run(f"needs the network: {reason}")
