"""Download, verify and cache a repository's package index.

The chain of trust: a pinned key or a distribution key signs `InRelease`, which contains the hash of
`Packages`, which contains the hash of each package. Each link is verified before the next one is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, FetchError
from rocenv.core.foreign import parse_json, read_file
from rocenv.core.logins import shown
from rocenv.core.model import Value
from rocenv.core.template import fill
from rocenv.sources.apt.control import UNPACKERS, parse_fields, seconds_of
from rocenv.sources.apt.mirrors import (
    ARCHITECTURE,
    HOST,
    is_symbolic,
    join,
    keyrings,
    mirrors_of,
    own_release,
    with_mirrors,
)
from rocenv.sources.apt.signature import (
    CLOCK_SKEW_S,
    KEY_BYTES,
    RELEASE_BYTES,
    fingerprints_in,
    verified_text,
)
from rocenv.system.files import write_atomic
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.data.releases import Repo, RocmSet
    from rocenv.home import Home
    from rocenv.net import Network, Response
    from rocenv.sources.apt.mirrors import Settings

# An entry in `InRelease`, whose hash becomes a file name.
_LISTED = re.compile(r"[0-9a-fA-F]{64}\s+[0-9]{1,18}\s+\S+")
_DAY_S = 86400.0
RELEASE = "InRelease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository suite, and the data needed to verify it."""

    base: str  # may be symbolic, such as `debian:`, which the network resolves
    suite: str
    components: tuple[str, ...]
    keyrings: tuple[bytes, ...]
    fingerprints: tuple[str, ...]
    remedy: str  # hint for a missing key
    other_mirror: str  # hint for a bad mirror
    mirrors: tuple[str, ...] = ()  # its current mirrors, as real URLs
    dateless: tuple[str, ...] = ()  # bases whose expired indexes the system's apt accepts
    undated: tuple[str, ...] = ()  # bases whose future-dated indexes the system's apt accepts
    max_age_s: float = 0  # age at which an index expires regardless of its own date; 0 means never

    @property
    def title(self) -> str:
        """The name used in messages."""
        return f"the index of `{self.suite}` in `{self.base}`"


class ListFile(Value, frozen=True, kw_only=True):
    """A `Packages` file: its name relative to the suite, size, and hash."""

    path: str
    sha256: str
    size_bytes: int


class State(Value, frozen=True, kw_only=True):
    """The stored state of a verified index."""

    base: str  # URL that served it
    etag: str
    checked_s: float  # time of the last request to the mirror, in seconds since 1970
    files: tuple[ListFile, ...]
    valid_until_s: float = 0  # seconds since 1970; 0 if it never expires
    passed_over: tuple[str, ...] = ()  # errors from URLs tried before `base`
    date_s: float = 0  # newest creation date accepted so far, in seconds since 1970
    mirrors: tuple[str, ...] = ()  # the suite's mirrors at the last check
    by_hash: bool = False  # whether the mirror also serves each list under its hash
    older: str = ""  # a note if the mirror offered an older index at the last check

    @property
    def has_expired(self) -> bool:
        """Whether the index's own expiry date has passed."""
        return 0 < self.valid_until_s < time.time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The local copy of a repository's verified index."""

    repo: Repo
    folder: Path
    base: str  # base URL of the packages: a permanent URL, if available
    root: str  # the same URL before mirrors are applied, such as `debian:`
    suite: str
    state: State

    @property
    def files(self) -> list[tuple[Path, str]]:
        """The path of each list and its name in the repository."""
        return [(self.folder / file.sha256, file.path) for file in self.state.files]


def open_index(
    repo: Repo, row: RocmSet, home: Home, network: Network, settings: Settings, max_age_s: float
) -> Index:
    """Open a repository's verified index with the suite and base of `row`; see `refresh`."""
    mirrors = mirrors_of(repo)
    network = with_mirrors(repo, mirrors, network)
    base = fill(repo.base, {"apt_dir": row.apt_dir})
    suite = repo.suite or (own_release() if base == HOST else row.suite)
    if not suite:
        raise FetchError(
            f"packages from `{row.channel}` require a Debian or Ubuntu release, but "
            "`/etc/os-release` on this machine does not specify one",
            code="no-mirror",
        )
    bases = network.candidates(join(base, "dists/"))
    if not bases:
        raise FetchError(
            f"apt on this machine is not configured with a mirror for `{repo.name}`",
            hints=(network.mirror_hint(base),),
            code="no-mirror",
        )
    # Do not include the mirrors, because changing them must not make an older index acceptable.
    identity = hashlib.sha256(f"{base} {suite} {repo.fingerprints}".encode()).hexdigest()[:12]
    folder = home.indices / f"{repo.name}-{identity}"
    place = Place(
        base=base,
        suite=suite,
        components=repo.components,
        keyrings=(_fetched_key(repo, folder, network),) if repo.key_url else keyrings(repo),
        fingerprints=repo.fingerprints,
        remedy=f"install the keyring: {' or '.join(repo.keyrings)}"
        if repo.keyrings
        else f"run `rocenv cache clear indices` to download the key from {repo.key_url} again",
        other_mirror=network.mirror_hint(base),
        mirrors=tuple(map(shown, bases)),
        dateless=tuple(f"{shown(entry.uri)}/" for entry in mirrors if entry.is_dateless),
        undated=tuple(f"{shown(entry.uri)}/" for entry in mirrors if entry.is_undated),
        max_age_s=repo.max_age_days * _DAY_S,
    )
    state = refresh(place, folder, network, settings, max_age_s=max_age_s, key_file=home.key)
    served_by = state.base if is_symbolic(repo) else base
    return Index(repo=repo, folder=folder, base=served_by, root=base, suite=suite, state=state)


def _fetched_key(repo: Repo, folder: Path, network: Network) -> bytes:
    """Download a repository's key, and store it if its fingerprint is pinned."""
    kept = folder / "key"
    with contextlib.suppress(OSError):
        return read_file(kept, KEY_BYTES)
    answer = network.get(repo.key_url, limit_bytes=KEY_BYTES)
    if not fingerprints_in(answer.body) & frozenset(repo.fingerprints):
        raise FetchError(
            f"`{shown(answer.url)}` is not the key of `{repo.name}`, {' or '.join(repo.fingerprints)}",
            hints=("a mirror or proxy may have changed it, or its owner has a new key: upgrade rocenv",),
            code="signature",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(kept, answer.body)
    return answer.body


def refresh(
    place: Place, folder: Path, network: Network, settings: Settings, *, max_age_s: float, key_file: Path
) -> State:
    """Ensure that an index is at most `max_age_s` old, contacting the mirror if necessary.

    If rocenv is offline or the mirror offers an older index, the stored index is used regardless of its age.
    `folder` contains only verified files of this suite. The state is sealed with `key_file`.

    Raises:
        FetchError: The index cannot be downloaded, has an invalid signature, belongs to a different suite,
          has expired, or is older than an index that was previously accepted but is no longer stored.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state_file = folder / "state.json"
    last = _last_state(state_file, key_file)
    kept = last if last and all((folder / file.sha256).exists() for file in last.files) else None
    if kept is not None and (network.is_offline or _is_fresh(place, kept, max_age_s)):
        return kept
    if network.is_offline and last is None and state_file.exists():
        raise FetchError(
            f"{place.title} was cached by an older rocenv or in another home, so it is ignored",
            hints=("run the command once without `--offline` and with ROCENV_OFFLINE unset",),
            code="offline",
        )
    address = join(place.base, f"dists/{place.suite}/InRelease")
    # Mirrors with the same contents share ETags, so a 304 would not reveal which of several responded.
    is_known = kept is not None and kept.mirrors == place.mirrors and len(network.candidates(address)) == 1
    answer = network.get(
        address,
        etag=kept.etag if kept and is_known and (folder / RELEASE).exists() else "",
        limit_bytes=RELEASE_BYTES,
    )
    if kept and answer.unchanged:
        # A malicious mirror could always send this response, so the dates are checked below.
        state = structs.replace(kept, checked_s=time.time(), older="")
    else:
        state = _verified(place, answer)
        if last is not None and state.date_s < last.date_s:
            state = _fallback(place, state, last, kept)
    _require_valid(place, state, settings)
    _fetch_lists(place, folder, network, state)
    if not answer.unchanged and not state.older:
        write_atomic(folder / RELEASE, answer.body)  # only bundles and mirrors use it; rocenv reads `state`
    write_sealed(state_file, json.dumps(to_plain(state)).encode(), key_file)
    wanted = {file.sha256 for file in state.files}
    for path in folder.iterdir():
        if len(path.name) == 64 and path.name not in wanted:
            path.unlink(missing_ok=True)
    return state


def _last_state(path: Path, key_file: Path) -> State | None:
    try:
        return from_plain(State, parse_json(read_sealed(path, key_file), str(path)), str(path))
    except (OSError, DataError):
        return None


def _is_fresh(place: Place, kept: State, max_age_s: float) -> bool:
    # Changing the mirrors takes effect immediately.
    is_asked = kept.mirrors == place.mirrors
    return is_asked and not kept.has_expired and 0 <= time.time() - kept.checked_s < max_age_s


def _verified(place: Place, answer: Response) -> State:
    """Verify the signature and suite of an `InRelease`."""
    text = verified_text(
        answer.body, place.keyrings, place.fingerprints, what=place.title, remedy=place.remedy
    )
    fields = parse_fields(text)
    _require_suite(place, fields, answer)
    wanted = [f"{component}/binary-{ARCHITECTURE}/Packages" for component in place.components]
    date_s = _seconds_in(place, fields, "Date")
    limits = [_seconds_in(place, fields, "Valid-Until") if "valid-until" in fields else 0]
    limits.append(date_s + place.max_age_s if place.max_age_s else 0)
    return State(
        base=shown(answer.url.removesuffix(f"dists/{place.suite}/InRelease")),
        etag=answer.etag,
        checked_s=time.time(),
        files=tuple(_listed(place, fields, name) for name in wanted),
        valid_until_s=min(filter(None, limits), default=0),
        passed_over=answer.passed_over,
        date_s=date_s,
        mirrors=place.mirrors,
        by_hash=fields.get("acquire-by-hash", "").lower() == "yes",
    )


def _require_suite(place: Place, fields: dict[str, str], answer: Response) -> None:
    """Raise FetchError unless an index declares the requested suite."""
    names = [fields[name] for name in ("suite", "codename") if fields.get(name)]
    stated = " or ".join(f"`{name}`" for name in names) or "an unnamed suite"
    # `buster/updates` declares `buster`, which apt also allows.
    if not {place.suite, place.suite.partition("/")[0]} & set(names):
        raise FetchError(
            f"`{shown(answer.url)}` is the index for {stated}, not for `{place.suite}`: the mirror is "
            "misconfigured or malicious",
            hints=(place.other_mirror,),
            code="index-suite",
        )


def _seconds_in(place: Place, fields: dict[str, str], name: str) -> float:
    value = fields.get(name.lower(), "")
    try:
        return seconds_of(value)
    except ValueError as error:
        raise FetchError(
            f"{place.title} has no valid `{name}` field", hints=(place.other_mirror,), code="index-damaged"
        ) from error


def _fallback(place: Place, older: State, last: State, kept: State | None) -> State:
    """Return the stored index instead of an older one; raise FetchError if there is none."""
    offered, accepted = (day_of(state.date_s, exact=True) for state in (older, last))
    text = (
        f"`{shown(older.base)}` offers {place.title} from {offered}, which is older than the index from "
        f"{accepted} that rocenv previously accepted"
    )
    if kept is None:
        raise FetchError(
            f"{text}, so the mirror is outdated or malicious",
            hints=(
                "try again later, or use a different mirror",
                place.other_mirror,
                "to accept the older index, run `rocenv cache clear indices`",
            ),
            code="index-older",
        )
    base = kept.base if kept.mirrors == place.mirrors else older.base
    return structs.replace(
        kept,
        base=base,
        checked_s=older.checked_s,
        passed_over=(),
        mirrors=place.mirrors,
        older=f"{text}; rocenv keeps using the newer index",
    )


def _require_valid(place: Place, state: State, settings: Settings) -> None:
    """Raise FetchError if apt would reject the index because of its dates."""
    index = f"{place.title} from `{shown(state.base)}`"
    clock = f"this machine's clock says {day_of(time.time(), exact=True)}"
    hints = (
        "if the clock is wrong, set it: `sudo timedatectl set-ntp true`",
        f"if the clock is correct, the mirror is outdated or malicious: {place.other_mirror}",
    )
    if state.date_s > time.time() + CLOCK_SKEW_S and settings.check_date and state.base not in place.undated:
        raise FetchError(
            f"{index} is dated {day_of(state.date_s, exact=True)}, but {clock}",
            hints=hints,
            code="index-future",
        )
    if state.has_expired and settings.check_valid_until and state.base not in place.dateless:
        raise FetchError(
            f"{index} expired on {day_of(state.valid_until_s, exact=True)}; {clock}",
            hints=hints,
            code="index-expired",
        )


def day_of(seconds: float, *, exact: bool = False) -> str:
    """Format a time as a UTC date; with `exact`, include the time of day."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC" if exact else "%Y-%m-%d", time.gmtime(seconds))


def _listed(place: Place, fields: dict[str, str], name: str) -> ListFile:
    """Select the smallest form of a `Packages` file that `InRelease` lists."""
    offered: dict[str, ListFile] = {}
    for line in fields.get("sha256", "").splitlines():
        parts = line.split()
        if _LISTED.fullmatch(line.strip()) and parts[2].startswith(name):
            offered[parts[2]] = ListFile(path=parts[2], sha256=parts[0].lower(), size_bytes=int(parts[1]))
    for suffix in UNPACKERS:
        if name + suffix in offered:
            return offered[name + suffix]
    raise FetchError(f"{place.title} does not contain `{name}`", code="index-damaged")


def _fetch_lists(place: Place, folder: Path, network: Network, state: State) -> None:
    for listed in state.files:
        kept = folder / listed.sha256
        if kept.exists():
            continue
        url = join(state.base, f"dists/{place.suite}/{listed.path}")
        answer = _get_list(url, listed, network, by_hash=state.by_hash)
        actual = hashlib.sha256(answer.body).hexdigest()
        if actual != listed.sha256:
            size = len(answer.body)
            why = f"its sha256 is {actual}, not {listed.sha256}"
            if size < listed.size_bytes:
                why = f"it is truncated or a different file: {size} of {listed.size_bytes} bytes"
            raise FetchError(
                f"`{shown(answer.url)}` does not match {place.title}: {why}",
                hints=("the mirror may be updating; try again in a few minutes",),
                code="hash-mismatch",
            )
        write_atomic(kept, answer.body)


def _get_list(url: str, listed: ListFile, network: Network, *, by_hash: bool) -> Response:
    if by_hash:
        # A list requested by its hash does not change, even while the mirror is being updated.
        try:
            return network.get(f"{url.rpartition('/')[0]}/by-hash/SHA256/{listed.sha256}", hashed=True)
        except FetchError as error:
            # Some mirrors lack these files; the file with the plain name must have the same hash.
            if error.code != "gone":
                raise
    return network.get(url, hashed=True)
