"""Labels and layout of findings in English and Chinese, for `diagnose`, `doctor` and `launch`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from rocenv.commands.output import terminal_width
from rocenv.core.language import LANGUAGES, chosen
from rocenv.core.wrap import columns_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rocenv.core.language import Language
    from rocenv.data.remedies import Step

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
    "sure": ("confidence {percent} %", "把握 {percent} %"),
    "unsure": ("a guess, confidence {percent} %", "推测，把握 {percent} %"),
    "empty": ("{log} is empty", "{log} 里没有内容"),
    "nothing": (
        "found no known GPU problem in {log} (lines: {lines}); `rocenv doctor` checks this machine",
        "{log} 的 {lines} 行里没有发现已知的 GPU 问题；`rocenv doctor` 可以检查这台机器",
    ),
    "typed": (
        "reading the log from the keyboard; end it with Ctrl-D (on Windows Ctrl-Z, then Enter)",
        "正在从键盘读取日志；按 Ctrl-D 结束（Windows 上按 Ctrl-Z 再回车）",
    ),
    "unreadable": ("skipped {count} unreadable: {path}", "有 {count} 项未读取：{path} 无法打开"),
    "binary": ("skipped {count} without text: {path}", "有 {count} 个文件未读取：{path} 不是文本"),
    "too many": (
        "the folder is too large to read completely; skipped everything from {path} on",
        "文件夹内容太多，没有全部读取：从 {path} 开始的部分未读",
    ),
    "too long": ("read only the first 4 GiB", "只读取了前 4 GiB"),
    "error": ("error", "错误"),
    "warning": ("warning", "警告"),
    "info": ("note", "提示"),
    "hint": ("hint", "建议"),
}

LANGUAGE_OPTION: Callable[..., Any] = click.option(
    "--lang",
    metavar="LANG",
    type=click.Choice(LANGUAGES),
    default=None,
    help="en or zh. Default: the language of your locale.",
)


def output_language(option: str | None) -> Language:
    """Choose the language, and make the standard streams able to encode it.

    On Windows, a pipe can by default encode only the characters of the system's language.
    """
    language = chosen(option)
    for stream in (sys.stdout, sys.stderr):
        try:
            label("why", language).encode(getattr(stream, "encoding", None) or "ascii")
        except UnicodeEncodeError:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)  # type: ignore[union-attr]
    return language


def label(name: str, language: Language) -> str:
    """Look up a label."""
    return LABELS[name][LANGUAGES.index(language)]


def sentences(steps: Iterable[Step], language: Language) -> str:
    """Join the text of steps."""
    return ("" if language == "zh" else " ").join(step.text for step in steps)


def step_lines(steps: Iterable[Step], language: Language) -> Iterator[str]:
    """Yield the lines of steps; commands are never wrapped, so that they can be pasted."""
    for place, step in enumerate(steps):
        yield from paragraphs(label("do", language) if not place else "", (step.text,))
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
