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
from rocenv.kernels import APP
from rocenv.launch.capture import is_piped, terminal_columns
from rocenv.prefix import prefix_of
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocenv.apps.context import LaunchContext
    from rocenv.apps.start import Start
    from rocenv.context import Context
    from rocenv.home import Home
    from rocenv.kernels.placed import Starting


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


def with_changes_noted(launch: LaunchContext) -> LaunchContext:
    """Tell the user how the command differs from the typed one, and why."""
    start, does = launch.start, launch.text(launch.start.launcher.wrapper.does)
    if start.wrapper:
        name = "replaced_wrapper_because" if does else "replaced_wrapper"
        before = replace(start, words=start.words[: len(start.words) - len(start.added)])
        command = shell_join(*before.shown_words)
        launch = launch.noting(launch.message(name, command=command, wrapper=start.wrapper, does=does))
    if start.added:
        name = "added_for_torch" if start.zluda is None else "added_for_zluda"
        launch = launch.noting(launch.message(name, arguments=" ".join(start.added)))
    return launch


def with_kernels(launch: LaunchContext, home: Home) -> LaunchContext:
    """Use the kernels that `rocenv kernels build` made for the app, if any."""
    start = launch.start
    if not start.is_app or start.launcher.key != APP:
        return launch
    from rocenv.kernels.placed import starting

    program, words = program_path(start), program_words(start)
    if program is None or not words:
        return launch
    target = start.record.lock.code_target
    # The kernels may be for the program behind one of the env's launch scripts.
    candidates = dict.fromkeys((program, program_behind(start) or program))
    tried = [starting(home, each, targets=(target,)) for each in candidates]
    found = next((each for each in tried if each.kernels or each.outdated or each.gone), tried[0])
    has_kernels = bool(found.kernels) or _has_shipped_kernels(home, program, target)
    start = replace(start, has_kernels=has_kernels)
    if found.program is not None:
        rest = start.words[len(words) :]
        start = replace(start, words=(*words[:-1], str(found.program), *rest), made_for=program)
    return replace(launch, start=start).noting(*_about_kernels(launch, found))


def _has_shipped_kernels(home: Home, program: Path, target: str) -> bool | None:
    """Whether Blender ships with kernels for a target; None if their folder is unknown."""
    from rocenv.kernels.installation import find

    try:
        folder = find(str(program), home).precompiled
        names = os.listdir(folder) if folder.is_dir() else []
    except (RocenvError, OSError):
        return None
    return any(target in re.split(r"[^a-z0-9]+", name) for name in names)


def _about_kernels(launch: LaunchContext, found: Starting) -> Iterator[str]:
    for name, kernels in (
        ("using_kernels", found.kernels),
        ("kernels_gone", found.gone),
        ("kernels_outdated", [each for each in found.outdated if each.place != "in-place"]),
        ("replaced_kernels_outdated", [each for each in found.outdated if each.place == "in-place"]),
    ):
        for each in kernels:
            yield launch.message(
                name,
                app=launch.start.title,
                kind=each.kind,
                target=each.target,
                place=each.place,
                file=str(each.file),
                build=shell_join(*each.build_words()),
                undo=shell_join(*each.undo_words()),
            )
