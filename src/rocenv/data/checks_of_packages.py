"""What must hold of apps' packages and of compilers: channels that are there, paths that stay in the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocenv.core.model import Program
    from rocenv.data.app_sets import AppPackages, Compiler
    from rocenv.data.checks import Placed


def check_packages(rows: Mapping[str, Sequence[Placed]]) -> None:
    """Raise DataError where packages come from nowhere, or lead out of the tree they are unpacked into."""
    channels = {placed.row.name for placed in rows["channel"]}
    for placed in rows["app_packages"]:
        for fault in (*_of_channels(placed.row, channels), *_of_app(placed.row)):
            raise DataError(f"{fault} (`{placed.where}`)")
    _require_one_each(rows["app_packages"])
    for placed in rows["compiler"]:
        for fault in (*_of_channel(placed.row.channel, channels), *_of_compiler(placed.row)):
            raise DataError(f"{fault} (`{placed.where}`)")


def _of_channel(name: str, channels: set[str]) -> Iterator[str]:
    if name not in channels:
        yield f"`channel` names `{name}`, which is not there"


def _of_channels(row: AppPackages, channels: set[str]) -> Iterator[str]:
    if not row.channels:
        yield "`channels` is empty"
    for name in row.channels:
        if name not in channels:
            yield f"`channels` names `{name}`, which is not there"


def _require_one_each(rows: Sequence[Placed]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for placed in rows:
        for channel in placed.row.channels:
            key = placed.row.app, channel
            if key in seen:
                raise DataError(
                    f"`{placed.where}` and `{seen[key]}` both say what {channel} has of {placed.row.app}"
                )
            seen[key] = placed.where


def _of_app(row: AppPackages) -> Iterator[str]:
    if not row.names:
        yield "`names` is empty"
    yield from _of_programs(row.programs)
    paths = (row.program, *row.library_dirs, *row.links, *row.links.values())
    yield from _of_paths((*paths, *(each.path for each in row.programs)))


def _of_compiler(row: Compiler) -> Iterator[str]:
    if not row.packages:
        yield "`packages` is empty"
    layout = row.layout
    yield from _of_programs(layout.programs)
    yield from _of_paths((*layout.library_dirs, layout.device_libs, *layout.links, *layout.links.values()))


def _of_programs(programs: Sequence[Program]) -> Iterator[str]:
    for program in programs:
        if any("/" in name or not name for name in program.names):
            yield f"`programs`: a name of `{program.path}` is none"
        if program.names and any(character in program.path for character in "*?["):
            yield f"`programs`: `{program.path}` may be several, and `names` are for one"


def _of_paths(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if path.startswith("/") or ".." in path.split("/"):
            yield f"`{path}` leads out of the tree"
