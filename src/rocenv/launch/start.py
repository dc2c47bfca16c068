"""Prepare a start: find the env, recognise the app, and use kernels that rocenv built."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.apps.query import program_behind, program_path, program_words
from rocenv.apps.recognition import choose
from rocenv.apps.start import plan_start
from rocenv.core.errors import RocenvError
from rocenv.launch.capture import is_piped, terminal_columns
from rocenv.prefix import prefix_of
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.apps.start import Start
    from rocenv.context import Context
    from rocenv.kernels.placed import Placed, Starting


def prepare(context: Context, name: str, app: str, words: Sequence[str]) -> Start:
    """Determine what to start in an env.

    Args:
        context: Provides the envs and the data.
        name: The env.
        app: The app that the user specified; "" = recognise it.
        words: The command, arguments for the app's usual command, or nothing.

    Raises:
        RocenvError: The env or the app does not exist, or there is no command to start.
    """
    prefix = prefix_of(context.home, name)
    record = prefix.record()
    launchers = tuple(context.matrix.launcher)
    chosen = choose(
        launchers, app, words, Path.cwd(), platform=record.lock.platform, own=record.lock.request.app
    )
    return plan_start(
        prefix,
        record,
        chosen,
        words,
        os.environ,
        is_piped=is_piped(),
        columns=terminal_columns(),
        is_named=bool(app),
    )


def with_kernels(context: Context, start: Start) -> Start:
    """Use the kernels that `rocenv kernels build` made for the app, if any."""
    app = start.launcher.key
    if not start.is_app or not any(row.app == app for row in context.matrix.kernel_source):
        return start
    from rocenv.kernels.placed import starting

    program, words = program_path(start), program_words(start)
    if program is None or not words:
        return start
    target = start.record.lock.code_target
    # The kernels may be for the program behind one of the env's launch scripts.
    candidates = dict.fromkeys((program, program_behind(start) or program))
    tried = [starting(context.home, app, each, targets=(target,)) for each in candidates]
    found = next((each for each in tried if each.kernels or each.outdated or each.gone), tried[0])
    has_kernels = bool(found.kernels) or _has_shipped_kernels(context, app, program, target)
    start = replace(start, has_kernels=has_kernels, notes=(*start.notes, *_notes(start, found)))
    if found.program is not None:
        rest = start.words[len(words) :]
        start = replace(start, words=(*words[:-1], str(found.program), *rest), made_for=program)
    return start


def _has_shipped_kernels(context: Context, app: str, program: Path, target: str) -> bool | None:
    """Whether an app ships with kernels for a target; None if their folder is unknown."""
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
        yield f"using {_described(each)}"
    for each in found.gone:
        build = shell_join(*each.build_words())
        yield f"not using {_described(each)}: `{each.file}` was deleted or replaced; rebuild them: {build}"
    for each in found.outdated:
        build, undo = shell_join(*each.build_words()), shell_join(*each.undo_words())
        source = f"this {start.title} has different kernel sources"
        if each.place == "in-place":
            yield (
                f"{start.title} uses the kernels in `{each.file}` that rocenv built, but {source}; "
                f"restore the original: {undo}"
            )
        else:
            yield f"not using {_described(each)}: {source}; rebuild them: {build}"


def _described(placed: Placed) -> str:
    return f"the {placed.kind} kernels for {placed.target} that rocenv built ({placed.place})"
