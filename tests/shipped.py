"""rocenv's own data, read once in a process: it takes half a second, and does not change while tests run."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.data.rows import Matrix


def keep() -> Callable[[], Matrix]:
    """Let `rocenv.data.load.load` return what it read before, unless other files are asked for; return it."""
    data: Any = importlib.import_module("rocenv.data.load")
    read: Callable[[Path | None, Path | None], Matrix] = data.load
    ours = data.profiles_folder()
    shipped = functools.cache(lambda: read(None, None))

    @functools.wraps(data.load)
    def load(folder: Path | None = None, own: Path | None = None) -> Matrix:
        if (folder or data.profiles_folder()) == ours and (own is None or not own.exists()):
            return shipped()
        return read(folder, own)

    data.load = load
    return load
