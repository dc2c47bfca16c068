"""How findings look, in the languages that rocenv speaks: shared by `diagnose` and `doctor`."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from rocenv.language import LANGUAGES, chosen
from rocenv.wrap import columns_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rocenv.language import Language

_WIDTH = 100
_INDENT = 3

LABELS: Mapping[str, tuple[str, str]] = {
    "why": ("why", "原因"),
    "do": ("do", "解决"),
    "facts": ("known", "已知"),
    "machine": ("here", "本机"),
    "more": ("more", "详情"),
    "line": ("line {where}", "第 {where} 行"),
    "times": ("{count} times", "共 {count} 次"),
    "sure": ("{percent} % sure", "把握 {percent} %"),
    "unsure": ("a guess, {percent} % sure", "推测，把握 {percent} %"),
    "empty": ("nothing to read in {log}", "{log} 里没有内容"),
    "nothing": (
        "no known GPU trouble in the {lines} lines of {log}; `rocenv doctor` checks this machine",
        "{log} 的 {lines} 行里没有发现已知的 GPU 问题；`rocenv doctor` 可以检查这台机器",
    ),
    "error": ("error", "错误"),
    "warning": ("warning", "警告"),
    "info": ("note", "提示"),
}

LANGUAGE_OPTION: Callable[..., Any] = click.option(
    "--lang",
    metavar="LANG",
    type=click.Choice(LANGUAGES),
    default=None,
    help="en or zh; without it, the language of your locale.",
)


def spoken(option: str | None) -> Language:
    """Return the language to tell in, with a standard output that has characters for it.

    What Windows gives a pipe has those of the system's own language only.
    """
    language = chosen(option)
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        LABELS["why"][LANGUAGES.index(language)].encode(encoding)
    except UnicodeEncodeError:
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    return language


def label(name: str, language: Language) -> str:
    """Return a word of the display in a language."""
    return LABELS[name][LANGUAGES.index(language)]


def paragraphs(heading: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield texts below a heading, wrapped to the terminal."""
    first = " " * _INDENT + (f"{heading}:" if heading else "")
    then = " " * max(_INDENT + 7, columns_of(first) + 1)
    first += " " * (len(then) - columns_of(first))
    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() else _WIDTH
    for text in texts:
        yield from wrapped(text, max(40 + len(then), width), first, then)
        first = then
