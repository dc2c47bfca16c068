"""Lines of a log as text: UTF-8, or the Windows code page that they most likely are in."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of the systems that people with these logs use: simplified Chinese, Korean, Cyrillic, western.
CODE_PAGES = ("cp936", "cp949", "cp1251", "cp1252")
# Both use the same bytes: which characters come up often tells Chinese from Korean.
_COMMON = {
    "cp936": set("的一是不了在有个这中为到无法找指定模块文件错误失败加载完成程序设备显存内时请使用运行"),
    "cp949": set("다을를이지는의에가로한니습없수있파일오류정된모듈불러중했"),
}
_SCRIPTS = {"cp936": "CJK", "cp949": "HANGUL", "cp1251": "CYRILLIC", "cp1252": "LATIN"}


def code_page(lines: Iterable[bytes]) -> str:
    """Return the encoding of lines: `utf-8` where they may be that, else the likeliest code page."""
    data = b"\n".join(line for line in lines if not line.isascii())
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        # A line that was cut in the middle of a character is no reason to doubt the others.
        if error.reason == "unexpected end of data" or _mostly_utf8(data):
            return "utf-8"
        return max(CODE_PAGES, key=lambda page: (_plausible(data, page), -CODE_PAGES.index(page)))
    return "utf-8"


def decoded(line: bytes, encoding: str) -> str:
    """Return a line as text; what cannot be read in it is marked."""
    return line.decode(encoding, errors="replace")


def _mostly_utf8(data: bytes) -> bool:
    text = data.decode("utf-8", errors="replace")
    strange = sum(ord(char) > 127 for char in text)
    return text.count("\ufffd") * 4 < strange


def _plausible(data: bytes, page: str) -> float:
    """Return how much of what is beyond ASCII is of the page's script, and common in its language."""
    text = data.decode(page, errors="replace")
    beyond = [char for char in text if ord(char) > 127]
    if not beyond:
        return 0.0
    own = sum(unicodedata.name(char, "").startswith(_SCRIPTS[page]) for char in beyond)
    common = sum(char in _COMMON.get(page, ()) for char in beyond)
    return (own + common) / len(beyond)
