"""The layout of findings in English and Chinese, for `diagnose`, `doctor` and `launch`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.output import terminal_width
from rocenv.core.language import LANGUAGES, chosen
from rocenv.core.wrap import columns_of, wrapped
from rocenv.data.remedies import Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rocenv.context import Context
    from rocenv.core.language import Language
    from rocenv.data.remedies import Step

_WIDTH = 100
_INDENT = 3

LANGUAGE_OPTION: Callable[..., Any] = click.option(
    "--lang",
    metavar="LANG",
    type=click.Choice(LANGUAGES),
    default=None,
    help="en or zh. Default: the language of your locale.",
)


def output_language(option: str | None) -> Language:
    """Determine the language, and make sure that the standard streams can encode it.

    By default, a pipe on Windows can encode only the characters of the system language.
    """
    language = chosen(option)
    for stream in (sys.stdout, sys.stderr):
        try:
            ("" if language == "en" else "文").encode(getattr(stream, "encoding", None) or "ascii")
        except UnicodeEncodeError:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)  # type: ignore[union-attr]
    return language


def texts_for(context: Context, lang: str | None = None) -> Texts:
    """The labels and messages in the language from `--lang`, or else from the user's locale."""
    return Texts(context.matrix, "findings", output_language(lang))


def sentences(steps: Iterable[Step], language: Language) -> str:
    """Join the steps' text."""
    return ("" if language == "zh" else " ").join(step.text for step in steps)


def step_lines(steps: Iterable[Step], texts: Texts) -> Iterator[str]:
    """Yield the steps as lines. Commands are never wrapped, so that users can copy them."""
    for place, step in enumerate(steps):
        yield from paragraphs(texts("do") if not place else "", (step.text,))
        yield from (f"            {command}" for command in step.commands)


def heading(text: str) -> Iterator[str]:
    """Yield a finding's first line, wrapped to the terminal."""
    width = terminal_width()
    yield from wrapped(text, width, then=" " * _INDENT) if width else (text,)


def quoted(label: str, text: str) -> Iterator[str]:
    """Yield a log line, wrapped to the terminal."""
    width = terminal_width()
    then = " " * (_INDENT + 7)
    start = " " * _INDENT + label
    yield from wrapped(text, width, start, then) if width else (start + text,)


def paragraphs(heading: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield paragraphs under a heading, wrapped to the terminal."""
    colon = "：" if not heading.isascii() else ":" if heading else ""
    first = " " * _INDENT + heading + colon
    then = " " * max(_INDENT + 7, columns_of(first) + 1)
    first += " " * (len(then) - columns_of(first))
    width = terminal_width() or _WIDTH
    for text in texts:
        yield from wrapped(text, max(40 + len(then), width), first, then)
        first = then
