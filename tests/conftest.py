"""What tests of all parts share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.loopback import Loopback
from tests.mini import Mini

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A job that a shell started in the background ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def mini(tmp_path: Path) -> Iterator[Mini]:
    """A machine of its own with a mirror and tiny sets; `mini.run("create", ...)` runs the real program."""
    root = tmp_path / "mini"
    root.mkdir()
    with Loopback(folder=root / "www") as server:
        yield Mini.build(root, server)
