"""What the verbs work with, made from the command line's options and the environment."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cached_property
from typing import TYPE_CHECKING

import click

from rocenv.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rocenv.config import Config
    from rocenv.install.prefix import Prefix
    from rocenv.install.provide import Workshop
    from rocenv.matrix.rows import Matrix
    from rocenv.net import Network
    from rocenv.progress import Progress
    from rocenv.sources import Work


_LONGEST = 200


class World:
    """The home, its settings, the network and the matrix, each made when it is first asked for."""

    def __init__(self, *, offline: bool = False) -> None:
        self._offline = offline

    @cached_property
    def home(self) -> Home:
        """Where rocenv keeps everything."""
        return Home.default()

    @cached_property
    def config(self) -> Config:
        """The user's settings."""
        from rocenv import config

        return config.load(self.home.config_file)

    @cached_property
    def network(self) -> Network:
        """The way out."""
        from rocenv.net import Network

        return Network(mirrors=self.config.mirrors, offline=self._offline)

    @cached_property
    def matrix(self) -> Matrix:
        """Everything that `profiles/` and the user's own rows say."""
        from rocenv.matrix.compiled import compiled

        return compiled(self.home.compiled_matrix, self.home.own_profiles)

    @cached_property
    def progress(self) -> Progress:
        """The one display of this command."""
        from rocenv.progress import Progress

        return Progress()

    def planning(self, *, max_age_s: float | None = None) -> Work:
        """Return what planning works with."""
        from rocenv.sources import FRESH_S, Work

        return Work(
            matrix=self.matrix,
            home=self.home,
            network=self.network,
            tell=note,
            max_age_s=FRESH_S if max_age_s is None else max_age_s,
        )

    def building(self) -> Workshop:
        """Return what building works with."""
        from rocenv.install.provide import Workshop

        return Workshop(home=self.home, network=self.network, progress=self.progress)

    def prefix(self, name: str) -> Prefix:
        """Return the prefix of an env, which need not exist; raise PrefixError for an impossible name."""
        from rocenv.install.prefix import prefix_of

        return prefix_of(self.home, name)


def short_enough(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """Return the value of an option; raise BadParameter where it is longer than any name or range is."""
    if value is not None and len(value) > _LONGEST:
        raise click.BadParameter(f"it is longer than {_LONGEST} characters")
    return value


def harmless(text: str) -> str:
    """Return a text without what a terminal would take for commands: it may repeat words of others."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def note(text: str) -> None:
    """Print a line for people, on stderr."""
    click.echo(harmless(text), err=True)


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
