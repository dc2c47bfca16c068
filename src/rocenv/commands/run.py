"""`rocenv run`: run a command in an env without activating it."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

import click

from rocenv.activate.changes import apply
from rocenv.activate.env import changes_for_user
from rocenv.activate.loader import CommandNotExecutable, CommandNotFound, argv_in
from rocenv.commands.options import env_argument
from rocenv.commands.output import note
from rocenv.context import Context
from rocenv.core.versions import series
from rocenv.prefix import prefix_of
from rocenv.presence import lost_files
from rocenv.system.process import replace_process
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.shell_completion import CompletionItem

    from rocenv.core.model import Record
    from rocenv.prefix import Prefix

_TOOL = re.compile(r"(hip|roc|amd)[a-z0-9_+-]+")  # ROCm's tools: hipcc, rocminfo, amdclang++


class _Run(click.Command):
    """A command whose own options end at NAME; everything after it is the command to run."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [] if ctx.params.get("name") else super().shell_complete(ctx, incomplete)


@click.command(cls=_Run, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@env_argument
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- CMD…")
def command(name: str, argv: tuple[str, ...]) -> None:
    """Run CMD with the libraries and settings of the env NAME, and exit with its exit code."""
    if argv[0] == "--":
        argv = argv[1:]
    if not argv:
        from rocenv.commands.activate import example_line

        raise click.UsageError(f"no command to run; for example: `{example_line(name)}`")
    context = Context()
    prefix = prefix_of(context.home, name)
    record = prefix.record()
    _warn_of_lost_files(prefix, record)
    changes = changes_for_user(record.lock, str(prefix.path), os.environ)
    environ = apply(changes, os.environ, record.lock.platform)
    with tool_hints(prefix, record, context):
        command_line = argv_in(prefix, record, argv, environ)
    try:
        replace_process(command_line, environ)
    except OSError as error:
        raise CommandNotExecutable(f"cannot start `{argv[0]}`: {error.strerror}") from error


def _warn_of_lost_files(prefix: Prefix, record: Record) -> None:
    """Warn about missing or changed files if the env lacks any that programs need to start."""
    lost = lost_files(prefix, record)
    if lost:
        what = (
            f"{len(lost)} files of env `{prefix.name}` are missing or changed, such as `{next(iter(lost))}`"
        )
        note(f"warning: {what}; `rocenv repair {shell_join(prefix.name)}` restores them")


@contextlib.contextmanager
def tool_hints(prefix: Prefix, record: Record, context: Context) -> Iterator[None]:
    """Add a hint to the error for a missing ROCm tool: the command that creates an env with that tool."""
    try:
        yield
    except CommandNotFound as error:
        from rocenv.resolve.suggest import env_with_tools

        if _TOOL.fullmatch(error.name):
            command = env_with_tools(record.lock, context.matrix, prefix.free_name())
            hint = f"create an env with ROCm's compilers and tools: `{command}`"
            rocm = record.lock.part("rocm")
            release = series(rocm.version) if rocm is not None else ""
            if f"--rocm {release} " not in f"{command} ":
                hint = (
                    f"no set with ROCm {release} contains ROCm's compilers and tools, but a set with another "
                    f"release does: `{command}`"
                )
            if not command:
                hint = f"rocenv does not know a set for {record.lock.target} that contains `{error.name}`"
            error.hints = (hint, *error.hints)
        raise
