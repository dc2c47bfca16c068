"""The `lab` fixture, in a folder with a space in its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernels.lab import Lab, make_lab

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A home with a fake compiler in the `cc` env."""
    return make_lab(tmp_path / "a lab")
