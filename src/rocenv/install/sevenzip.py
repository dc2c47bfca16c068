"""Unpack 7z archives with py7zr, or with a system program if py7zr does not support the method (BCJ2)."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import ArchiveError, RocenvError
from rocenv.install.tree import require_plausible, shown, windows_path
from rocenv.system import WINDOWS, process
from rocenv.system.exit_codes import describe_exit
from rocenv.system.files import file_chunks, remove_tree
from rocenv.system.programs import program_on_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from py7zr import SevenZipFile

    from rocenv.install.tree import OpenFile, Tree

_INSTALL_HINT = (
    "install 7-Zip (`winget install 7zip.7zip`), then run the same command again"
    if WINDOWS
    else "install 7-Zip (`apt-get install p7zip-full` or `7zip`), then run the same command again"
)


class NoProgram(ArchiveError):
    """Raised if no installed program can unpack this kind of archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file to extract from an archive."""

    stored: str  # name in the archive
    path: str  # sanitized path, where external programs unpack the file
    name: str  # path in the tree
    size_bytes: int
    crc: int | None


def unpack_7z(path: Path, tree: Tree, work: Path, *, start: int = 0, below: str = "") -> None:
    """Unpack a 7z archive into a tree after checking every name.

    Args:
        path: The file that contains the archive.
        tree: The destination.
        work: Temporary folder for an external program, created and removed.
        start: Offset of the archive in the file.
        below: The name of the only folder to unpack, or "" to unpack everything.

    Raises:
        NoProgram: No installed program can unpack the archive.
        ArchiveError: The archive is damaged, encrypted or a bomb, or contains a link or an unsafe name.
    """
    import py7zr
    from py7zr.exceptions import UnsupportedCompressionMethodError

    with path.open("rb") as stream:
        window = io.BufferedReader(_Window(stream, start))
        sinks = _Sinks(tree)
        with _as_damage(sinks), py7zr.SevenZipFile(window) as archive:
            members = _members(archive, tree, below)
            require_plausible(sum(member.size_bytes for member in members), path.stat().st_size - start)
            sinks.wanted = {member.path: member for member in members}
            factory: Any = sinks
            try:
                archive.extract(tree.folder, [member.stored for member in members], factory=factory)
                sinks.finish()
                return
            except UnsupportedCompressionMethodError:
                sinks.close_file()
    tree.restart()
    try:
        _unpack_by_program(path, members, tree, work, start=start, only_these=bool(below))
    finally:
        remove_tree(work)


def _members(archive: SevenZipFile, tree: Tree, below: str) -> list[Member]:
    members = []
    for info in archive.files:
        path = windows_path(info.filename)
        if below and below.casefold() not in path.casefold().split("/")[:-1]:
            continue
        if info.is_symlink or info.is_junction or info.is_socket:
            raise ArchiveError(f"`{shown(info.filename)}` is a link or some other special file")
        if not info.is_directory:
            name = tree.claim(info.filename)
            size_bytes, crc = info.uncompressed, info.crc32
            members.append(Member(stored=info.filename, path=path, name=name, size_bytes=size_bytes, crc=crc))
    return members


class _Sinks:
    """The output files for py7zr, which writes sequentially, so one object serves all of them.

    Attributes:
        wanted: The allowed files, by sanitized path.
        failure: An error that the archive did not cause, such as a full disk.
    """

    def __init__(self, tree: Tree) -> None:
        self.wanted: dict[str, Member] = {}
        self.failure: BaseException | None = None
        self._tree = tree
        self._file: OpenFile | None = None

    def create(self, filename: str) -> _Sinks:
        with self._noting_failure():
            self.finish()
            member = self.wanted[windows_path(Path(filename).relative_to(self._tree.folder).as_posix())]
            self._file = self._tree.begin(member.name, member.size_bytes)
        return self

    def write(self, data: bytes | bytearray) -> int:
        with self._noting_failure():
            assert self._file is not None
            self._file.write(data)
        return len(data)

    def finish(self) -> None:
        """Finish the current file, and add it to the tree's list."""
        if self._file is not None:
            self._file.finish()
            self._file = None

    def close_file(self) -> None:
        if self._file is not None:
            self._file.close()

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.failure = error
            raise

    # Other methods of the file interface that py7zr uses; some versions do not call `close`.

    def read(self, _size: int | None = None) -> bytes:
        return b""

    def seek(self, _offset: int, _whence: int = 0) -> int:
        return 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def size(self) -> int:
        return 0


@contextlib.contextmanager
def _as_damage(sinks: _Sinks) -> Iterator[None]:
    """Convert py7zr's errors for damaged archives, which can have almost any type, to ArchiveError."""
    from py7zr.exceptions import CrcError, PasswordRequired

    try:
        yield
    except Exception as error:
        if sinks.failure is not None:
            raise sinks.failure from None
        if isinstance(error, RocenvError) or (isinstance(error, OSError) and error.errno != errno.EINVAL):
            raise
        if isinstance(error, PasswordRequired):
            raise ArchiveError("the 7z archive is encrypted") from error
        if isinstance(error, CrcError):
            name = shown(str(error.filename))
            raise ArchiveError(f"damaged 7z archive: the checksum of `{name}` is wrong") from error
        words = shown(str(error)[:200])
        raise ArchiveError(f"damaged 7z archive: {words or type(error).__name__}") from error
    finally:
        sinks.close_file()


class _Window(io.RawIOBase):
    """The part of a file from an offset onward, as a separate file."""

    def __init__(self, stream: io.BufferedReader, start: int) -> None:
        self._stream = stream
        self._start = start
        stream.seek(start)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_SET:
            offset += self._start
        return self._stream.seek(offset, whence) - self._start

    def readinto(self, buffer: Any) -> int:
        return self._stream.readinto(buffer)


# ---------------------------------------------------------------- system programs


def _unpack_by_program(
    path: Path, members: Sequence[Member], tree: Tree, work: Path, *, start: int, only_these: bool
) -> None:
    """Unpack members with safe names using 7-Zip or libarchive's tar.

    The output of these programs is checked as strictly as py7zr's. The caller removes `work`.
    """
    programs = _programs()
    if not programs:
        raise NoProgram(
            "it uses BCJ2 compression, which requires 7-Zip, but 7-Zip is not installed",
            hints=(_INSTALL_HINT,),
        )
    remove_tree(work)
    work.mkdir()
    archive = path
    if start:
        archive = work / "a.7z"  # these programs differ in how they find an archive in an executable
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
    raise NoProgram(f"no installed program can unpack it; {'; '.join(failures)}", hints=(_INSTALL_HINT,))


def _programs() -> list[str]:
    """List installed programs that support every 7z method, best first."""
    found = [program_on_path(name) for name in ("7z", "7zz", "7za")]
    if WINDOWS:
        # Use full paths: the tar on PATH may be GNU tar, which cannot read 7z. Windows has included
        # libarchive's tar since 2018.
        for variable, rest in (("ProgramFiles", r"7-Zip\7z.exe"), ("SystemRoot", r"System32\tar.exe")):
            place = Path(os.environ.get(variable, "C:\\"), rest)
            found.append(str(place) if place.exists() else None)
    else:
        found.append(program_on_path("bsdtar"))
    return [program for program in found if program]


def _command(program: str, archive: Path, out: Path, members: Sequence[Member]) -> list[str]:
    """Build the command that unpacks these members of an archive, or all if none are given."""
    names = out.with_name("names.txt")
    if Path(program).stem.lower() in ("tar", "bsdtar"):
        # tar treats names as patterns, but names that are safe on Windows do not contain `*` or `?`.
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
    """Run a program, and return its error or "" for success; if `advance` raises, kill the program."""
    # 7-Zip on POSIX encodes file names by locale, and the C locale supports only ASCII.
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
            raise ArchiveError(f"`{shown(member.name)}` was unpacked through a link")
    if not source.exists():
        raise ArchiveError(f"`{shown(member.name)}` was not unpacked; antivirus software may have removed it")
    tree.take(member.name, source, member.size_bytes, member.crc)


def _copy_from(path: Path, start: int, destination: Path, advance: Callable[[int], None]) -> None:
    with destination.open("xb") as out:
        for data in file_chunks(path, start):
            out.write(data)
            advance(0)
