"""Decode each line of a log as UTF-8 or in the Windows code page that the log most likely uses."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Simplified Chinese, Korean, Cyrillic, Western.
CODE_PAGES = ("cp936", "cp949", "cp1251", "cp1252")
# Both code pages use the same bytes; frequent characters distinguish Chinese from Korean.
_COMMON = {
    "cp936": set("的一是不了在有个这中为到无法找指定模块文件错误失败加载完成程序设备显存内时请使用运行"),
    "cp949": set("다을를이지는의에가로한니습없수있파일오류정된모듈불러중했"),
}
_CHARACTER = 4  # bytes of the longest UTF-8 character
_CONTINUED = bytes(range(0x80, 0xC0))  # bytes that never begin a character
_SCRIPTS = {"cp936": "CJK", "cp949": "HANGUL", "cp1251": "CYRILLIC", "cp1252": "LATIN"}


def code_page(lines: Iterable[bytes]) -> str:
    """Guess the code page of the lines that are not UTF-8."""
    foreign = b"\n".join(line for line in lines if not line.isascii() and not _is_utf8(line))
    return max(CODE_PAGES, key=lambda page: (_plausible(foreign, page), -CODE_PAGES.index(page)))


def decoded(lines: bytes, page: str) -> str:
    """Decode lines, each as UTF-8 or else in a code page; invalid bytes become U+FFFD."""
    if lines.isascii():
        return lines.decode("ascii")
    return "\n".join(
        line.decode("utf-8" if _is_utf8(line) else page, errors="replace") for line in lines.split(b"\n")
    )


def _is_utf8(line: bytes) -> bool:
    """Whether a line is UTF-8, apart from a character cut at its beginning or end."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = max(0, len(line) - _CHARACTER)
        if error.start >= cut and error.reason == "unexpected end of data":
            return True
        begun = line.lstrip(_CONTINUED)
        return 0 < len(line) - len(begun) < _CHARACTER and _is_utf8(begun)
    return True


def _plausible(data: bytes, page: str) -> float:
    """Rate a code page by the fraction of non-ASCII characters that its script or language uses."""
    text = data.decode(page, errors="replace")
    beyond = [char for char in text if ord(char) > 127]
    if not beyond:
        return 0.0
    own = sum(unicodedata.name(char, "").startswith(_SCRIPTS[page]) for char in beyond)
    common = sum(char in _COMMON.get(page, ()) for char in beyond)
    return (own + common) / len(beyond)
