"""Kernels that `rocenv kernels build` made for an app: starting the app so that it finds them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.system.command_lines import as_typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.commands.world import World
    from rocenv.kernels.placed import Starting
    from rocenv.launch.start import Start


def with_kernels(world: World, start: Start) -> Start:
    """Return a start in which the app finds the kernels that were made for it, if there are any."""
    app = start.launcher.key
    if not start.is_app or not any(row.app == app for row in world.matrix.kernel_source):
        return start
    from rocenv.kernels.placed import starting
    from rocenv.launch.app_version import program_behind, program_path
    from rocenv.launch.ask import program_words

    program, words = program_path(start), program_words(start)
    if program is None or not words:
        return start
    targets = (start.record.lock.code_target,)
    # Kernels may have been made for what an env's starter starts.
    either = dict.fromkeys((program, program_behind(start) or program))
    tried = [starting(world.home, app, each, targets) for each in either]
    found = next((each for each in tried if each.kernels or each.outdated), tried[0])
    notes = tuple(_notes(start, found, str(program)))
    if found.program is not None:
        rest = start.words[len(words) :]
        start = replace(start, words=(*words[:-1], str(found.program), *rest))
    return replace(start, changes=(*start.changes, *found.changes), notes=(*start.notes, *notes))


def _notes(start: Start, found: Starting, program: str) -> Iterator[str]:
    for each in found.kernels:
        yield f"taken: the {each.kind} kernels for {each.target} that rocenv made ({each.place})"
    for each in found.outdated:
        app = start.launcher.key
        again = as_typed("rocenv", "kernels", "build", app, f"--{app}", program, "--target", each.target)
        more = " --hiprt" if each.kind == "hiprt" else ""
        yield (
            f"not taken: the {each.kind} kernels for {each.target} that rocenv made are of another source "
            f"than this {start.title} has; make them again: {again}{more}"
        )
