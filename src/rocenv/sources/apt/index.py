"""A repository's package index: fetched, its signature and hashes checked, and kept.

The order of trust: a pinned or distribution key signs `InRelease`; that names the hash of `Packages`; that
names the hash of each package. Nothing is believed before the link above it held.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.codec import from_plain, to_plain
from rocenv.core.errors import DataError, FetchError
from rocenv.core.foreign import load_json
from rocenv.core.model import Value
from rocenv.core.template import fill
from rocenv.net.errors import shown
from rocenv.sources.apt.control import UNPACKERS, parse_fields
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
from rocenv.sources.apt.signature import fingerprints_in, verified_text
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.data.releases import Repo, RocmSet
    from rocenv.home import Home
    from rocenv.net import Network, Response
    from rocenv.sources.apt.mirrors import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One suite of a repository, with what is needed to trust it."""

    base: str  # may be symbolic, `debian:`; the network knows what it stands for
    suite: str
    components: tuple[str, ...]
    keyrings: tuple[bytes, ...]
    fingerprints: tuple[str, ...]
    remedy: str  # for a missing key
    dateless: tuple[str, ...] = ()  # bases that the machine's apt may use though their index has run out

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"the index of `{self.suite}` in `{self.base}`"


class ListFile(Value, frozen=True, kw_only=True):
    """One `Packages` file: its name below the suite, and what it must be."""

    path: str
    sha256: str
    size_bytes: int


class State(Value, frozen=True, kw_only=True):
    """What is kept of a checked index."""

    base: str  # where it was had, a real address
    etag: str
    checked_s: float  # when the mirror was last asked, seconds since 1970
    files: tuple[ListFile, ...]
    valid_until_s: float = 0  # seconds since 1970; 0 = it never expires
    passed_over: tuple[str, ...] = ()  # why addresses tried before `base` did not serve

    @property
    def has_expired(self) -> bool:
        """Whether it is no longer valid, by its own date."""
        return 0 < self.valid_until_s < time.time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """A repository's checked index on this machine."""

    repo: Repo
    folder: Path
    base: str  # of the packages: the address that holds everywhere, where there is one
    state: State

    @property
    def files(self) -> list[tuple[Path, str]]:
        """Where each list is kept, and its name in the repository."""
        return [(self.folder / file.sha256, file.path) for file in self.state.files]


def open_index(
    repo: Repo, row: RocmSet, home: Home, network: Network, settings: Settings, max_age_s: float
) -> Index:
    """Open the checked index of a repository, as the set of `row` uses it; see `refresh`."""
    mirrors = mirrors_of(repo)
    network = with_mirrors(repo, mirrors, network)
    base = fill(repo.base, {"apt_dir": row.apt_dir})
    suite = repo.suite or (own_release() if base == HOST else row.suite)
    if not suite:
        raise FetchError(
            f"the packages of `{row.channel}` need those of a Debian or Ubuntu release, and "
            "`/etc/os-release` of this machine names none",
            code="no-mirror",
        )
    bases = network.candidates(join(base, "dists/"))
    if not bases:
        raise FetchError(
            f"this machine's apt knows no mirror for `{repo.name}`",
            hints=(f"name one: `rocenv config set mirrors.{base} https://HOST/PATH`",),
            code="no-mirror",
        )
    # With the mirrors in it, so that a change of mirrors takes effect at once.
    identity = hashlib.sha256(f"{bases} {suite} {repo.fingerprints}".encode()).hexdigest()[:12]
    folder = home.indices / f"{repo.name}-{identity}"
    place = Place(
        base=base,
        suite=suite,
        components=repo.components,
        keyrings=(_fetched_key(repo, folder, network),) if repo.key_url else keyrings(repo),
        fingerprints=repo.fingerprints,
        remedy=f"install the keyring: {' or '.join(repo.keyrings)}"
        if repo.keyrings
        else f"fetch the key again: `rocenv cache clear indices`; it comes from {repo.key_url}",
        dateless=tuple(f"{shown(entry.uri)}/" for entry in mirrors if entry.is_dateless),
    )
    state = refresh(place, folder, network, settings, max_age_s=max_age_s)
    return Index(repo=repo, folder=folder, base=state.base if is_symbolic(repo) else base, state=state)


def _fetched_key(repo: Repo, folder: Path, network: Network) -> bytes:
    """Download the key of a repository; only one with a pinned fingerprint is ever kept."""
    kept = folder / "key"
    if kept.exists():
        return kept.read_bytes()
    answer = network.get(repo.key_url, limit_bytes=1 << 20)
    if not fingerprints_in(answer.body) & frozenset(repo.fingerprints):
        raise FetchError(
            f"`{shown(answer.url)}` is not the key of `{repo.name}`, {' or '.join(repo.fingerprints)}",
            hints=("a mirror or proxy may have changed it; or the key is a new one: upgrade rocenv",),
            code="signature",
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(kept, answer.body)
    return answer.body


def refresh(place: Place, folder: Path, network: Network, settings: Settings, *, max_age_s: float) -> State:
    """Ensure that an index is at most `max_age_s` old, asking the mirror if need be.

    Offline, what is kept is taken however old it is. `folder` holds checked files, and is the place's own for
    each set of mirrors.

    Raises:
        FetchError: It cannot be fetched, its signature is invalid, or it has expired.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state_file = folder / "state.json"
    kept = _kept_state(state_file, folder)
    if kept is not None and (network.is_offline or _is_fresh(kept, max_age_s)):
        return kept
    address = join(place.base, f"dists/{place.suite}/InRelease")
    # Mirrors copied from each other have the same ETags: of several, it would be unknown which one answered.
    is_only_one = len(network.candidates(address)) == 1
    answer = network.get(address, etag=kept.etag if kept and is_only_one else "")
    if kept and answer.unchanged:
        # A mirror that is held back answers so for ever.
        _require_valid(place, kept, settings)
        state = structs.replace(kept, checked_s=time.time())
    else:
        state = _new_state(place, folder, network, settings, answer)
    write_atomic(state_file, json.dumps(to_plain(state)).encode())
    wanted = {file.sha256 for file in state.files}
    for path in folder.iterdir():
        if len(path.name) == 64 and path.name not in wanted:
            path.unlink(missing_ok=True)
    return state


def _kept_state(path: Path, folder: Path) -> State | None:
    try:
        state = from_plain(State, load_json(path), str(path))
    except (OSError, DataError):
        return None
    return state if all((folder / file.sha256).exists() for file in state.files) else None


def _is_fresh(kept: State, max_age_s: float) -> bool:
    return not kept.has_expired and 0 <= time.time() - kept.checked_s < max_age_s


def _new_state(place: Place, folder: Path, network: Network, settings: Settings, answer: Response) -> State:
    text = verified_text(
        answer.body, place.keyrings, place.fingerprints, what=place.title, remedy=place.remedy
    )
    fields = parse_fields(text)
    wanted = [f"{component}/binary-{ARCHITECTURE}/Packages" for component in place.components]
    base = answer.url.removesuffix(f"dists/{place.suite}/InRelease")
    state = State(
        base=shown(base),
        etag=answer.etag,
        checked_s=time.time(),
        files=tuple(_listed(place, fields, name) for name in wanted),
        valid_until_s=_valid_until_s(place, fields),
        passed_over=answer.passed_over,
    )
    _require_valid(place, state, settings)
    by_hash = fields.get("acquire-by-hash", "").lower() == "yes"
    for file in state.files:
        _fetch_list(place, base, file, folder, network, by_hash=by_hash)
    return state


def _valid_until_s(place: Place, fields: dict[str, str]) -> float:
    from email.utils import parsedate_to_datetime  # late: most commands read no index anew

    until = fields.get("valid-until", "")
    try:
        return parsedate_to_datetime(until).timestamp() if until else 0
    except ValueError as error:
        raise FetchError(f"{place.title} is valid until `{until}`, no date", code="index-damaged") from error


def _require_valid(place: Place, state: State, settings: Settings) -> None:
    """Raise FetchError where apt would refuse the index because it has expired."""
    if not state.has_expired or not settings.check_valid_until or state.base in place.dateless:
        return
    raise FetchError(
        f"{place.title} from `{shown(state.base)}` expired on {day_of(state.valid_until_s)}: the mirror is "
        "no longer updated, or somebody serves old files",
        hints=(
            "check this machine's clock: `date`",
            f"or use another mirror: `rocenv config set mirrors.{place.base} https://HOST/PATH/`",
        ),
        code="index-expired",
    )


def day_of(seconds: float) -> str:
    """Format the day of a time, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _listed(place: Place, fields: dict[str, str], name: str) -> ListFile:
    """Choose the smallest form of a `Packages` file that `InRelease` lists."""
    offered: dict[str, ListFile] = {}
    for line in fields.get("sha256", "").splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1].isdecimal() and parts[2].startswith(name):
            offered[parts[2]] = ListFile(path=parts[2], sha256=parts[0].lower(), size_bytes=int(parts[1]))
    for suffix in UNPACKERS:
        if name + suffix in offered:
            return offered[name + suffix]
    raise FetchError(f"{place.title} lists no `{name}`", code="index-damaged")


def _fetch_list(
    place: Place, base: str, listed: ListFile, folder: Path, network: Network, *, by_hash: bool
) -> None:
    kept = folder / listed.sha256
    if kept.exists():
        return
    answer = _get_list(join(base, f"dists/{place.suite}/{listed.path}"), listed, network, by_hash=by_hash)
    actual = hashlib.sha256(answer.body).hexdigest()
    if actual != listed.sha256:
        raise FetchError(
            f"`{shown(answer.url)}` is not what {place.title} says: its sha256 is {actual}, "
            f"not {listed.sha256}",
            hints=("the mirror may be in the middle of an update: try again in some minutes",),
            code="hash-mismatch",
        )
    write_atomic(kept, answer.body)


def _get_list(url: str, listed: ListFile, network: Network, *, by_hash: bool) -> Response:
    if by_hash:
        # Under its hash a list stays what it was even while the mirror moves to the next one.
        try:
            return network.get(f"{url.rpartition('/')[0]}/by-hash/SHA256/{listed.sha256}")
        except FetchError as error:
            # Some mirrors leave these out; whatever comes under the plain name must have the same hash.
            if error.code != "gone":
                raise
    return network.get(url)
