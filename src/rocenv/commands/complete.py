"""`rocenv complete`: what a shell's completion asks.

`rocenv complete WORD…` gets the words behind `rocenv` up to the cursor; the last one, which may be empty, is
completed. It prints a line `VALUE<TAB>HELP` for each candidate (without the tab where there is no help), or
the one line `:files` or `:folders` where the shell completes those itself. A value stands for the whole
word. Bash, and no other shell, hands over what lies around a `=` or `:` as words of their own, these signs
too: there a value stands for what follows the last of them.

It never complains, and its exit code is 0: whoever presses a key in the middle of a line wants no message.
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

_CUT = re.compile("[=:]+")
_PATHS = {"file": ":files", "dir": ":folders"}


class _AsTheyAre(click.Command):
    """A command that reads no word as an option of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["words"] = tuple(args)
        return []


@click.command(cls=_AsTheyAre, add_help_option=False)
@click.argument("words", nargs=-1)
def command(words: tuple[str, ...]) -> None:
    """Print what the last of the WORDS may become, as the shell's completion asks."""
    lines: list[str] = []
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Exception, KeyboardInterrupt):
        lines = list(dict.fromkeys(_lines(words)))
    click.echo(os.fsencode("".join(f"{line}\n" for line in lines)), nl=False)


def _lines(words: Sequence[str]) -> Iterator[str]:
    *before, incomplete = _joined(words)
    cut = len(incomplete) - len(words[-1]) if not _CUT.fullmatch(words[-1]) else len(incomplete)
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
    """Return the words as they were typed, where bash has cut them."""
    joined: list[str] = []
    goes_on = False
    for word in words:
        cut = bool(_CUT.fullmatch(word))
        if (cut or goes_on) and joined:
            joined[-1] += word
        else:
            joined.append(word)
        goes_on = cut
    return joined


def _candidates(before: list[str], incomplete: str) -> list[CompletionItem[str]]:
    verbs = click.get_current_context().find_root().command
    return _Completion(verbs, {}, "rocenv", "").get_completions(before, incomplete)


class _Completion(ShellComplete):
    """Click's own, but for no shell of its own."""

    name = ""
    source_template = ""


def _plain(text: str) -> str:
    line = text.strip().split("\n")[0]
    return "".join(char if char.isprintable() else " " for char in line)
