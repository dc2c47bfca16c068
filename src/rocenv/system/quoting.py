"""Quoting of commands for people, command lines of batch files, and where Windows finds programs."""

from __future__ import annotations

import ntpath
import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_BATCH = (".bat", ".cmd")
# Source: `ftype`, `assoc` and PATHEXT of a fresh Windows
_PATHEXT = ".COM;.EXE;.BAT;.CMD"
# Characters that mean nothing to cmd, so that a word of them needs no quotes.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")


def find_windows_program(name: str, environ: Mapping[str, str]) -> str | None:
    """The path of a command as cmd finds it in `environ`, None where it is nowhere.

    A name may lack its extension: those of `PATHEXT` are tried in order, in each folder of `PATH`. The
    current folder is not searched: a file that is there by chance must not run in a program's place.
    """
    values = {key.upper(): value for key, value in environ.items()}
    extensions = [each for each in (values.get("PATHEXT") or _PATHEXT).split(";") if each]
    if ntpath.splitext(name)[1].lower() in [each.lower() for each in extensions]:
        extensions.insert(0, "")
    for folder in _searched(name, values.get("PATH", "")):
        path = os.path.join(folder, name) if folder else name
        for extension in extensions:
            if os.path.isfile(path + extension):
                return path + extension
    return None


def _searched(name: str, path: str) -> Iterator[str]:
    if any(char in name for char in "/\\:"):
        yield ""
        return
    for folder in path.split(";"):
        if folder.strip('"'):
            yield folder.strip('"')


def command_line(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The command line that starts `argv`, whose first word is a path, so that each word arrives.

    A batch file is started through cmd, which reads the line before the file does.

    Raises:
        RocenvError: A word for a batch file holds a line break, which ends a line of cmd however quoted.
    """
    if not argv[0].lower().endswith(_BATCH):
        return subprocess.list2cmdline(argv)
    if any(char in word for word in argv for char in "\r\n\0"):
        raise RocenvError(f"`{argv[0]}` is a batch file, and cannot be given an argument with a line break")
    values = {key.upper(): value for key, value in environ.items()}
    interpreter = values.get("COMSPEC") or ntpath.join(
        values.get("SYSTEMROOT") or r"C:\Windows", "System32", "cmd.exe"
    )
    words = " ".join([_for_cmd(argv[0], always=True), *map(_for_cmd, argv[1:])])
    # The outermost quotes are those that cmd takes off. Source: cmd /?
    return f'{subprocess.list2cmdline([interpreter])} /e:on /v:off /d /s /c "{words}"'


def _for_cmd(word: str, always: bool = False) -> str:
    """A word in quotes for cmd: quotes doubled, and nothing in it taken for a variable.

    There is no way to quote a `%` on a command line; an expansion to nothing behind it keeps it from
    beginning a name. Source: CVE-2024-24576 and what programs do about it since.
    """
    text = word.replace("%", "%%cd:~,%")
    if not always and word and not set(word) - _PLAIN and not word.endswith("\\"):
        return text
    quoted, backslashes = "", 0
    for char in text:
        if char == '"':
            quoted += "\\" * backslashes + '"'  # each one before a quote counts for two
        backslashes = backslashes + 1 if char == "\\" else 0
        quoted += char
    return f'"{quoted}{"" if always else chr(92) * backslashes}"'


def shell_join(*words: str) -> str:
    """A command, or one word of it, quoted for the shell of this machine.

    On Windows the quotes are those that programs and cmd understand; what no quotes keep from cmd, as `%`,
    stays.
    """
    return " ".join(map(_quoted, words)) if WINDOWS else shlex.join(words)


def _quoted(word: str) -> str:
    line = subprocess.list2cmdline([word])
    if line != word or (word and not set(word) - _PLAIN):
        return line
    # It would reach a program unchanged, but cmd reads an `&` before that.
    return f'"{word}{chr(92) * (len(word) - len(word.rstrip(chr(92))))}"'
