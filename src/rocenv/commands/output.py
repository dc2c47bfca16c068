"""How commands print: lines for people on stderr, data and JSON on stdout."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from rocenv.core.progress import sanitized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


_LONGEST = 200


def short_enough(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the value of an option; raise BadParameter where it is longer than any name or range is."""
    if value is not None and len(value) > _LONGEST:
        raise click.BadParameter(f"it is longer than {_LONGEST} characters")
    return value


def note(text: str) -> None:
    """Print a line for people, on stderr."""
    click.echo(sanitized(text), err=True)


def print_json(document: Any) -> None:
    """Print the one JSON document of a command, on stdout."""
    import json

    click.echo(json.dumps(document, indent=1))


def colour(text: str, name: str, *, err: bool = False) -> str:
    """Return text in a colour, where the stream is a terminal that wants colours."""
    stream = sys.stderr if err else sys.stdout
    return click.style(text, fg=name) if stream.isatty() and "NO_COLOR" not in os.environ else text


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows as aligned columns; the last column is cut to the width of the terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = shutil.get_terminal_size((200, 24)).columns if sys.stdout.isatty() else 0
    lines = []
    for row in rows:
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        lines.append((line[: room - 1] if room else line).rstrip())
    return "\n".join(lines)


json_option: Callable[..., Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
)
