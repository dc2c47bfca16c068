"""A check for two LLVMs in one process: the one of ROCm's compiler library, and one that comes with the app.

Both libraries export the same names and register the same options, so that one calls into the other, or LLVM
ends the program. What is looked at is what the files ask for, not what is loaded in fact.
"""

from __future__ import annotations

import fnmatch
import os
import re
from typing import TYPE_CHECKING

from rocenv.core.model import Request
from rocenv.launch.app_version import program_behind
from rocenv.launch.ask import program_words
from rocenv.launch.elf import USUAL, is_elf, loaded
from rocenv.launch.view import Concern
from rocenv.prefix import library_folders
from rocenv.resolve.request import create_command
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rocenv.data.apps import AppProgram
    from rocenv.launch.elf import Loaded
    from rocenv.launch.start import Start
    from rocenv.launch.view import View

_LLVM = re.compile(r"libLLVM[-.].*")
CODE = "comgr-version-clash"


def one_llvm(view: View) -> Iterator[Concern]:
    """Two libLLVM of different versions that would be in the app's process."""
    start = view.start
    row = next((each for each in view.matrix.app_program if each.app == start.launcher.key), None)
    if row is None or not row.compiler or start.record.lock.platform != "linux" or not start.is_app:
        return
    path = program_behind(start)
    if path is None or not is_elf(path):
        return
    program = str(path)
    env = [str(folder) for folder in library_folders(start.prefix, start.record.lock)]
    outside = [each for each in start.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if each]
    folders = [*env, *outside]
    usual = [] if start.record.loader else list(USUAL)
    own = [os.path.dirname(program), os.path.join(os.path.dirname(program), "lib")]
    opened = [
        path for pattern in _patterns(start, row) for path in _matching(pattern, [*folders, *own, *usual])
    ]
    compiler = loaded(
        [path for each in (row.runtime, row.compiler) for path in _matching(each, env)], folders, usual
    )
    if not any(_LLVM.fullmatch(each.soname) for each in compiler):
        return  # it has its LLVM inside
    of_llvm = [each for each in loaded([program, *opened], folders, usual) if _LLVM.fullmatch(each.soname)]
    versions = {each.soname: each for each in of_llvm}
    if len(versions) > 1 and not _is_preloaded(start, row.compiler):
        yield _clash(view, [versions[soname] for soname in sorted(versions)], _matching(row.compiler, env))


def _patterns(start: Start, row: AppProgram) -> tuple[str, ...]:
    shows = () if any(map(start.gives, row.windowless)) else row.shows
    return (row.runtime, row.compiler, *row.loads, *shows)


def _matching(pattern: str, folders: Iterable[str]) -> list[str]:
    """Return the files of that pattern, of each name the first."""
    below, _, name = pattern.rpartition("/")
    found: dict[str, str] = {}
    for folder in folders:
        try:
            names = sorted(os.listdir(os.path.join(folder, below)))
        except OSError:
            continue
        for each in fnmatch.filter(names, name):
            found.setdefault(each, os.path.join(folder, below, each))
    return list(found.values())


def _is_preloaded(start: Start, compiler: str) -> bool:
    words = any(fnmatch.fnmatch(word, f"*LD_PRELOAD=*{compiler}*") for word in start.words)
    return words or fnmatch.fnmatch(start.environ.get("LD_PRELOAD", ""), f"*{compiler}*")


def _clash(view: View, llvms: Sequence[Loaded], compilers: Sequence[str]) -> Concern:
    named = " and ".join(f"{each.soname} (for {each.by or 'itself'})" for each in llvms)
    return Concern(
        code=CODE,
        severity="warning",
        text=f"two LLVMs come into one process, which ends in a crash or in `LLVM ERROR: Option … already "
        f"exists!`: {named}",
        remedy="; or ".join(_remedies(view, compilers)),
    )


def _remedies(view: View, compilers: Sequence[str]) -> Iterator[str]:
    start = view.start
    words = program_words(start) or start.words[:1]
    if compilers and not start.record.loader:
        preload = f"LD_PRELOAD={compilers[0]}"
        command = (*words[:-1], "env", preload, *start.shown_words[len(words) - 1 :])
        yield shell_join("rocenv", "launch", start.prefix.name, "--app", start.launcher.key, "--", *command)
    name, lock = start.prefix.free_name(), start.record.lock
    for channel in view.matrix.channels.values():
        if channel.by == "maker" and all(part.channel != channel.name for part in lock.components):
            request = Request(platform=lock.platform, target=lock.target, channel=channel.name)
            create = create_command(name, request, lock.platform)
            yield f"take a build of AMD's, which has its LLVM inside: {create}"
            return
