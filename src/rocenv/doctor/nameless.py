"""Takes out of a text who and whose it is: names of people and machines, addresses, serial numbers.

What is taken out leaves a word in its place, always the same one, so that a path in one file still is the
path in another.
"""

from __future__ import annotations

import base64
import contextlib
import html
import ipaddress
import json
import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

USER, OTHER, HOST = "user", "other", "host"
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
_NOWHERE = "0.0.0.0"  # noqa: S104
_EVERYWHERE = ("127.0.0.1", "::1", "::", _NOWHERE)
# Some versions look like addresses: "Linux version 6.6.87.2-microsoft-standard-WSL2".
_VERSION = "".join(rf"(?<!ersion{between})" for between in (" ", "=", ":", ": ", '": "', '":"'))
_ADDRESS = re.compile(
    rf"(?<![\w.:]){_VERSION}(?:[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)"
    r"(?![\w:]|-microsoft)"
)
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
# "SerialNumber: X", "unique_id 123", 'Name="UUID">X', "serial=X"
_NUMBER = (
    r"(\b\w*(?:serial(?:[ _-]?(?:number|num|no))?|uuid|guid|unique_id|hive_id|machine[ _-]?id|asset[ _-]?tag"
    r"|service[ _-]?tag)[\"']?\s*[:=>]?[ \t]*[\"']?)[^\s\"',;<>\[\]{}&\\]+"
)
_GENERAL = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"(\b[a-z][a-z0-9+.-]*://)[^/\s@\"'<>]*@", r"\1"),  # who logs in at an address
        (r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+", "name@example.org"),
        (r"\([\w.+-]+@[\w.-]+\)", "(name@host)"),  # who built a kernel
        (_UUID, "00000000-0000-0000-0000-000000000000"),
        (r"\bS-1-5-21(?:-[0-9]+)+", "S-1-5-21-0"),
        (_NUMBER, r"\g<1>0"),
        (r"\b[0-9a-f]{32,}\b", "0" * 32),
        (r"(?<![0-9a-f:-])(?:[0-9a-f]{2}[:-]){5}(?:(?:[0-9a-f]{2}[:-]){2})?[0-9a-f]{2}(?![0-9a-f:-])", "0:0"),
        (r"(\bOneDrive - )[^\\/\"<>|;\r\n]+", r"\1company"),
        # What Windows appends to the name of a device is made of the machine's own numbers.
        (r"(\b(?:PCI|USB)(?:\\+)[^\s\"\\;]+(?:\\+))[^\s\"\\<;]+", r"\g<1>0"),
    )
)
_HOMES = (
    re.compile(r"((?:/home|/run/media|/media|/Users)/)([^/\s:;,\"'<>|\\]+)"),
    re.compile(r"(\b[A-Z]:[\\/]+Users[\\/]+)([^\\/:;*?\"<>|\r\n]+)", re.IGNORECASE),
)
_SHARED = frozenset({"public", "default", "all users", "default user", USER, OTHER})


class Nameless:
    """Takes the names of one machine, and what is nobody's business on any, out of texts."""

    def __init__(self, names: Mapping[str, str], fixed: Iterable[str] = ()) -> None:
        """Make it.

        Args:
            names: What must not be read -> what stands there instead.
            fixed: Words that must stay: of paths below /sys and the like, which are the same everywhere.
        """
        vocabulary = frozenset(word.casefold() for word in fixed) | _COMMON
        self._instead: list[str] = []
        patterns = []
        for name in sorted((name for name in names if hides(name, vocabulary)), key=len, reverse=True):
            patterns += [f"({'|'.join(_forms(name, vocabulary))})"]
            self._instead.append(names[name])
        self._names = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None

    def text(self, text: str) -> str:
        """Return a text without names and numbers."""
        if self._names is not None:
            text = self._names.sub(lambda found: self._instead[(found.lastindex or 1) - 1], text)
        for pattern, replacement in _GENERAL:
            text = pattern.sub(replacement, text)
        for pattern in _HOMES:
            text = pattern.sub(_home, text)
        return _ADDRESS.sub(_address, text)


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
        if len(re.sub("[\0\ufffd]", "", spelled)) > 1
    )
    yield from (_pattern(spelled, vocabulary) for spelled in written)
    if len(name.encode()) > 3:
        yield from dict.fromkeys(map(re.escape, _packed(name.encode())))


def _pattern(spelled: str, vocabulary: frozenset[str]) -> str:
    plain = spelled.casefold()
    is_long = len(re.sub("[\0\ufffd]", "", spelled)) >= _LOOSE
    if is_long and not any(plain in word for word in vocabulary):
        return re.escape(spelled)
    return rf"(?<![^\W_]){re.escape(spelled)}(?![^\W_])"


def _spellings(name: str) -> Iterator[str]:
    yield name
    yield from (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    yield from (name.upper(), name.casefold())  # of which some have other letters: ß, SS


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


def _home(found: re.Match[str]) -> str:
    name = found[2].casefold().rstrip()
    return found[0] if name in _SHARED else f"{found[1]}{OTHER}"


def _address(found: re.Match[str]) -> str:
    text = found[0].rstrip(".:")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return found[0]
    return found[0] if text in _EVERYWHERE else found[0].replace(text, _NOWHERE)
