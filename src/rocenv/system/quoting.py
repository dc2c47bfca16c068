"""Quote commands for users and batch files, and find programs on Windows."""

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
# Source: `ftype`, `assoc` and PATHEXT on a fresh Windows installation
_PATHEXT = ".COM;.EXE;.BAT;.CMD"
# Characters with no special meaning to cmd; words made of these do not need quotes.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\\_")


def find_windows_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Find a command as cmd does with the variables in `environ`, or None if it does not exist.

    For a name without an extension, this tries those in `PATHEXT` in order, in each folder on `PATH`. It does
    not search the current folder, because a file there must not run in place of a program.
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
    """Return a command line that preserves every word in `argv`; the first word is a path.

    Batch files run in cmd, which parses the line first.

    Raises:
        RocenvError: A word for a batch file contains a line break, which cmd cannot quote.
    """
    if not argv[0].lower().endswith(_BATCH):
        return subprocess.list2cmdline(argv)
    if any(char in word for word in argv for char in "\r\n\0"):
        raise RocenvError(f"`{argv[0]}` is a batch file and cannot take an argument with a line break")
    values = {key.upper(): value for key, value in environ.items()}
    interpreter = values.get("COMSPEC") or ntpath.join(
        values.get("SYSTEMROOT") or r"C:\Windows", "System32", "cmd.exe"
    )
    words = " ".join([_for_cmd(argv[0], always=True), *map(_for_cmd, argv[1:])])
    # cmd removes the outermost quotes. Source: cmd /?
    return f'{subprocess.list2cmdline([interpreter])} /e:on /v:off /d /s /c "{words}"'


def _for_cmd(word: str, always: bool = False) -> str:
    """Quote a word for cmd: double the quotes and prevent variable expansion.

    A `%` cannot be quoted on a command line; an empty expansion after it prevents it from starting a variable
    name.
    Source: CVE-2024-24576 and the fixes in other programs.
    """
    text = word.replace("%", "%%cd:~,%")
    if not always and word and not set(word) - _PLAIN and not word.endswith("\\"):
        return text
    quoted, backslashes = "", 0
    for char in text:
        if char == '"':
            quoted += "\\" * backslashes + '"'  # backslashes before a quote must be doubled
        backslashes = backslashes + 1 if char == "\\" else 0
        quoted += char
    return f'"{quoted}{"" if always else chr(92) * backslashes}"'


def shell_join(*words: str) -> str:
    """Quote a command, or one word of it, for this machine's shell.

    On Windows, both programs and cmd understand the quotes; characters that cannot be quoted for cmd, such as
    `%`, are unchanged.
    """
    return " ".join(map(_quoted, words)) if WINDOWS else shlex.join(words)


def _quoted(word: str) -> str:
    line = subprocess.list2cmdline([word])
    if line != word or (word and not set(word) - _PLAIN):
        return line
    # Programs do not need quotes here, but cmd would interpret characters such as `&`.
    return f'"{word}{chr(92) * (len(word) - len(word.rstrip(chr(92))))}"'
