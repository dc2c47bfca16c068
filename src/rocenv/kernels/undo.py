"""Taking kernels away again: which, and only what rocenv itself has put there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.kernels import placed as notes
from rocenv.kernels import places
from rocenv.kernels.installation import path_of
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.context import Context
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.kernels.build import Wish
    from rocenv.kernels.placed import Placed

_HASH = "[0-9A-F]{32}"
_SHOWN = 5


def undo(wish: Wish, context: Context, kind: str, tell: Callable[[str], None]) -> list[tuple[Placed, str]]:
    """Take away what was placed for an app, and put originals back.

    Args:
        wish: Whose; its `path`, `target`, `place` and `env`, where they are set, say which.
        context: The home, the network and the matrix.
        kind: Of the kernels; "" = all.
        tell: Takes a line for the user.

    Returns:
        What was placed, and what became of it.

    Raises:
        RocenvError: Nothing was placed that fits, or one of them cannot be taken away; the others are.
    """
    home, app = context.home, wish.row.app
    done = []
    failed: RocenvError | None = None
    with storage_errors(home.path), locked(home.lock("kernels", app)):
        for path in notes.note_files(home, app):
            found = notes.read(path, app)
            if found is None or not _is_sound(found, home, context.matrix):
                tell(f"`{path}` is not as rocenv wrote it: what it names is left as it is")
        for each in _wished(wish, kind, home):
            if not _is_sound(each, home, context.matrix):
                continue
            try:
                said = places.undo(each, home)
            except RocenvError as error:
                failed = failed or error
                continue
            notes.forget(home, each)
            done.append((each, said))
            tell(said)
    if failed is not None:
        raise failed
    if not done:
        raise _none_such(app, home, context.matrix)
    return done


def _none_such(app: str, home: Home, matrix: Matrix) -> RocenvError:
    others = [each for each in notes.all_placed(home, app) if _is_sound(each, home, matrix)]
    shown = tuple(shell_join(*each.undo_words()) for each in others[:_SHOWN])
    first = f" (the first {_SHOWN} of {len(others)})" if len(others) > _SHOWN else ""
    there = f"; what it has placed goes with these{first}" if others else ""
    return RocenvError(
        f"rocenv has placed no {'such ' if others else ''}kernel of {app}{there}",
        hints=shown,
        code="kernels-not-placed",
    )


def _wished(wish: Wish, kind: str, home: Home) -> list[Placed]:
    app = wish.row.app
    found = (
        notes.of_program(home, app, path_of(wish.path, wish.row))
        if wish.path
        else notes.all_placed(home, app)
    )
    return [
        each
        for each in found
        if (not kind or each.kind == kind)
        and (not wish.target or each.target == wish.target)
        and (not wish.place or each.place == wish.place)
        and (not wish.env or _is_of_env(each, wish.env, home))
    ]


def _is_of_env(placed: Placed, name: str, home: Home) -> bool:
    """Tell whether a kernel was made with an env, or is of an app that lies in it."""
    lies_in_it = Path(placed.program).is_relative_to(home.envs / name)
    return placed.env == name or (placed.place != "cache" and lies_in_it)


def _is_sound(placed: Placed, home: Home, matrix: Matrix) -> bool:
    """Tell whether a note names a file that rocenv may have put there: by its name and its folder."""
    row = next((row for row in matrix.kernel_source if row.app == placed.app), None)
    if row is None:
        return False
    file = Path(placed.file)
    is_cache = placed.place == "cache"
    patterns = {
        recipe.cached if is_cache else recipe.precompiled
        for recipe in matrix.kernel_recipe
        if (recipe.app, recipe.kind) == (placed.app, placed.kind)
    }
    target = re.escape(placed.target)
    names = [
        re.escape(each).replace(r"\{target\}", target).replace(r"\{md5\}", _HASH) for each in patterns if each
    ]
    if not any(re.fullmatch(rf"{name}(\.zst)?", file.name) for name in names):
        return False
    if is_cache:
        return file.parent == Path(placed.cache_home, row.cache)
    if placed.place == "overlay":
        return not os.path.exists(file) or notes.overlay_of(home, placed) is not None
    above = Path(placed.source).parents
    levels = len(Path(row.code).parts)
    return len(above) >= levels and file.parent == above[levels - 1] / row.precompiled
