"""A fake machine at `ROCENV_SYSROOT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocenv.checks import machine
from tests.checks.scenery import Scenery
from tests.host.roots import Root

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def scenery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scenery:
    """An empty machine."""
    path = tmp_path / "machine"
    path.mkdir()
    monkeypatch.setenv("ROCENV_SYSROOT", str(path))
    monkeypatch.setattr(machine, "free_bytes", lambda _folder: 1 << 40)  # the disk may be nearly full
    for name in ("ROCENV_TARGET", "HSA_OVERRIDE_GFX_VERSION"):
        monkeypatch.delenv(name, raising=False)
    return Scenery(Root(path), tmp_path)
