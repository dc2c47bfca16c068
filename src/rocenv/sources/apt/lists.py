"""The packages that a repository's lists name, found without reading the whole text."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
import zlib
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError
from rocenv.sources.apt.control import Package, parse_clauses, parse_package

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    "": bytes,
}


class Lists:
    """The packages of one repository, by name."""

    def __init__(self, repo: str, files: Iterable[tuple[Path, str]]) -> None:
        """Read them.

        Args:
            repo: How the packages name where they are from.
            files: Where each list is kept, under its sha256, and its name in the repository.

        Raises:
            FetchError: One is not there or is damaged.
        """
        self._repo = repo
        self._texts = [_unpacked(path, name) for path, name in files]
        self._starts: dict[str, list[tuple[int, int]]] = {}
        self._providers: dict[str, list[tuple[int, int]]] | None = None
        for number, text in enumerate(self._texts):
            for match in re.finditer(rb"^Package: *(\S+)", text, re.MULTILINE):
                self._starts.setdefault(match[1].decode("utf-8", "replace"), []).append(
                    (number, match.start())
                )

    def named(self, name: str) -> list[Package]:
        """Return the packages of that name."""
        return self._parse(self._starts.get(name, []))

    def providing(self, name: str) -> list[Package]:
        """Return the packages that say they provide `name`."""
        if self._providers is None:
            self._providers = {}
            for number, text in enumerate(self._texts):
                for match in re.finditer(rb"^Provides: *(.+(?:\n[ \t].+)*)", text, re.MULTILINE):
                    for name_provided in self._names(match[1]):
                        self._providers.setdefault(name_provided, []).append((number, match.start()))
        return self._parse(self._providers.get(name, []))

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
    again = ("run the same command again to fetch it anew",)
    try:
        packed = path.read_bytes()
    except OSError as error:  # another rocenv has just put a newer one in its place
        raise FetchError(f"cannot read the kept index `{path}`", hints=again, code="index-damaged") from error
    if hashlib.sha256(packed).hexdigest() != path.name:
        path.unlink(missing_ok=True)
        raise FetchError(
            f"the kept index `{path}` is damaged; it was removed", hints=again, code="index-damaged"
        )
    suffix = "." + name.rpartition(".")[2] if "." in name.rpartition("/")[2] else ""
    try:
        return UNPACKERS[suffix](packed)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise FetchError(f"the list `{name}` cannot be unpacked: {error}", code="index-damaged") from error
