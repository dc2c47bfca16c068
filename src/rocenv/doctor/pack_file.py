"""The file that a pack is: a .zip with a manifest and the texts that were read, each as a file of its own.

Whoever opens one has it from somebody else, so nothing in it is believed: not its sizes, names or numbers.
Nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Literal

from msgspec import field

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, RocenvError
from rocenv.core.foreign import open_regular, parse_json
from rocenv.core.model import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCHEMA = 1
MANIFEST = "manifest.json"
README = "README.txt"
_DAY = (1980, 1, 1, 0, 0, 0)  # the first that a .zip can say: when a pack was made is nobody's business
_MOST_FILE = 48 << 20
_MOST_MEMBERS = 20_000
_MOST_MEMBER = 16 << 20
_MOST_ALL = 64 << 20
MOST_ROWS = 5000  # of each table of the manifest
MOST_NAMES = 20_000  # in all folders together
MOST_EVIDENCE = 50
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MEMBER = re.compile(r"files/(?!(?:.*/)?\.\.?(?:/|$))[^\\:\0-\x1f]{1,1000}")
# What `zipfile` and `json` raise for bytes that are no pack.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    LookupError,
    OverflowError,
)
_HINTS = ("rocenv doctor --collect FILE   # makes a new one, on the machine that is examined",)


class Copy(Value, frozen=True, kw_only=True):
    """A file of the machine, and where its text lies in the pack."""

    path: str
    member: str


class Noted(Value, frozen=True, kw_only=True):
    """What a check saw when the pack was made."""

    check: str
    tells: str
    values: dict[str, str] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    grave: bool = False


class Tried(Value, frozen=True, kw_only=True):
    """What a try ended in that only works on the machine itself."""

    what: str
    about: str
    answer: str  # as JSON


class Manifest(Value, frozen=True, kw_only=True):
    """What is in a pack beside texts; errors by their names, "" = none."""

    schema: int
    rocenv: str
    platform: Literal["linux", "windows"]
    home: str
    variables: dict[str, str] = field(default_factory=dict)
    files: tuple[Copy, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)  # of files and folders that could not be read
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    opened: dict[str, str] = field(default_factory=dict)
    reached: dict[str, str] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)
    tried: tuple[Tried, ...] = ()
    seen: tuple[Noted, ...] = ()


def error_name(number: int) -> str:
    """Return the name of an errno, which is the same on all systems; "" for none."""
    return errno.errorcode.get(number, "EIO") if number else ""


def error_number(name: str) -> int:
    """Return the errno of a name."""
    found = getattr(errno, name, errno.EIO) if name else 0
    return found if isinstance(found, int) else errno.EIO


def members(paths: Iterable[str]) -> dict[str, str]:
    """Return where in a pack the text of each path lies: names that every system can unpack."""
    found: dict[str, str] = {}
    taken = set()
    for path in paths:
        plain = "/".join(_part(part) for part in re.split(r"[/\\]+", path) if part)
        name, number = f"files/{plain or '_'}", 1
        while name.casefold() in taken:
            number += 1
            name = f"files/{plain}~{number}"
        taken.add(name.casefold())
        found[path] = name
    return found


def _part(name: str) -> str:
    plain = re.sub(r'[<>:"|?*\0-\x1f\x7f]', "_", name)[:120].rstrip(". ")
    return plain or "_"


def write(file: Path, manifest: Manifest, texts: Mapping[str, str], readme: str) -> None:
    """Write a pack to a file that must not be there yet; raise OSError where that fails."""
    plain = json.dumps(to_plain(manifest), indent=1, ensure_ascii=False)
    with file.open("xb") as out:
        try:
            with zipfile.ZipFile(out, "w") as pack:
                for name, text in ((README, readme), (MANIFEST, plain), *sorted(texts.items())):
                    info = zipfile.ZipInfo(name, _DAY)
                    info.external_attr = 0o644 << 16
                    info.compress_type = zipfile.ZIP_DEFLATED
                    pack.writestr(info, text.encode("utf-8", "replace"))
        except BaseException:
            file.unlink(missing_ok=True)
            raise


def read(file: Path) -> tuple[Manifest, dict[str, str]]:
    """Return the manifest of a pack and its texts by the paths they are of.

    Raises:
        RocenvError: There is no such file, or it is no pack; says why.
    """
    try:
        with open_regular(file) as stream:
            if os.fstat(stream.fileno()).st_size > _MOST_FILE:
                raise _refused(file, f"it is larger than {_MOST_FILE >> 20} MiB")
            with zipfile.ZipFile(stream) as pack:
                manifest = _manifest(pack, file)
                return manifest, _texts(pack, manifest, file)
    except FileNotFoundError:
        raise RocenvError(f"there is no file `{file}`", hints=_HINTS, code="pack-missing") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RocenvError(f"cannot read `{file}`: {why}", hints=_HINTS, code="pack-unreadable") from error
    except _DAMAGE as error:
        raise _refused(file, f"it is damaged, or no .zip at all ({type(error).__name__})") from error


def _refused(file: Path, why: str) -> RocenvError:
    return RocenvError(
        f"`{file}` is no pack of `rocenv doctor --collect`: {why}", hints=_HINTS, code="pack-invalid"
    )


def _manifest(pack: zipfile.ZipFile, file: Path) -> Manifest:
    names = pack.namelist()
    if len(names) > _MOST_MEMBERS or len(names) != len(set(names)):
        raise _refused(file, "it holds too many files, or one of them twice")
    if MANIFEST not in names:
        raise _refused(file, f"`{MANIFEST}` is not in it")
    try:
        plain = parse_json(_text(pack, MANIFEST, _MOST_MEMBER, file), MANIFEST)
    except DataError as error:
        raise _refused(file, error.message) from error
    schema = plain.get("schema") if isinstance(plain, dict) else None
    if schema != SCHEMA or type(schema) is not int:
        raise _refused(file, f"its schema is {str(schema)[:20]!r}, and this rocenv reads {SCHEMA}")
    _require_few(plain, file)
    try:
        return from_plain(Manifest, plain, MANIFEST)
    except RocenvError as error:
        raise _refused(file, error.message) from error


def _require_few(plain: dict[str, Any], file: Path) -> None:
    """Refuse what would take long to look through."""
    for name, table in plain.items():
        if isinstance(table, (list, dict)) and len(table) > MOST_ROWS:
            raise _refused(file, f"`{name[:20]}` has more than {MOST_ROWS} rows")
    folders, seen = plain.get("folders"), plain.get("seen")
    lists = folders.values() if isinstance(folders, dict) else ()
    if sum(len(names) for names in lists if isinstance(names, list)) > MOST_NAMES:
        raise _refused(file, f"its folders hold more than {MOST_NAMES} names")
    for each in seen if isinstance(seen, list) else ():
        evidence = each.get("evidence") if isinstance(each, dict) else None
        if isinstance(evidence, list) and len(evidence) > MOST_EVIDENCE:
            raise _refused(file, f"a check has seen more than {MOST_EVIDENCE} lines")


def _texts(pack: zipfile.ZipFile, manifest: Manifest, file: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    left = _MOST_ALL
    for each in manifest.files:
        if not _MEMBER.fullmatch(each.member):
            raise _refused(file, f"`{each.member[:100]}` is no name of a file in it")
        text = _text(pack, each.member, min(left, _MOST_MEMBER), file)
        left -= len(text) + 1
        texts[each.path] = text
    return texts


def _text(pack: zipfile.ZipFile, name: str, most: int, file: Path) -> str:
    """Return the text of a member, never reading more than may be, whatever it says its size is."""
    info = pack.getinfo(name)
    if info.compress_type not in _METHODS or info.flag_bits & 1:
        raise _refused(file, f"`{name[:100]}` is encrypted, or packed in an unusual way")
    with pack.open(info) as member:
        data = member.read(max(most, 0) + 1)
    if len(data) > most:
        raise _refused(
            file,
            f"what is in it is larger than {_MOST_ALL >> 20} MiB, or one file of it than "
            f"{_MOST_MEMBER >> 20} MiB",
        )
    return data.decode("utf-8", "replace")
