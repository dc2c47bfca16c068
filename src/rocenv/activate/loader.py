"""Start programs through the prefix's own dynamic loader.

If a set needs a newer C library than the system has, it includes its own. A program can use it only if the
matching loader starts the program: `LD_LIBRARY_PATH` would combine the system's loader with a different C
library, which breaks every program. Child processes use the system's loader, unless they are started through
the wrappers in the prefix's `bin`.

Source: ld.so(8)
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.prefix import library_folders
from rocenv.system import WINDOWS
from rocenv.system.quoting import find_windows_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocenv.core.model import Record
    from rocenv.prefix import Prefix

# Part of the second line of every wrapper and start script, so they can recognize each other. It is defined
# here so that `rocenv run` does not import every shell.
MARK = "rocenv-wrapper"

_HEAD_BYTES = 4096
_SCRIPT_LEVELS = 4
_PYTHON = re.compile(r"python([23](\.\d+)?)?")
_INTERP = 3  # p_type of the segment that specifies the program's loader. Source: elf(5)


class CommandNotFound(RocenvError):
    """A command does not exist; the exit code is the one that shells use.

    Attributes:
        name: The missing command as typed, or "" if the interpreter of a script is missing.
    """

    code = "command-not-found"
    exit_code = 127

    def __init__(self, message: str, *, name: str = "", hints: tuple[str, ...] = ()) -> None:
        super().__init__(message, hints=hints)
        self.name = name


class CommandNotExecutable(RocenvError):
    """A command exists but cannot be executed; the exit code is the one that shells use."""

    code = "command-not-executable"
    exit_code = 126


@dataclass(frozen=True, slots=True)
class _Elf:
    kind: bytes  # word size, byte order, and machine
    loader: str  # name of the loader that it requests, or "" if it is static


def argv_in(
    prefix: Prefix, record: Record, argv: Sequence[str], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Build the command line that runs `argv` in an env, with the env's own loader if it has one.

    Raises:
        CommandNotFound: The command or its interpreter does not exist.
        CommandNotExecutable: The command is a folder, is not executable, or is nested in too many scripts.
        RocenvError: The path of a library folder contains one of the loader's separators.
    """
    if not record.loader:
        return (find_program(argv[0], environ), *argv[1:])
    folders = library_folders(prefix, record.lock)
    return tuple(loader_argv(argv, environ, loader=prefix.path / record.loader, library_dirs=folders))


def loader_argv(
    argv: Sequence[str], environ: Mapping[str, str], *, loader: Path, library_dirs: Sequence[Path]
) -> list[str]:
    """Build a command line that runs `argv` with the prefix's libraries; its first word is a path.

    A program that requests a loader with the name and architecture of `loader` runs through `loader`. Its
    `argv[0]` is the path where the program was found, because Python locates its venv by that path. The
    same
    applies to a script's interpreter, even through `#!/usr/bin/env`; a Python shim is run to find out
    which Python it starts. The command lines of all other programs (static, setuid, or for a different
    C library) are unchanged.

    Args:
        argv: A command as typed, at least one word.
        environ: Contains `PATH`, and `LD_LIBRARY_PATH`, which is searched after the prefix's libraries.
        loader: The prefix's dynamic loader.
        library_dirs: The prefix's library folders.

    Raises:
        CommandNotFound: The command or its interpreter does not exist.
        CommandNotExecutable: The command is a folder, is not executable, or is nested in too many scripts.
        RocenvError: The path of a library folder contains one of the loader's separators.
    """
    own = _library_path(library_dirs)
    start = [str(loader), "--library-path", ":".join(filter(None, [own, environ.get("LD_LIBRARY_PATH")]))]
    wanted = _read_elf(str(loader))
    argv = list(argv)
    argv[0] = find_program(argv[0], environ)
    for _level in range(_SCRIPT_LEVELS + 1):
        head = _read_head(argv[0])
        if head.startswith(b"#!") and MARK.encode() not in head:
            if python := _python_behind(argv[0], environ):
                argv[0] = python
                continue
            argv = _through_interpreter(argv, head, environ)
            continue
        elf = None if _changes_user(argv[0]) else _read_elf(argv[0])
        if elf is None or wanted is None or elf.kind != wanted.kind or elf.loader != loader.name:
            return argv
        return [*start, "--argv0", argv[0], *argv]
    raise CommandNotExecutable(f"`{argv[0]}`: too many nested scripts (more than {_SCRIPT_LEVELS})")


def find_program(name: str, environ: Mapping[str, str]) -> str:
    """Find a command as a shell does, and return a path that contains a slash (or backslash on Windows).

    Raises:
        CommandNotFound: The command does not exist.
        CommandNotExecutable: The command is not executable.
    """
    if WINDOWS:
        program = find_windows_program(name, environ)
        if program is None:
            raise _not_found(name, "echo %PATH%")
        return program
    if "/" in name:
        candidates = [name]
    else:
        path = environ.get("PATH", os.defpath)
        candidates = [os.path.join(folder or ".", name) for folder in path.split(os.pathsep)] if name else []
    found = [each for each in candidates if os.path.exists(each)]
    for each in found:
        if os.path.isfile(each) and os.access(each, os.X_OK):
            return each
    if "/" in name and found:
        reason = "is a folder" if os.path.isdir(name) else "is not executable"
        raise CommandNotExecutable(
            f"`{name}` {reason}", hints=(f"chmod +x {shlex.quote(name)}",) * os.path.isfile(name)
        )
    if any(os.path.isfile(each) for each in found):
        raise CommandNotExecutable(
            f"`{found[0]}` is not executable", hints=(f"chmod +x {shlex.quote(found[0])}",)
        )
    raise _not_found(name, "echo $PATH")


def _not_found(name: str, show_path: str) -> CommandNotFound:
    if "/" in name or (WINDOWS and "\\" in name):
        return CommandNotFound(
            f"`{name}` does not exist", name=name, hints=() if os.path.isabs(name) else _here()
        )
    return CommandNotFound(
        f"command `{name}` not found", name=name, hints=(f"check the search path: {show_path}",)
    )


def _here() -> tuple[str, ...]:
    try:
        return (f"the current folder is `{os.getcwd()}`",)
    except OSError:
        return ("the current folder no longer exists",)


def _library_path(library_dirs: Sequence[Path]) -> str:
    for folder in library_dirs:
        if ":" in str(folder) or ";" in str(folder):
            raise RocenvError(
                f"the dynamic loader cannot search `{folder}`: it treats `:` and `;` as separators",
                hints=("set ROCENV_HOME to a different folder",),
            )
    return ":".join(map(str, library_dirs))


def _changes_user(path: str) -> bool:
    # The loader runs with the caller's permissions, so a setuid program would lose its own.
    return bool(os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID))


def _read_head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""  # executable but unreadable: run it unchanged


def _read_elf(path: str) -> _Elf | None:
    """Read an ELF file's class, machine, and loader, or return None for other files. Source: elf(5)."""
    head = _read_head(path)
    if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
        return None  # ROCm supports only 64-bit machines
    order = "<" if head[5] == 1 else ">"
    (table,) = struct.unpack_from(f"{order}Q", head, 32)
    size, count = struct.unpack_from(f"{order}HH", head, 54)
    with open(path, "rb") as file:
        for index in range(count):
            file.seek(table + index * size)
            entry = file.read(56)
            if len(entry) == 56 and struct.unpack_from(f"{order}I", entry)[0] == _INTERP:
                offset, length = struct.unpack_from(f"{order}Q16xQ", entry, 8)
                file.seek(offset)
                name = file.read(min(length, _HEAD_BYTES)).rstrip(b"\0")
                return _Elf(head[4:6] + head[18:20], os.path.basename(os.fsdecode(name)))
    return _Elf(head[4:6] + head[18:20], "")


def _python_behind(path: str, environ: Mapping[str, str]) -> str:
    """Run a version manager's shim to find the Python that it starts, or return "" if it is not a shim."""
    if not _PYTHON.fullmatch(os.path.basename(path)):
        return ""
    from rocenv.system import process  # imported late, because most programs are not shims

    asked = [path, "-c", "import sys; print(sys.executable)"]
    answer = process.run(asked, environ=environ, timeout_s=30)
    python = os.fsdecode(answer.stdout).strip()
    # A failing shim runs unchanged, and reports its own error.
    return python if answer.ok and os.access(python, os.X_OK) else ""


def _through_interpreter(argv: list[str], head: bytes, environ: Mapping[str, str]) -> list[str]:
    """Build the command line that the kernel would run for a script, and resolve simple uses of `env`."""
    line = os.fsdecode(head[2:].split(b"\n", 1)[0]).strip(" \t\r")
    interpreter, _, argument = line.partition(" ") if " " in line else line.partition("\t")
    argument = argument.strip(" \t")
    if os.path.basename(interpreter) == "env" and (words := _env_words(argument)):
        return [find_program(words[0], environ), *words[1:], *argv]
    if not os.path.isfile(interpreter):
        raise CommandNotFound(f"`{argv[0]}` requires the interpreter `{interpreter}`, which does not exist")
    return [interpreter, *([argument] if argument else []), *argv]


def _env_words(argument: str) -> list[str]:
    """Return the words that `env` would run, or [] for assignments and options other than `-S`."""
    if argument.startswith("-S"):
        words = shlex.split(argument[2:])
    elif argument.startswith("--split-string="):
        words = shlex.split(argument.partition("=")[2])
    else:
        words = [argument]
    return [] if not words or words[0].startswith("-") or "=" in words[0] else words
