"""The `lab` fixture, a new home for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.commands.lab import Lab

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)
