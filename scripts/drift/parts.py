"""One page of the world outside: what rows say is on it, what is on it now, and how the two differ."""

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

AT_ONCE = 4  # pages of one place that are asked for at the same time

# A thing, in words -> its hash or version; "" = it has none, or none is known.
Things = Mapping[str, str]


class Lacking(Exception):
    """A page is there and lacks something that rows need, other than a thing of `Part.known`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One page, listing or index of a place.

    `look` returns what is there now, without what rows leave out on purpose. It raises FetchError where the
    page cannot be had or is another than it should be, and Lacking.
    """

    place: str
    address: str
    known: Things
    look: Callable[[Network], Things]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between the rows and the world."""

    place: str
    address: str
    kind: Literal["gone", "new", "changed"]
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one part."""

    part: Part
    drifts: tuple[Drift, ...] = ()
    not_reached: str = ""  # why; "" = it was reached


def names(things: Iterable[str]) -> dict[str, str]:
    """Return things without a hash."""
    return dict.fromkeys(things, "")


def survey(
    parts: Sequence[Part], network: Network, timeout_s: float, tell: Callable[[str], None]
) -> list[Outcome]:
    """Return what became of each part, in their order, after `timeout_s` at the latest.

    All places are asked at the same time. A page that has not answered by then is left to its thread, which
    ends with the process.
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
        tell(f"{part.place}: {part.address}")
    late = f"no answer within {timeout_s:g} s"
    return [outcomes.get(number, Outcome(part=part, not_reached=late)) for number, part in enumerate(parts)]


def outcome(part: Part, network: Network) -> Outcome:
    """Return what became of one part; it never raises."""
    try:
        seen = part.look(network)
    except FetchError as error:
        if error.code != "gone":
            return Outcome(part=part, not_reached=error.message)
        # Every address said so, so it is no trouble on the way. Rows of what is yet to come expect nothing.
        return Outcome(part=part, drifts=(drift(part, "gone", "the page"),) if part.known else ())
    except Lacking as error:
        return Outcome(part=part, drifts=(drift(part, "gone", str(error)),))
    except Exception as error:  # others change the form of their pages as they like
        return Outcome(part=part, not_reached=f"it could not be read: {error!r}")
    return Outcome(part=part, drifts=tuple(compare(part, seen)))


def compare(part: Part, seen: Things) -> Iterable[Drift]:
    for what in sorted(part.known.keys() - seen.keys()):
        yield drift(part, "gone", what)
    for what in sorted(seen.keys() - part.known.keys()):
        yield drift(part, "new", what)
    for what in sorted(part.known.keys() & seen.keys()):
        before, now = part.known[what], seen[what]
        if before and now and before != now:
            yield drift(part, "changed", f"{what}: {before} -> {now}")


def drift(part: Part, kind: Literal["gone", "new", "changed"], what: str) -> Drift:
    return Drift(place=part.place, address=part.address, kind=kind, what=what)


def is_news(version: str, known: Iterable[str]) -> bool:
    """Return whether a version that no row has is one that rows should have.

    It is where it is newer than the newest of its series, or of a series that has no row and is newer than
    the oldest that has: what is older was left out on purpose.
    """
    try:
        found, others = Version(version), [Version(each) for each in known]
    except InvalidVersion:
        return False
    if found in others or found.is_devrelease:
        return False
    siblings = [other for other in others if series(str(other)) == series(str(found))]
    return found > (max(siblings) if siblings else min(others, default=found))
