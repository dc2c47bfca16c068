"""What every row has: how well it is known, where it was read and when, and what the loader checks of it."""

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from rocenv.core.model import Value

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

# `maker`: stated by who makes the thing. `tested`: run by this project. `reported`: users or third parties
# say so. `inferred`: follows from other facts, read nowhere.
Status = Literal["maker", "tested", "reported", "inferred"]

# How much a status counts for, best first.
STATUS_RANK: dict[Status, int] = {"maker": 0, "tested": 0, "reported": 1, "inferred": 2}

NEWS_DAYS = 120  # `FRESH_DAYS` of tables that every release of ROCm, PyTorch or an app can add to

Platform = Literal["linux", "windows"]

# Fields that hold targets, in every table: "gfx1030", "gfx90a:xnack+".
_TARGETS = ("target", "targets", "compiles", "blas", "official", "ready", "compiled", "members", "runs_as")
_SHORTEST = 3  # bytes of a literal: shorter ones occur in every log


class Known(Value, frozen=True, kw_only=True):
    """A fact with its source; the base of all rows. Subclasses declare what the loader checks."""

    # Two rows that agree in these fields are about the same thing; () = rows may repeat each other.
    IDENTITY: ClassVar[tuple[str, ...]] = ()
    VERSIONS: ClassVar[tuple[str, ...]] = ()  # fields that hold a version or several, as PEP 440 writes them
    RANGES: ClassVar[tuple[str, ...]] = ()  # fields that hold a PEP 440 specifier
    PATTERNS: ClassVar[tuple[str, ...]] = ()  # fields that hold a regular expression
    REFERS: ClassVar[tuple[tuple[str, str], ...]] = ()  # a field, and the table whose rows it names
    NOT_EMPTY: ClassVar[tuple[str, ...]] = ()  # fields that hold at least one entry
    # Days after which somebody should look at the source again; None = what the row says cannot change.
    FRESH_DAYS: ClassVar[int | None] = 365
    provided_by: ClassVar[str] = ""  # the entry of `rocenv.sources.SOURCES` that has the files of such a row

    status: Status
    source: str
    checked: str  # "2026-11-20"

    @property
    def identity(self) -> tuple[Hashable, ...] | None:
        """What the row is about; None if rows of its table may repeat each other."""
        return tuple(getattr(self, name) for name in self.IDENTITY) or None

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what the row says about what. No other row may say something else about the same.

        "" contradicts nothing.
        """
        yield from ()

    def reduced_by(self, claimed: set[tuple[str, ...]]) -> "Known | None":
        """Drop what the user's rows claim; None if nothing is left of this one."""
        return self

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield the mistakes that only this kind of row can have."""
        yield from ()

    def all_faults(self, matrix: "Matrix") -> Iterator[str]:
        """Yield every mistake in the row."""
        for field in self.NOT_EMPTY:
            if not getattr(self, field):
                yield f"`{field}` is empty"
        for field in self.VERSIONS:
            yield from (f"`{field}`: `{text}` is not a version" for text in self._bad_versions(field))
        for field in self.RANGES:
            yield from range_faults(field, getattr(self, field))
        for field in self.PATTERNS:
            yield from pattern_faults(field, getattr(self, field))
        for field, table in self.REFERS:
            for name in _several(getattr(self, field)):
                if name not in matrix.names(table):
                    yield f"`{field}`: there is no {table} `{name}`"
        yield from self._target_faults(matrix)
        yield from self.faults(matrix)

    def _bad_versions(self, field: str) -> Iterator[str]:
        value = getattr(self, field)
        texts = (value,) if field == "version" else _several(value)
        yield from (text for text in texts if not _is_version(text))

    def _target_faults(self, matrix: "Matrix") -> Iterator[str]:
        known = matrix.names("target")
        for field in _TARGETS if known else ():
            for name in _several(getattr(self, field, "")):
                is_any = field == "runs_as" and name == "*"
                if not is_any and name.partition(":")[0] not in known:
                    yield f"`{field}`: there is no target `{name}`"


def _several(value: str | Iterable[str]) -> Iterable[str]:
    if isinstance(value, str):
        return (value,) if value else ()
    return value


def _is_version(text: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def range_faults(field: str, text: str) -> Iterator[str]:
    """Yield a complaint unless a text is a PEP 440 specifier, or empty."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        yield f"`{field}`: `{text}` is not a version range"


def pattern_faults(field: str, text: str) -> Iterator[str]:
    """Yield a complaint unless a text is a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        yield f"`{field}`: `{text}` is not a regular expression: {error}"


def literal_faults(field: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield a complaint about each text that cannot be searched for in lines: too short, or several lines."""
    for text in texts:
        if len(text.encode()) < _SHORTEST or "\n" in text:
            yield f"`{field}`: `{text}` must be part of one line and at least {_SHORTEST} bytes long"
