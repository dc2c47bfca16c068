"""Takes out of a text who and whose it is: names of people and machines, addresses, serial numbers.

What is taken out leaves a word in its place, always the same one, so that a path in one file still is the
path in another.
"""

from __future__ import annotations

import base64
import contextlib
import html
import json
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from rocenv.core.logins import mask_logins
from rocenv.doctor.marks import HOST, OTHER, USER, unmarked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["HOST", "OTHER", "USER", "Nameless", "hides"]

_SERIAL = 8  # from so many digits on, a number can be told from all others
_LOOSE = 5  # from so many letters on, a name is also found within a longer word
# Names that say nothing about who somebody is, and would take away what a machine is told by.
_WORDS = """
root user users other host localhost localdomain workgroup home public default admin administrator guest
nobody system windows linux ubuntu debian fedora arch steamos bazzite amd amdgpu radeon rocm rocenv hip gpu
cuda nvidia intel render video input data media mount share local cache config desktop laptop server
computer build test python torch comfyui blender group error microsoft standard version device driver
"""
_COMMON = frozenset(_WORDS.split())
# What logs and the kernel's files are made of. A person of such a name is hidden only in paths.
_PARTS = """
ring reset pci pcie kfd max min drm bus dma iommu gfx sdma mes hub page fault pool queue bank node heap link
mem memory irq cpu vram gtt ttm fan power clock clk mode core link bar vga smu psp vcn jpeg hang job process
thread pid kernel linux name size width count state type class module
"""
_HARDWARE = frozenset(_PARTS.split())
_OWN_PATHS = "sys|proc|dev|etc|usr|lib|lib64|opt|bin|sbin|run/systemd"  # of the system, the same everywhere
_PATHS = re.compile(
    rf"(?<![\w.\\/-])(?!/(?:{_OWN_PATHS})(?:/|$))(?![A-Za-z]:[\\/]+(?:Windows|Program Files)\b)"
    r"(?:/|[A-Za-z]:[\\/]+|~/)[^\s:;,\"'<>|]+"
)


class Nameless:
    """Takes the names of one machine, and what is nobody's business on any, out of texts."""

    def __init__(self, names: Mapping[str, str], fixed: Iterable[str] = ()) -> None:
        """Make it.

        Args:
            names: What must not be read -> what stands there instead.
            fixed: Words that must stay: of paths below /sys and of the patterns that checks look for; who is
                called by one is hidden only in paths of people.
        """
        own = frozenset(word.casefold() for word in fixed) | _HARDWARE
        vocabulary = own | _COMMON
        self._in_paths = {name.casefold(): names[name] for name in names if name.casefold() in own - _COMMON}
        self._instead: list[str] = []
        patterns = []
        for name in sorted((name for name in names if hides(name, vocabulary)), key=len, reverse=True):
            patterns += [f"({'|'.join(_forms(name, vocabulary))})"]
            self._instead.append(names[name])
        self._names = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None

    def text(self, text: str) -> str:
        """Return a text without names and numbers, and without passwords in addresses."""
        text = mask_logins(text)
        if self._names is not None:
            text = self._names.sub(lambda found: self._instead[(found.lastindex or 1) - 1], text)
        if self._in_paths:
            text = _PATHS.sub(self._path, text)
        return unmarked(text)

    def _path(self, found: re.Match[str]) -> str:
        parts = re.split(r"([\\/]+)", found[0])
        return "".join(self._in_paths.get(part.casefold(), part) for part in parts)


def hides(name: str, vocabulary: frozenset[str] = _COMMON) -> bool:
    """Tell whether a name is one that says who somebody is, and can be told from other words."""
    is_number = name.isdecimal() and len(name) < _SERIAL
    return len(name) > 1 and name.casefold() not in vocabulary and not is_number


def _forms(name: str, vocabulary: frozenset[str]) -> Iterator[str]:
    """Yield patterns of the ways in which a name may be written."""
    written = dict.fromkeys(
        spelled
        for spelling in _spellings(name)
        for spelled in (spelling, *_escaped(spelling))
        if len(re.sub("[\0\ufffd]", "", spelled)) > 1 and spelled.casefold() not in vocabulary
    )
    yield from (_pattern(spelled, vocabulary) for spelled in written)
    if len(name.encode()) > 3:
        yield from dict.fromkeys(map(re.escape, _packed(name.encode())))


def _pattern(spelled: str, vocabulary: frozenset[str]) -> str:
    if not spelled.isascii() and re.fullmatch(r"[^\W_\0\ufffd]+", spelled):
        return re.escape(spelled)  # of a script that puts no spaces between words
    plain = spelled.casefold()
    is_long = len(re.sub("[\0\ufffd]", "", spelled)) >= _LOOSE
    if is_long and not any(plain in word for word in vocabulary):
        return re.escape(spelled)
    return rf"(?<![^\W_]){re.escape(spelled)}(?![^\W_])"


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield from (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    yield from (name.upper(), name.casefold())  # of which some have other letters: ß, SS
    yield from _joined(name.split())


def _joined(words: list[str]) -> Iterator[str]:
    """Yield the names of accounts that are made of a full name: liwei, wei.li, lwei."""
    if len(words) < 2:
        return
    first, last = words[0], words[-1]
    pairs = [(first, last), (last, first), (first[0], last), (last[0], first), (first, last[0])]
    for one, other in pairs:
        for between in ("", ".", "_", "-"):
            if len(one + other) > 3 or not (one + other).isascii():
                yield f"{one}{between}{other}"
    yield "".join(words)


def _escaped(name: str) -> Iterator[str]:
    """Yield a name as it looks in other encodings once they are taken for UTF-8, and as formats quote it."""
    for codec in ("utf-16-le", "utf-16-be", "latin-1", "cp1251", "gbk", "cp949"):
        with contextlib.suppress(UnicodeEncodeError):
            yield name.encode(codec).decode("utf-8", "replace").strip("\0")
    yield from (quote(name), quote_plus(name), html.escape(name), json.dumps(name)[1:-1])
    # /proc/self/mountinfo; json.dumps twice: JSON within JSON
    yield "".join(f"\\{ord(char):03o}" if char in " \t\n\\#" else char for char in name)
    yield json.dumps(json.dumps(name)[1:-1])[1:-1]


def _packed(data: bytes) -> Iterator[str]:
    yield data.hex()
    for shift in range(3):
        # The letters at both ends also depend on what stands around.
        text = base64.b64encode(b"\0" * shift + data).decode().rstrip("=")
        end = -1 if (shift + len(data)) % 3 else None
        yield text[(0, 2, 3)[shift] : end]
