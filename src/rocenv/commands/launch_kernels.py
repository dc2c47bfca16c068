"""Start an app so that it finds the kernels that `rocenv kernels build` built for it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.context import Context
    from rocenv.kernels.placed import Placed, Starting
    from rocenv.launch.start import Start


def with_kernels(context: Context, start: Start) -> Start:
    """Change a start so that the app finds the kernels that were built for it, if there are any."""
    app = start.launcher.key
    if not start.is_app or not any(row.app == app for row in context.matrix.kernel_source):
        return start
    from rocenv.kernels.placed import starting
    from rocenv.launch.app_version import program_behind, program_path
    from rocenv.launch.ask import program_words

    program, words = program_path(start), program_words(start)
    if program is None or not words:
        return start
    targets = (start.record.lock.code_target,)
    # Kernels may have been built for the program that an env's start script runs.
    either = dict.fromkeys((program, program_behind(start) or program))
    tried = [starting(context.home, app, each, targets=targets) for each in either]
    found = next((each for each in tried if each.kernels or each.outdated or each.gone), tried[0])
    notes = tuple(_notes(start, found))
    has_own = _came_with_it(context, app, program, start.record.lock.code_target)
    start = replace(start, has_kernels=bool(found.kernels) or has_own)
    if found.program is not None:
        rest = start.words[len(words) :]
        start = replace(start, words=(*words[:-1], str(found.program), *rest), made_for=program)
    return replace(start, notes=(*start.notes, *notes))


def _came_with_it(context: Context, app: str, program: Path, target: str) -> bool | None:
    """Tell whether kernels for a target came with an app; None where it is not known where they would be."""
    from rocenv.kernels.installation import find

    row = next(row for row in context.matrix.kernel_source if row.app == app)
    try:
        folder = find(str(program), row, context.home).precompiled
        names = os.listdir(folder) if folder.is_dir() else []
    except (RocenvError, OSError):
        return None
    return any(target in re.split(r"[^a-z0-9]+", name) for name in names)


def _notes(start: Start, found: Starting) -> Iterator[str]:
    for each in found.kernels:
        yield f"taken: {_named(each)}"
    for each in found.gone:
        yield (
            f"gone: {_named(each)}, were in `{each.file}`, which was removed or overwritten; make them "
            f"again: {shell_join(*each.build_words())}"
        )
    of_another = f"of another source than this {start.title} has"
    for each in found.outdated:
        if each.place == "in-place":
            yield (
                f"old: a kernel that rocenv made lies in `{each.file}`, {of_another}, and {start.title} "
                f"takes it; take it away: {shell_join(*each.undo_words())}"
            )
        else:
            yield (
                f"not taken: {_named(each)}, are {of_another}; make them again: "
                + shell_join(*each.build_words())
            )


def _named(placed: Placed) -> str:
    return f"the {placed.kind} kernels for {placed.target} that rocenv made ({placed.place})"
