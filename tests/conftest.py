"""What tests of all parts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.loopback import Loopback
from tests.mini import Mini

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def mini(tmp_path: Path) -> Iterator[Mini]:
    """A machine of its own with a mirror and tiny sets; `mini.run("create", ...)` runs the real program."""
    root = tmp_path / "mini"
    root.mkdir()
    with Loopback(folder=root / "www") as server:
        yield Mini.build(root, server)
