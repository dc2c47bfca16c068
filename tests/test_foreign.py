"""Untrusted JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json, read_file

_TEXTS = st.text() | st.text('[]{}"\\,:')
_VALUES: Any = st.recursive(
    st.none() | st.integers() | _TEXTS, lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner)
)


@given(st.lists(_VALUES, max_size=200), st.booleans())
def test_brackets_in_json_strings_do_not_count_as_nesting(value: Any, is_ascii: bool) -> None:
    text = json.dumps(["[" * 100, value, "{" * 100], ensure_ascii=is_ascii)
    assert parse_json(text, "x") == json.loads(text)


@pytest.mark.parametrize("around", [("[", "]"), ('{"a": ', "}"), ('["]]]]\\"]", ', "]")])
def test_the_nesting_depth_of_untrusted_json_is_limited(around: tuple[str, str]) -> None:
    opening, closing = around
    assert parse_json(opening * 64 + "0" + closing * 64, "x")
    with pytest.raises(DataError, match="`x` is not valid JSON: it is nested too deeply"):
        parse_json(opening * 65 + "0" + closing * 65, "x")


@pytest.mark.parametrize(
    "text", ["", '"' + '\\"' * 500_000, "[" * 70 + '"' + "\\" * 100_001, b"\xff\xfe[", b"\xff"]
)
def test_invalid_json_is_an_error(text: str | bytes) -> None:
    with pytest.raises(DataError, match="`x` is not valid JSON"):
        parse_json(text, "x")


@pytest.mark.skipif(os.name == "nt", reason="Windows folders cannot contain named pipes")
def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_bytes(b"12345")
    link.symlink_to(file)
    assert read_file(link, 5) == b"12345"
    for path in (pipe, Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            read_file(path)
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_file(file, 4)
