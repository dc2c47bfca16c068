"""Commands in messages, which must not contain words that users have to replace."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rocenv

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator

SRC = Path(rocenv.__file__).parent
PROFILES = Path(__file__).parents[1] / "profiles"
WORDS = (
    "ADDRESS|APP|ARGS?|CMD|COMMAND|DIR|ENV|FILE|FOLDER|FREE|GFX|HOST|KEY|LOCK|LOG|MIRROR|MODEL|NAME2?|NEW|OLD|"
    "OPTIONS?|PART|PATH|PORT|PREFIX|PRODUCT|PROGRAM|RELEASE|RUNG|SHELL|SITE_PACKAGES|SIZE|SPEC|TARGET|URL|USER|"
    "VALUE|VER|VERSION|WANTED"
)
PLACEHOLDER = re.compile(rf"(?<![\w$%{{^|.])(?:{WORDS})(?![\w=])")
STARTS_A_COMMAND = re.compile(r"(?:rocenv|sudo|pip|python3?|uv|export|set|setx|--\S+) ")
HELP = {"`rocenv help COMMAND`"}  # the last line of `rocenv --help`, below the list of commands


def commands_in(text: str, *, is_command: bool = False) -> Iterator[str]:
    """Yield the commands in a string: backtick spans of several words, or the whole string."""
    yield from (span for span in re.findall(r"`[^`]*`", text) if " " in span)
    if is_command or STARTS_A_COMMAND.match(text):
        yield text


def placeholders(text: str, *, is_command: bool = False) -> list[str]:
    found = commands_in(text, is_command=is_command)
    return [each for each in found if PLACEHOLDER.search(each) and each not in HELP]


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Yield every string in a module, except docstrings and strings in decorators, which are for `--help`."""
    help_texts = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        for decorator in node.decorator_list
        for inner in ast.walk(decorator)
    }
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, (ast.JoinedStr, ast.Expr))
        for part in values(node)
    }
    for node in ast.walk(tree):
        if id(node) in help_texts or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def values(node: ast.JoinedStr | ast.Expr) -> list[Any]:
    return node.values if isinstance(node, ast.JoinedStr) else [node.value]


def words_for_commands(tree: ast.Module) -> Iterator[str]:
    """Yield the strings that may become a word of a command: arguments, defaults and fallbacks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.search(r"shell_join|_command$|_env$", ast.unparse(node.func)):
            found = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.arguments):
            found = [*node.defaults, *filter(None, node.kw_defaults)]
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            found = node.values
        else:
            continue
        yield from (
            each.value for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


def strings_in(rows: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings in a TOML file with the names of their keys."""
    if isinstance(rows, dict):
        for key, value in rows.items():
            yield from strings_in(value, key)
    elif isinstance(rows, list):
        for value in rows:
            yield from strings_in(value, name)
    elif isinstance(rows, str):
        yield name, rows


def test_messages_contain_no_placeholders() -> None:
    found = [
        f"{path.relative_to(SRC)}: {each}"
        for path in sorted(SRC.rglob("*.py"))
        for tree in [ast.parse(path.read_text(encoding="utf-8"))]
        for each in (
            *(each for text in texts_of(tree) for each in placeholders(text)),
            *filter(PLACEHOLDER.fullmatch, words_for_commands(tree)),
        )
    ]
    assert found == []


def test_data_contains_no_placeholders() -> None:
    found = [
        f"{path.relative_to(PROFILES)}: {each}"
        for path in sorted(PROFILES.rglob("*.toml"))
        for name, text in strings_in(tomllib.loads(path.read_text(encoding="utf-8")))
        for each in placeholders(text, is_command=name == "commands")
    ]
    assert found == []
