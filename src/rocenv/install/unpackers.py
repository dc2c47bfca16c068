"""Unpacking by a program of the machine, where Python cannot; what comes out is checked as strictly."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError
from rocenv.install.unpack import shown
from rocenv.system import WINDOWS, process
from rocenv.system.exit_codes import describe_exit
from rocenv.system.files import file_chunks, remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.install.tree import Tree

_LOOK_EVERY_S = 0.2


class NoProgram(ArchiveError):
    """An archive is of a kind that no program of this machine can unpack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file of an archive that is wanted."""

    stored: str  # its name in the archive
    path: str  # the same as a clean path, where a program unpacks it to
    name: str  # where it goes in the tree
    size_bytes: int
    crc: int | None


def unpack_by_program(
    path: Path, members: Sequence[Member], tree: Tree, work: Path, *, start: int = 0, only_these: bool = False
) -> None:
    """Unpack members of a 7z archive, whose names are known to be safe, with 7-Zip or libarchive's tar.

    Args:
        path: The file that holds the archive.
        members: What is wanted.
        tree: Where to.
        work: A folder that is not there; the caller removes it.
        start: Where in the file the archive begins.
        only_these: The archive holds more.

    Raises:
        NoProgram: There is no such program, or none could do it.
        ArchiveError: What came out is not what the archive says.
    """
    programs = _programs()
    if not programs:
        raise NoProgram(
            "it is compressed in a way (BCJ2) that takes a program which is not installed: 7-Zip",
            hints=(_INSTALL_HINT,),
        )
    remove_tree(work)
    work.mkdir()
    archive = path
    if start:
        archive = work / "a.7z"  # these programs find an archive in a program by rules of their own
        _copy_from(path, start, archive, tree.advance)
    failures = []
    for program in programs:
        out = work / "o"
        remove_tree(out)
        out.mkdir()
        command = _command(program, archive, out, members if only_these else ())
        failure = run_quietly(command, tree.advance)
        if not failure:
            for member in members:
                _take(member, out, tree)
            return
        failures.append(f"{program}: {failure}")
    raise NoProgram(f"no program could unpack it; {'; '.join(failures)}", hints=(_INSTALL_HINT,))


_INSTALL_HINT = (
    "install 7-Zip (`winget install 7zip.7zip`), then run the same command again"
    if WINDOWS
    else "install 7-Zip (`apt-get install p7zip-full` or `7zip`), then run the same command again"
)


def _programs() -> list[str]:
    """Return the programs that know every method of 7z, the best first."""
    found = [shutil.which(name) for name in ("7z", "7zz", "7za")]
    if WINDOWS:
        # By full path: a tar on PATH may be GNU's, which knows no 7z. Windows has libarchive's since 2018.
        for variable, rest in (("ProgramFiles", r"7-Zip\7z.exe"), ("SystemRoot", r"System32\tar.exe")):
            place = Path(os.environ.get(variable, "C:\\"), rest)
            found.append(str(place) if place.exists() else None)
    else:
        found.append(shutil.which("bsdtar"))
    return [program for program in found if program]


def _command(program: str, archive: Path, out: Path, members: Sequence[Member]) -> list[str]:
    """Return how a program unpacks all of an archive, or only these members of it."""
    names = out.with_name("names.txt")
    if Path(program).stem.lower() in ("tar", "bsdtar"):
        # It takes the names for patterns; `*` and `?` are in no name that is safe on Windows.
        _write_lines(names, [re.sub(r"([\[\]])", r"\\\1", member.path) for member in members])
        chosen = ["-T", str(names)] if members else []
        return [program, "-xf", str(archive), "-C", str(out), *chosen]
    _write_lines(names, [member.path.replace("/", os.sep) for member in members])
    chosen = [f"-i@{names}"] if members else []
    return [program, "x", "-y", "-bd", "-t7z", "-scsUTF-8", f"-o{out}", *chosen, "--", str(archive)]


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def run_quietly(
    command: Sequence[str] | str, advance: Callable[[int], None], timeout_s: float | None = None
) -> str:
    """Run a program to its end and return what went wrong, "" = nothing; it ends when `advance` raises."""
    # 7-Zip on POSIX makes names of files by the locale, and the plain one knows only ASCII.
    environ = os.environ if WINDOWS else {**os.environ, "LC_ALL": "C.UTF-8"}
    done = process.run(
        command,
        environ=environ,
        stdout=process.DROP,
        timeout_s=timeout_s,
        on_wait=lambda: advance(0),
    )
    if done.ok:
        return ""
    lines = [line.strip() for line in done.error_text.splitlines() if line.strip()]
    end = done.problem or describe_exit(done.code or 0)
    return " ".join([end, *(shown(line[:200]) for line in lines[-2:])])


def _take(member: Member, out: Path, tree: Tree) -> None:
    source = out / member.path
    here = out
    for part in Path(member.path).parts[:-1]:
        here = here / part
        if here.is_symlink():
            raise ArchiveError(f"`{shown(member.name)}` came out behind a link")
    if not source.exists():
        raise ArchiveError(
            f"`{shown(member.name)}` did not come out of the archive; an antivirus may have taken it"
        )
    tree.take(member.name, source, member.size_bytes, member.crc)


def _copy_from(path: Path, start: int, destination: Path, advance: Callable[[int], None]) -> None:
    with destination.open("xb") as out:
        for data in file_chunks(path, start):
            out.write(data)
            advance(0)
