"""Parse the stanzas of `Packages` lists and their dependency fields.

Source: deb-control(5), deb822(5), Debian Policy 7
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
import zlib
from dataclasses import dataclass
from datetime import timezone
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_RELATION = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9.+-]*)(?::(?P<arch>[a-z0-9-]+))?"
    r"\s*(?:\(\s*(?P<operator><<|<=|>=|>>|=|<|>)\s*(?P<version>\w[^\s)]*)\s*\))?"
    r"\s*(?:\[(?P<only>[^\]]*)\])?\s*(?:<[^>]*>\s*)*$"
)


@dataclass(frozen=True, slots=True)
class Relation:
    """One alternative in a dependency: a package name, optionally with a version bound."""

    name: str
    operator: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.operator} {self.version})" if self.operator else self.name


Clause = tuple[Relation, ...]  # alternatives, in the packager's order of preference


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package in an index."""

    name: str
    version: str
    depends: tuple[Clause, ...] = ()  # including Pre-Depends
    conflicts: tuple[Relation, ...] = ()  # including Breaks
    provides: tuple[Relation, ...] = ()  # with the operator "=" if they have a version
    filename: str = ""
    sha256: str = ""
    size_bytes: int = 0
    installed_bytes: int = 0
    repo: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def parse_fields(stanza: str) -> dict[str, str]:
    """Parse a stanza: field names in lowercase -> values, with continuation lines joined by newlines."""
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line[:1] in (" ", "\t"):
            if name:
                fields[name] += "\n" + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.lower()
            fields[name] = value.strip()
    return fields


def seconds_of(date: str) -> float:
    """Parse a date from a release file into seconds since 1970; raise ValueError if it is invalid."""
    from email.utils import parsedate_to_datetime  # imported late, because most commands use the cached index

    try:
        parsed = parsedate_to_datetime(date.strip())
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
    except (TypeError, OverflowError) as error:
        raise ValueError(f"`{date}` is not a valid date") from error


def parse_package(stanza: str, repo: str) -> Package:
    """Parse the stanza of a package; raise ValueError if it is damaged."""
    fields = parse_fields(stanza)
    if not fields.get("package") or not fields.get("version"):
        raise ValueError("a package lacks a name or version")
    clauses = parse_clauses(fields.get("pre-depends", "")) + parse_clauses(fields.get("depends", ""))
    against = parse_clauses(fields.get("conflicts", "")) + parse_clauses(fields.get("breaks", ""))
    return Package(
        name=fields["package"],
        version=fields["version"],
        depends=clauses,
        conflicts=tuple(clause[0] for clause in against),
        provides=tuple(clause[0] for clause in parse_clauses(fields.get("provides", ""))),
        filename=fields.get("filename", ""),
        sha256=fields.get("sha256", "").lower(),
        size_bytes=int(fields.get("size") or 0),
        installed_bytes=int(fields.get("installed-size") or 0) * 1024,
        repo=repo,
    )


def parse_clauses(text: str) -> tuple[Clause, ...]:
    """Parse a dependency field, except relations for other architectures; raise ValueError if invalid."""
    parts = (part for part in text.replace("\n", " ").split(",") if part.strip())
    clauses = (tuple(filter(None, map(_relation, part.split("|")))) for part in parts)
    return tuple(clause for clause in clauses if clause)


def _relation(text: str) -> Relation | None:
    match = _RELATION.match(text)
    if match is None:
        raise ValueError(f"`{text.strip()}` is not a valid relation")
    if match["only"] and not _applies(match["only"]):
        return None
    operator = {"<": "<=", ">": ">="}.get(match["operator"] or "", match["operator"] or "")
    # This index does not contain packages for other architectures.
    foreign = match["arch"] not in (None, "any", "native", "all", "amd64")
    name = f"{match['name']}:{match['arch']}" if foreign else match["name"]
    return Relation(name, operator, match["version"] or "")


def _applies(architectures: str) -> bool:
    names = architectures.split()
    if names[0].startswith("!"):
        return "!amd64" not in names and "!linux-any" not in names
    return any(name in ("amd64", "any", "linux-any", "any-amd64") for name in names)


UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    "": bytes,
}


class Lists:
    """A repository's packages by name; of the 60,000 stanzas, only the requested ones are parsed.

    `files` contains, for each list, its path (the file name is its sha256) and its name in the repository.

    Raises:
        FetchError: A list is missing or damaged.
    """

    def __init__(self, repo: str, files: Iterable[tuple[Path, str]]) -> None:
        self._repo = repo
        self._texts = [_unpacked(path, name) for path, name in files]
        self._named = self._places(rb"^Package: *(\S+)", lambda text: [text.decode("utf-8", "replace")])
        self._providers: dict[str, list[tuple[int, int]]] | None = None

    def named(self, name: str) -> list[Package]:
        """List the packages with this name."""
        return self._parse(self._named.get(name, []))

    def providing(self, name: str) -> list[Package]:
        """List the packages that provide `name`."""
        if self._providers is None:
            self._providers = self._places(rb"^Provides: *(.+(?:\n[ \t].+)*)", self._names)
        return self._parse(self._providers.get(name, []))

    def _places(
        self, pattern: bytes, names: Callable[[bytes], list[str]]
    ) -> dict[str, list[tuple[int, int]]]:
        """Map each name in a field to its locations: file numbers and offsets."""
        found: dict[str, list[tuple[int, int]]] = {}
        for number, text in enumerate(self._texts):
            for match in re.finditer(pattern, text, re.MULTILINE):
                for name in names(match[1]):
                    found.setdefault(name, []).append((number, match.start()))
        return found

    def _names(self, provides: bytes) -> list[str]:
        try:
            return [clause[0].name for clause in parse_clauses(provides.decode("utf-8", "replace"))]
        except ValueError as error:
            raise self._damaged(error) from error

    def _damaged(self, error: ValueError) -> FetchError:
        return FetchError(f"the index of `{self._repo}` is damaged: {error}", code="index-damaged")

    def _parse(self, places: list[tuple[int, int]]) -> list[Package]:
        found = []
        for number, position in places:
            text = self._texts[number]
            before = text.rfind(b"\n\n", 0, position)
            start = before + 2 if before >= 0 else 0
            end = text.find(b"\n\n", position)
            stanza = text[start : end if end >= 0 else len(text)].decode("utf-8", "replace").strip()
            try:
                found.append(parse_package(stanza, self._repo))
            except ValueError as error:
                raise self._damaged(error) from error
        return found


def _unpacked(path: Path, name: str) -> bytes:
    again = ("run the command again to download it",)
    try:
        packed = path.read_bytes()
    except OSError as error:  # another rocenv process has just replaced it
        raise FetchError(
            f"cannot read the cached index `{path}`", hints=again, code="index-damaged"
        ) from error
    if hashlib.sha256(packed).hexdigest() != path.name:
        path.unlink(missing_ok=True)
        raise FetchError(
            f"the cached index `{path}` was damaged and has been removed", hints=again, code="index-damaged"
        )
    suffix = "." + name.rpartition(".")[2] if "." in name.rpartition("/")[2] else ""
    try:
        return UNPACKERS[suffix](packed)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise FetchError(f"cannot unpack the list `{name}`: {error}", code="index-damaged") from error
