"""A repository's package index: fetched, its signature and hashes checked, kept, and searched.

The order of trust: a pinned or distribution key signs `InRelease`; that names the hash of `Packages`; that
names the hash of each package. Nothing is believed before the link above it held.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from rocenv.codec import from_plain, load_json, to_plain
from rocenv.errors import DataError, FetchError
from rocenv.net import NotModified
from rocenv.sources.apt.control import Package, parse_clauses, parse_fields, parse_package
from rocenv.sources.apt.signature import verified_text
from rocenv.system import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocenv.net import Network, Response
    from rocenv.sources.apt.setup import Settings

FRESH_S = 6 * 3600  # as long as this an index is used without asking the mirror again
ARCHITECTURE = "amd64"
_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    "": bytes,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One suite of a repository, with what is needed to trust it."""

    repo: str
    base: str  # may be symbolic, `debian:`; the network knows what it stands for
    suite: str
    components: tuple[str, ...]
    keyrings: tuple[bytes, ...]
    fingerprints: tuple[str, ...]
    remedy: str  # for a missing key

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"the index of `{self.suite}` in `{self.base}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFile:
    """One `Packages` file: its name below the suite, and what it must be."""

    path: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is kept of a checked index."""

    base: str  # where it was had, a real address
    etag: str
    checked_s: float  # when the mirror was last asked, seconds since 1970
    dated: str  # the index's own date
    files: tuple[ListFile, ...]
    expired: str = ""  # the day it ran out, where apt is set not to mind


def refresh(
    place: Place,
    folder: Path,
    network: Network,
    settings: Settings,
    *,
    max_age_s: float,
    arch: str = ARCHITECTURE,
) -> State:
    """Return the state of a repository's index that is at most `max_age_s` old, asking the mirror if need be.

    Args:
        place: Which one.
        folder: Where checked files are kept; its own for each place.
        network: The way out.
        settings: What the machine's owner told apt.
        max_age_s: 0 = ask the mirror now.
        arch: Debian's name of the architecture.

    Raises:
        FetchError: It cannot be had, its signature does not hold, or it has run out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state_file = folder / f"state-{arch}.json"
    kept = _kept_state(state_file, folder)
    if kept is not None and 0 <= time.time() - kept.checked_s < max_age_s:
        return kept
    answer = network.get(
        join(place.base, f"dists/{place.suite}/InRelease"), etag=kept.etag or None if kept else None
    )
    if isinstance(answer, NotModified):
        assert kept is not None
        state = State(
            base=kept.base,
            etag=kept.etag,
            checked_s=time.time(),
            dated=kept.dated,
            files=kept.files,
            expired=kept.expired,
        )
    else:
        state = _new_state(place, folder, network, settings, answer, arch)
    write_atomic(state_file, _json_bytes(state))
    _drop_old_lists(folder, state)
    return state


def join(base: str, path: str) -> str:
    """Return the address of `path` below a base, which may be symbolic."""
    return base + path if base.endswith(":") else f"{base.rstrip('/')}/{path}"


def _json_bytes(state: State) -> bytes:
    import json

    return json.dumps(to_plain(state)).encode()


def _kept_state(path: Path, folder: Path) -> State | None:
    try:
        state = from_plain(State, load_json(path), str(path))
    except (OSError, DataError):
        return None
    return state if all((folder / file.sha256).exists() for file in state.files) else None


def _new_state(
    place: Place, folder: Path, network: Network, settings: Settings, answer: Response, arch: str
) -> State:
    text = verified_text(
        answer.body, place.keyrings, place.fingerprints, what=place.title, remedy=place.remedy
    )
    fields = parse_fields(text)
    expired = _expiry(place, fields, settings)
    base = answer.url.removesuffix(f"dists/{place.suite}/InRelease")
    files = []
    for component in place.components:
        listed = _listed(place, fields, f"{component}/binary-{arch}/Packages")
        by_hash = fields.get("acquire-by-hash", "").lower() == "yes"
        _fetch_list(place, base, listed, folder, network, by_hash=by_hash)
        files.append(listed)
    return State(
        base=base,
        etag=answer.etag,
        checked_s=time.time(),
        dated=fields.get("date", ""),
        files=tuple(files),
        expired=expired,
    )


def _expiry(place: Place, fields: dict[str, str], settings: Settings) -> str:
    """Return the day the index ran out, "" if it has not; raise FetchError where apt would refuse it."""
    until = fields.get("valid-until", "")
    if not until or parsedate_to_datetime(until).timestamp() > time.time():
        return ""
    if settings.check_valid_until:
        raise FetchError(
            f"{place.title} was only valid until {until}: the mirror is no longer updated, or is held back",
            hints=("use another mirror: `rocenv config set mirrors.debian: https://HOST/debian`",),
            code="index-expired",
        )
    return until


def _listed(place: Place, fields: dict[str, str], name: str) -> ListFile:
    """Return the smallest form of a `Packages` file that `InRelease` lists and this Python can unpack."""
    offered: dict[str, ListFile] = {}
    for line in fields.get("sha256", "").splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2].startswith(name):
            offered[parts[2]] = ListFile(path=parts[2], sha256=parts[0].lower(), size_bytes=int(parts[1]))
    for suffix in _UNPACKERS:
        if name + suffix in offered:
            return offered[name + suffix]
    raise FetchError(f"{place.title} lists no `{name}`", code="index-damaged")


def _fetch_list(
    place: Place, base: str, listed: ListFile, folder: Path, network: Network, *, by_hash: bool
) -> None:
    kept = folder / listed.sha256
    if kept.exists():
        return
    folder_path, _, name = listed.path.rpartition("/")
    # Under its hash a list stays what it was even while the mirror moves to the next one.
    path = f"{folder_path}/by-hash/SHA256/{listed.sha256}" if by_hash else f"{folder_path}/{name}"
    answer = network.get(join(base, f"dists/{place.suite}/{path}"))
    assert not isinstance(answer, NotModified)
    actual = hashlib.sha256(answer.body).hexdigest()
    if actual != listed.sha256:
        raise FetchError(
            f"`{answer.url}` is not what {place.title} says: its sha256 is {actual}, not {listed.sha256}",
            hints=("the mirror may be in the middle of an update: try again in some minutes",),
            code="hash-mismatch",
        )
    write_atomic(kept, answer.body)


def _drop_old_lists(folder: Path, state: State) -> None:
    wanted = {file.sha256 for file in state.files}
    for path in folder.iterdir():
        if len(path.name) == 64 and path.name not in wanted:
            path.unlink(missing_ok=True)


class Lists:
    """The packages of one repository, found by name without reading the whole index."""

    def __init__(self, repo: str, folder: Path, state: State) -> None:
        self._repo = repo
        self._texts = [_unpacked(folder / file.sha256, file.path) for file in state.files]
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
                    for clause in parse_clauses(match[1].decode("utf-8", "replace")):
                        self._providers.setdefault(clause[0].name, []).append((number, match.start()))
        return self._parse(self._providers.get(name, []))

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
                raise FetchError(
                    f"the index of `{self._repo}` is damaged: {error}", code="index-damaged"
                ) from error
        return found


def _unpacked(path: Path, name: str) -> bytes:
    suffix = "." + name.rpartition(".")[2] if "." in name.rpartition("/")[2] else ""
    packed = path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != path.name:
        path.unlink()
        raise FetchError(
            f"the kept index `{path}` is damaged; it was removed",
            hints=("run the same command again to fetch it anew",),
            code="index-damaged",
        )
    return _UNPACKERS[suffix](packed)
