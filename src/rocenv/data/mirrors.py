"""Rows about where downloads come from, and about public mirrors."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from rocenv.data.known import NEWS_DAYS, Known

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix


class Origin(Known, frozen=True, kw_only=True):
    """A download source, with its keys in `[mirrors]`."""

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS
    NOT_EMPTY = ("prefixes",)

    name: str
    title: str
    prefixes: tuple[str, ...]  # keys in `[mirrors]`; another origin's longer key takes precedence
    sample: str = ""  # file to download for a speed test, relative to the first prefix
    usual: str = ""  # the mirror that errors suggest
    note: str = ""

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report `usual` if it is not a mirror of this origin."""
        if self.usual and self.usual not in {row.name for row in mirrors_of(self, matrix)}:
            yield f"`usual`: `{self.name}` has no mirror `{self.usual}`"


class Mirror(Known, frozen=True, kw_only=True):
    """A public copy of an origin; rocenv uses it only if the user configures it."""

    IDENTITY = ("name",)
    FRESH_DAYS = NEWS_DAYS
    REFERS = (("of", "origin"),)

    name: str
    of: str
    address: str
    operator: str
    region: str
    note: str = ""
    also: dict[str, str] = msgspec.field(default_factory=dict)  # additional prefix that it replaces -> URL

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report a URL that is not valid in `[mirrors]`."""
        if not self.address.startswith(("https://", "http://")):
            yield f"`address`: `{self.address}` does not begin with `https://` or `http://`"

    def settings(self, origin: Origin) -> dict[str, str]:
        """Return the mirror's entries in `[mirrors]`: prefix -> URL."""
        return {**dict.fromkeys(origin.prefixes, self.address), **self.also}


def mirrors_of(origin: Origin, matrix: "Matrix") -> list[Mirror]:
    """List an origin's known mirrors."""
    return [row for row in matrix.mirror if row.of == origin.name]


def known_mirrors(matrix: "Matrix") -> Mapping[str, str]:
    """Map each prefix with a known mirror to the URL that errors suggest, or to "" if they suggest none."""
    usual = {origin.usual for origin in matrix.origin}
    known: dict[str, str] = {}
    for origin in matrix.origin:
        for row in mirrors_of(origin, matrix):
            for prefix, address in row.settings(origin).items():
                known[prefix] = address if row.name in usual else known.get(prefix, "")
    return known
