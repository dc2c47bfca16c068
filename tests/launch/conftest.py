from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.launch.lab import Lab

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A ROCENV_HOME, a machine and an app's folder."""
    return Lab(tmp_path)
