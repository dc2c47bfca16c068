"""Compare pages with what the rows expect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.version import InvalidVersion, Version

from rocenv.core.errors import FetchError
from rocenv.core.versions import series

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocenv.net import Network

AT_ONCE = 4  # pages to fetch from a site at the same time

# What a page lists: name -> hash or version, or "" if there is none or it is unknown.
Things = Mapping[str, str]


class Lacking(Exception):
    """Raised if a page exists but lacks something that rows need and that `Part.known` does not contain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A page, listing, or index on a site.

    `look` returns what the page contains now, except what the rows omit on purpose. It raises Lacking, or
    FetchError if the page cannot be fetched or has an unexpected format.
    """

    place: str
    address: str
    known: Things
    look: Callable[[Network], Things]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A difference between the rows and a page."""

    place: str
    address: str
    kind: Literal["gone", "new", "changed"]
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of checking a part."""

    part: Part
    drifts: tuple[Drift, ...] = ()
    not_reached: str = ""  # why the page is unreachable, or "" if it was reached


def names(things: Iterable[str]) -> dict[str, str]:
    """Build a listing without hashes: each name maps to ""."""
    return dict.fromkeys(things, "")


def survey(
    parts: Sequence[Part], network: Network, timeout_s: float, report: Callable[[str], None]
) -> list[Outcome]:
    """Check all parts within `timeout_s`, and return their results in the same order.

    All sites are checked at the same time. If a site does not respond in time, its threads run until the
    process ends.
    """
    outcomes: dict[int, Outcome] = {}
    turns = {part.place: threading.Semaphore(AT_ONCE) for part in parts}

    def work(number: int, part: Part) -> None:
        with turns[part.place]:
            outcomes[number] = outcome(part, network)

    threads = [threading.Thread(target=work, args=each, daemon=True) for each in enumerate(parts)]
    end = time.monotonic() + timeout_s
    for thread in threads:
        thread.start()
    for thread, part in zip(threads, parts, strict=True):
        thread.join(max(0.0, end - time.monotonic()))
        report(f"{part.place}: {part.address}")
    late = f"no response within {timeout_s:g} s"
    return [outcomes.get(number, Outcome(part=part, not_reached=late)) for number, part in enumerate(parts)]


def outcome(part: Part, network: Network) -> Outcome:
    """Check a part without raising exceptions."""
    try:
        present = part.look(network)
    except FetchError as error:
        if error.code != "gone":
            return Outcome(part=part, not_reached=error.message)
        # The page is missing on every mirror, so this is not a network problem. If the part has nothing in
        # `known`, the rows do not need the page.
        return Outcome(part=part, drifts=(drift(part, "gone", "the page"),) if part.known else ())
    except Lacking as error:
        return Outcome(part=part, drifts=(drift(part, "gone", str(error)),))
    except Exception as error:  # a page can change its format at any time
        return Outcome(part=part, not_reached=f"cannot read it: {error!r}")
    return Outcome(part=part, drifts=tuple(compare(part, present)))


def compare(part: Part, present: Things) -> Iterable[Drift]:
    for what in sorted(part.known.keys() - present.keys()):
        yield drift(part, "gone", what)
    for what in sorted(present.keys() - part.known.keys()):
        yield drift(part, "new", what)
    for what in sorted(part.known.keys() & present.keys()):
        before, now = part.known[what], present[what]
        if before and now and before != now:
            yield drift(part, "changed", f"{what}: {before} -> {now}")


def drift(part: Part, kind: Literal["gone", "new", "changed"], what: str) -> Drift:
    return Drift(place=part.place, address=part.address, kind=kind, what=what)


def is_news(version: str, known: Iterable[str]) -> bool:
    """Whether a version should have a row.

    It should if it is newer than all known versions in its series. In a series without rows, it should if it
    is newer than the oldest known version. Older versions were omitted on purpose.
    """
    try:
        found, others = Version(version), [Version(each) for each in known]
    except InvalidVersion:
        return False
    if found in others or found.is_devrelease:
        return False
    siblings = [other for other in others if series(str(other)) == series(str(found))]
    return found > (max(siblings) if siblings else min(others, default=found))
