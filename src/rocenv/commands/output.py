"""Output and prompts: data and JSON go to stdout, notes and questions to stderr."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from rocenv.core.errors import Declined
from rocenv.core.progress import sanitized
from rocenv.core.wrap import columns_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_LEAST_ROOM = 24  # minimum width of a table's last column
# Lines that suggest a command: hints, and advice from `launch`.
_COMMAND = re.compile(r"(?:hint: |do:  |解决：)(?:rocenv|sudo|chmod|export|setx|python3?) ")


def note(text: str, *, verbatim: bool = False) -> None:
    """Print human-readable text to stderr."""
    print_text(sanitized(text), err=True, verbatim=verbatim)


def silent(_text: str) -> None:
    """Print nothing; used instead of `note` where a note would be redundant."""


def hint(text: str) -> None:
    """Print a hint to stderr."""
    note(f"hint: {text}")


def print_text(text: str, *, err: bool = False, verbatim: bool = False) -> None:
    """Print human-readable text; flush stdout before writing to stderr, to preserve the order.

    On a terminal, long lines are wrapped, except for commands and `verbatim` text, such as tables.
    """
    if err:
        with suppress(OSError):  # `main` reports this
            sys.stdout.flush()
    width = 0 if verbatim else terminal_width(err=err)
    lines = text.split("\n")
    click.echo("\n".join(part for line in lines for part in _fitted(line, width)) if width else text, err=err)


def _fitted(line: str, width: int) -> list[str]:
    """Wrap a line if it is too long, keeping its indentation."""
    indent = line[: len(line) - len(line.lstrip())]
    if columns_of(line) <= width or _COMMAND.match(line):
        return [line]
    return wrapped(line.lstrip(), width, indent, f"{indent}  ")


def terminal_width(*, err: bool = False) -> int:
    """Return the width of the stream's terminal, or 0 if it is not a terminal."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty():
        return 0
    width = shutil.get_terminal_size((0, 0)).columns
    with suppress(OSError, ValueError):
        width = width or os.get_terminal_size(stream.fileno()).columns
    return (width or 80) - 1


def print_json(document: Any) -> None:
    """Print a command's JSON document to stdout."""
    import json

    # Do not flush: `main` does, and does not treat a closed pipe as an error.
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


def fields(source: object, *names: str) -> dict[str, Any]:
    """Copy attributes into a JSON document."""
    return {name: getattr(source, name) for name in names}


def fields_or_none(source: object, *names: str) -> dict[str, Any]:
    """Copy attributes into a JSON document, with null for empty strings."""
    return {name: getattr(source, name) or None for name in names}


def color(text: str, name: str, *, err: bool = False) -> str:
    """Color text if the stream is a terminal and `NO_COLOR` is not set."""
    stream = sys.stderr if err else sys.stdout
    return click.style(text, fg=name) if stream.isatty() and "NO_COLOR" not in os.environ else text


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows in columns. On a terminal, the last column is wrapped to fit."""
    if not rows:
        return ""
    widths = [max(columns_of(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    width = terminal_width()
    indent = sum(widths) + 2 * len(widths)
    then = " " * (indent if indent + _LEAST_ROOM <= width else 4)
    lines: list[str] = []
    for row in rows:
        cells = (cell + " " * (room - columns_of(cell)) for cell, room in zip(row, widths, strict=False))
        start = "".join(f"{cell}  " for cell in cells)
        if width and indent + columns_of(row[-1]) > width:
            lines += wrapped(row[-1], width, start, then)
        else:
            lines.append((start + row[-1]).rstrip())
    return "\n".join(lines)


def can_ask() -> bool:
    """Whether a user at a terminal can answer questions."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()  # None if closed


def require_yes(question: str, *, default: bool = False) -> None:
    """Ask a question; raise Declined if the answer is no."""
    if not confirm(question, default=default):
        raise Declined


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask a yes/no question."""
    return click.confirm(question, default=default, err=True)
