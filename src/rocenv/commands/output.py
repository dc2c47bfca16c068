"""How commands print and ask: data and JSON on stdout; notes for people, and questions, on stderr."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from rocenv.core.progress import sanitized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

_MAX_OPTION_LENGTH = 200

json_option: Callable[..., Any] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout."
)


def short_enough(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Reject option values that are longer than any name or version range."""
    if value is not None and len(value) > _MAX_OPTION_LENGTH:
        raise click.BadParameter(f"it is longer than {_MAX_OPTION_LENGTH} characters")
    return value


def named_target(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Turn the value of `--target`, which may be a product, into a target."""
    if not short_enough(context, parameter, value):
        return value
    from rocenv.context import Context
    from rocenv.host.products import target_meant

    return target_meant(value, Context().matrix)


def note(text: str) -> None:
    """Print a line for people, on stderr."""
    click.echo(sanitized(text), err=True)


def print_json(document: Any) -> None:
    """Print a command's JSON document, on stdout."""
    import json

    # Not flushed: `main` does that, and a closed pipe is not an error there.
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


def colour(text: str, name: str, *, err: bool = False) -> str:
    """Colour a text if the stream is a terminal and the user has not set `NO_COLOR`."""
    stream = sys.stderr if err else sys.stdout
    return click.style(text, fg=name) if stream.isatty() and "NO_COLOR" not in os.environ else text


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align rows in columns; on a terminal the last column is truncated to its width."""
    if not rows:
        return ""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    room = shutil.get_terminal_size((200, 24)).columns if sys.stdout.isatty() else 0
    lines = []
    for row in rows:
        line = "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        lines.append((line[: room - 1] if room else line).rstrip())
    return "\n".join(lines)


def can_ask() -> bool:
    """Whether a user at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require_yes(question: str, *, default: bool = False) -> None:
    """Ask a question, and end the command with exit code 1 if the answer is no."""
    if not confirm(question, default=default):
        nothing_changed()


def nothing_changed() -> NoReturn:
    """End the command after the user answered no."""
    note("Nothing was changed.")
    raise click.exceptions.Exit(1)


def confirm(question: str, *, default: bool = False) -> bool:
    """Ask a question that is answered with yes or no."""
    return click.confirm(question, default=default, err=True)
