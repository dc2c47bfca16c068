"""Windows batch files that start an app with a double-click."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MARK = "rem made by rocenv launch --write-shortcut"
_PLAIN = re.compile(r"[A-Za-z0-9_\-./\\:+@]+")


def shortcut_text(command: Sequence[str], folder: str, variables: Mapping[str, str]) -> bytes:
    """Return a batch file that runs a command in a folder, and waits for a key if it fails.

    If a word is not ASCII, the file switches the console to UTF-8 while the command runs.

    Args:
        command: What to run.
        folder: Where to run it.
        variables: Set for this file only.

    Raises:
        RocenvError: A word contains a quotation mark or line break, which a batch file cannot pass to a
            program.
    """
    words = [*command, folder, *variables.values()]
    lines = ["@echo off", MARK, "setlocal disabledelayedexpansion"]
    foreign = any(not word.isascii() for word in words)
    if foreign:
        # "Active code page: 850"; the text before the colon is localised
        lines += ['for /f "tokens=2 delims=:." %%p in (\'chcp\') do set "_CODE_PAGE=%%p"', "chcp 65001 >nul"]
    lines += [f'set "{name}={_inner(value)}"' for name, value in variables.items()]
    lines.append(f'cd /d "{_inner(folder)}"')
    lines.append(" ".join(map(_word, command)))
    lines.append('set "_ENDED=%errorlevel%"')
    if foreign:
        lines.append("chcp %_CODE_PAGE% >nul")
    lines += ['if not "%_ENDED%"=="0" pause', "exit /b %_ENDED%"]
    return "".join(f"{line}\r\n" for line in lines).encode()


def _word(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    # A backslash before the closing quotation mark would escape it.
    # Source: the rules of CommandLineToArgvW
    ending = "\\" * (len(word) - len(word.rstrip("\\")))
    return f'"{_inner(word)}{ending}"'


def _inner(word: str) -> str:
    bad = next((char for char in word if char == '"' or not char.isprintable()), "")
    if bad:
        raise RocenvError(
            f"a batch file cannot pass on the {bad!r} in `{word.encode('unicode_escape').decode()}`",
            hints=("use the app's own settings for such arguments",),
            code="shortcut",
        )
    return word.replace("%", "%%")
