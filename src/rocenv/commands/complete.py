"""`rocenv complete`: print completion candidates for a shell.

`rocenv complete WORD…` receives the words after `rocenv` up to the cursor and completes the last one, which
may be empty. It prints a line `VALUE<TAB>HELP` for each candidate (without the tab if there is no help), or
the single line `:files` or `:folders` if the shell should complete those. A value replaces the whole word.
Bash is different: it also splits words at `=` and `:` and passes these characters as words. There, a value
replaces only the part after the last such character.

The command prints no errors and always exits with 0, because users who press Tab do not expect a message.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import ShellComplete

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from click.shell_completion import CompletionItem

_SEPARATOR = re.compile("[=:]+")
_PATHS = {"file": ":files", "dir": ":folders"}


class _Raw(click.Command):
    """A command without options: all words are arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["words"] = tuple(args)
        return []


@click.command(cls=_Raw, add_help_option=False)
@click.argument("words", nargs=-1)
def command(words: tuple[str, ...]) -> None:
    """Print candidates for the last of the WORDS."""
    lines: list[str] = []
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception, KeyboardInterrupt):
        lines = list(dict.fromkeys(_lines(words)))
    click.echo(os.fsencode("".join(f"{line}\n" for line in lines)), nl=False)


def _lines(words: Sequence[str]) -> Iterator[str]:
    *before, incomplete = _joined(words)
    cut = len(incomplete) - len(words[-1]) if not _SEPARATOR.fullmatch(words[-1]) else len(incomplete)
    found = _candidates(before, incomplete)
    option, equals, _ = incomplete.partition("=")
    front = option + equals if equals and option.startswith("-") else ""
    for item in found:
        if item.type in _PATHS:
            yield _PATHS[item.type]
            return
        value = front + str(item.value)
        if value.isprintable():
            yield "\t".join(filter(None, (value[cut:], _plain(item.help or ""))))


def _joined(words: Sequence[str]) -> list[str]:
    """Join words that bash has split."""
    joined: list[str] = []
    continues = False
    for word in words:
        cut = bool(_SEPARATOR.fullmatch(word))
        if (cut or continues) and joined:
            joined[-1] += word
        else:
            joined.append(word)
        continues = cut
    return joined


def _candidates(before: list[str], incomplete: str) -> list[CompletionItem[str]]:
    verbs = click.get_current_context().find_root().command
    return _Completion(verbs, {}, "rocenv", "").get_completions(before, incomplete)


class _Completion(ShellComplete):
    """Click's completion without the script for a particular shell."""

    name = ""
    source_template = ""


def _plain(text: str) -> str:
    line = text.strip().split("\n")[0]
    return "".join(char if char.isprintable() else " " for char in line)
