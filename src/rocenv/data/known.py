"""Base class for all rows: a fact's status, source and date, and the loader's checks."""

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from rocenv.core.model import Value

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

# `maker`: stated by the product's vendor. `tested`: verified by this project. `reported`: claimed by
# users or third parties. `inferred`: derived from other facts, not documented anywhere.
Status = Literal["maker", "tested", "reported", "inferred"]

# Most reliable first.
STATUS_RANK: dict[Status, int] = {"maker": 0, "tested": 0, "reported": 1, "inferred": 2}

NEWS_DAYS = 120  # `FRESH_DAYS` for tables that grow with ROCm, PyTorch or app releases

Platform = Literal["linux", "windows"]

# Fields with targets, in any table: "gfx1030", "gfx90a:xnack+".
_TARGETS = ("target", "targets", "compiles", "blas", "official", "ready", "compiled", "members", "runs_as")
_SHORTEST = 3  # bytes; shorter literals occur in every log


class Known(Value, frozen=True, kw_only=True):
    """A fact with its source; subclasses declare what the loader must check."""

    # Rows with the same values in these fields describe the same thing; () allows duplicates.
    IDENTITY: ClassVar[tuple[str, ...]] = ()
    VERSIONS: ClassVar[tuple[str, ...]] = ()  # fields with PEP 440 versions
    RANGES: ClassVar[tuple[str, ...]] = ()  # fields with a PEP 440 specifier
    PATTERNS: ClassVar[tuple[str, ...]] = ()  # fields with a regular expression
    REFERS: ClassVar[tuple[tuple[str, str], ...]] = ()  # (field, table that it refers to)
    NOT_EMPTY: ClassVar[tuple[str, ...]] = ()  # fields that must not be empty
    # Days until the source should be rechecked; None if the fact cannot change.
    FRESH_DAYS: ClassVar[int | None] = 365
    provided_by: ClassVar[str] = ""  # key of `rocenv.sources.SOURCES`, if the row has files to download

    status: Status
    source: str
    checked: str  # "2026-11-20"

    @property
    def identity(self) -> tuple[Hashable, ...] | None:
        """The values of the `IDENTITY` fields, or None if the table allows duplicates."""
        return tuple(getattr(self, name) for name in self.IDENTITY) or None

    def claims(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield (subject, claim) pairs.

        Two rows must not make different claims about a subject; the claim "" does not contradict any other.
        """
        yield from ()

    def reduced_by(self, claimed: set[tuple[str, ...]]) -> "Known | None":
        """Return the row without subjects that user rows already cover, or None if nothing remains."""
        return self

    def faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report mistakes that are specific to this type of row."""
        yield from ()

    def all_faults(self, matrix: "Matrix") -> Iterator[str]:
        """Report all mistakes in the row."""
        for field in self.NOT_EMPTY:
            if not getattr(self, field):
                yield f"`{field}` is empty"
        for field in self.VERSIONS:
            yield from (f"`{field}`: `{text}` is not a valid version" for text in self._bad_versions(field))
        for field in self.RANGES:
            yield from range_faults(field, getattr(self, field))
        for field in self.PATTERNS:
            yield from pattern_faults(field, getattr(self, field))
        for field, table in self.REFERS:
            for name in _as_iterable(getattr(self, field)):
                if name not in matrix.names(table):
                    yield f"`{field}`: no {table} is named `{name}`"
        if not getattr(self, "note", "").isprintable():  # otherwise, a lock with it would be rejected
            yield "`note` contains a line break or another unprintable character"
        yield from self._target_faults(matrix)
        yield from self.faults(matrix)

    def _bad_versions(self, field: str) -> Iterator[str]:
        value = getattr(self, field)
        texts = (value,) if field == "version" else _as_iterable(value)
        yield from (text for text in texts if not _is_version(text))

    def _target_faults(self, matrix: "Matrix") -> Iterator[str]:
        known = matrix.names("target")
        for field in _TARGETS if known else ():
            for name in _as_iterable(getattr(self, field, "")):
                is_any = field == "runs_as" and name == "*"
                if not is_any and name.partition(":")[0] not in known:
                    yield f"`{field}`: unknown target `{name}`"


def _as_iterable(value: str | Iterable[str]) -> Iterable[str]:
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
    """Yield an error unless the text is a PEP 440 specifier or empty."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        yield f"`{field}`: `{text}` is not a valid version range"


def pattern_faults(field: str, text: str) -> Iterator[str]:
    """Yield an error unless the text is a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        yield f"`{field}`: `{text}` is not a valid regular expression: {error}"


def literal_faults(field: str, texts: Iterable[str]) -> Iterator[str]:
    """Yield an error for each string that is too short to search for or spans several lines."""
    for text in texts:
        if len(text.encode()) < _SHORTEST or "\n" in text:
            yield f"`{field}`: `{text}` must be part of one line and at least {_SHORTEST} bytes long"
