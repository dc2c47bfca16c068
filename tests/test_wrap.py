"""Wrapping text to the terminal's width."""

from __future__ import annotations

import pytest

from rocenv.core.wrap import columns_of, wrapped


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three four", ["- one two", "  three", "  four"]),
        ("run `rocenv list --json` now", ["- run", "  `rocenv list --json`", "  now"]),
        ("see https://example.org/a/b", ["- see", "  https://example.org/a/b"]),
        ("已写入 `C:\\用户\\文件夹`，请查看它", ["- 已写入", "  `C:\\用户\\文件夹`，", "  请查看它"]),
        ("\x1b[31mone two\x1b[0m  [x] y", ["- \x1b[31mone two\x1b[0m", "  [x] y"]),
    ],
)
def test_text_is_wrapped_at_words_with_an_indent(text: str, lines: list[str]) -> None:
    assert wrapped(text, 10, "- ", "  ") == lines


def test_wide_characters_count_as_two_columns_and_escape_sequences_as_none() -> None:
    assert columns_of("a中\x1b[31mb\x1b[0m") == 4
