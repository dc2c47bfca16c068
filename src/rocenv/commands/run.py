"""`rocenv run`: run a command in an env without activating it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from rocenv.activate.changes import apply, expand
from rocenv.activate.loader import CommandNotExecutable, find_program, loader_argv
from rocenv.commands import candidates
from rocenv.context import Context
from rocenv.prefix import library_folders, prefix_of
from rocenv.system.process import replace_process

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _Run(click.Command):
    """A command whose own options end at NAME; everything after it is the command to run."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [] if ctx.params.get("name") else super().shell_complete(ctx, incomplete)


@click.command(cls=_Run, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", shell_complete=candidates.env_names)
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- CMD…")
def command(name: str, argv: tuple[str, ...]) -> None:
    """Run CMD with the libraries and settings of the env NAME, and return its exit code."""
    if argv[0] == "--":
        argv = argv[1:]
    if not argv:
        raise click.UsageError("no command to run: `rocenv run NAME -- CMD…`")
    prefix = prefix_of(Context().home, name)
    record = prefix.record()
    environ = apply(expand(record.lock.environment, str(prefix.path)), os.environ, record.lock.platform)
    if record.loader:
        folders = library_folders(prefix, record.lock)
        command_line = loader_argv(argv, environ, loader=prefix.path / record.loader, library_dirs=folders)
    else:
        command_line = [find_program(argv[0], environ), *argv[1:]]
    try:
        replace_process(command_line, environ)
    except OSError as error:
        raise CommandNotExecutable(f"cannot start `{argv[0]}`: {error.strerror}") from error
