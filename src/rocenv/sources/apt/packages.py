"""From a set of the matrix to the exact packages that it consists of today."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.context import FRESH_S
from rocenv.core.codec import from_plain, load_json, to_plain
from rocenv.core.errors import DataError, FetchError, NotAvailable
from rocenv.core.model import Artifact
from rocenv.net.errors import shown
from rocenv.sources.apt import setup
from rocenv.sources.apt.closure import closure, demands_on
from rocenv.sources.apt.control import Relation
from rocenv.sources.apt.index import Place, State, day_of, join, refresh
from rocenv.sources.apt.lists import Lists
from rocenv.sources.apt.signature import fingerprints_in
from rocenv.sources.apt.version import compare, upstream, version_key
from rocenv.system.files import write_atomic
from rocenv.system.machine import glibc_version, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocenv.data.releases import CLibrary, Repo, RocmSet
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.net import Network
    from rocenv.sources.apt.control import Package
    from rocenv.sources.apt.setup import Entry, Settings

DEBIAN = "debian:"
HOST = "host:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A set as its repositories have it now."""

    version: str
    artifacts: tuple[Artifact, ...]
    glibc: str  # the oldest C library it runs with, "2.38"
    own_glibc: bool  # the machine's is older: the set brings its own along
    notes: tuple[str, ...] = ()


def find(row: RocmSet, matrix: Matrix, home: Home, network: Network, *, max_age_s: float = FRESH_S) -> Found:
    """Return the packages that a set of the matrix consists of.

    Args:
        row: The set.
        matrix: Its channels, repositories and rules.
        home: Where indices are kept.
        network: The way out, with the user's mirrors.
        max_age_s: How old an index may be.

    Raises:
        FetchError: An index cannot be had, or cannot be trusted.
        NotAvailable: The index lacks something that the set needs.
    """
    settings = setup.settings()
    network = replace(network, proxy=network.proxy or settings.http_proxy)
    repos = [matrix.repos[name] for name in matrix.channels[row.channel].repos]
    opened = [_open(repo, row, home, network, settings, max_age_s) for repo in repos]
    reason = "rocenv is offline" if network.is_offline else "this machine's apt is set not to check that"
    notes = tuple(
        f"the index of {repo.name} ran out on {day_of(state.valid_until_s)}; it is used because {reason}"
        for repo, (_, state) in zip(repos, opened, strict=True)
        if state.has_expired
    )
    notes += tuple(
        f"the index of {repo.name} is that of {shown(state.base)}: {why}"
        for repo, (_, state) in zip(repos, opened, strict=True)
        for why in state.passed_over
    )
    question = _question(row, matrix, [state for _, state in opened])
    answer = home.indices / "closures" / f"{question}.json"
    try:
        found = from_plain(Found, load_json(answer), str(answer))
    except (OSError, DataError):
        lists = [
            Lists(repo.name, [(folder / file.sha256, file.path) for file in state.files])
            for repo, (folder, state) in zip(repos, opened, strict=True)
        ]
        bases = {
            repo.name: state.base if repo.base in (DEBIAN, HOST) else repo.base.format(apt_dir=row.apt_dir)
            for repo, (_, state) in zip(repos, opened, strict=True)
        }  # the address that holds everywhere, not that of a mirror, where there is one
        found = _resolve(row, matrix, lists, bases)
        answer.parent.mkdir(exist_ok=True)
        write_atomic(answer, json.dumps(to_plain(found)).encode())
    return replace(found, notes=(*found.notes, *notes))


def addresses(repo: Repo, apt_dir: str, network: Network) -> tuple[str, ...]:
    """Return the bases that a repository has on this machine, to rebuild a lock made elsewhere."""
    return _with_mirrors(repo, _mirrors(repo), network).candidates(repo.base.format(apt_dir=apt_dir))


def _open(
    repo: Repo, row: RocmSet, home: Home, network: Network, settings: Settings, max_age_s: float
) -> tuple[Path, State]:
    mirrors = _mirrors(repo)
    network = _with_mirrors(repo, mirrors, network)
    base = repo.base.format(apt_dir=row.apt_dir)
    suite = repo.suite or (_own_release() if base == HOST else row.suite)
    if not suite:
        raise FetchError(
            f"the packages of `{row.channel}` stand on those of a Debian or Ubuntu release, and "
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
    # With the mirrors in it, so that a change of mirrors is heeded at once.
    identity = hashlib.sha256(f"{bases} {suite} {repo.fingerprints}".encode()).hexdigest()[:12]
    folder = home.indices / f"{repo.name}-{identity}"
    place = Place(
        repo=repo.name,
        base=base,
        suite=suite,
        components=repo.components,
        keyrings=(_fetched_key(repo, folder, network),) if repo.key_url else _rings(repo),
        fingerprints=repo.fingerprints,
        remedy=f"install the keyring: {' or '.join(repo.keyrings)}"
        if repo.keyrings
        else f"fetch the key again: `rocenv cache clear indices`; it comes from {repo.key_url}",
        dateless=tuple(f"{entry.uri}/" for entry in mirrors if entry.is_dateless),
    )
    return folder, refresh(place, folder, network, settings, max_age_s=max_age_s)


def _mirrors(repo: Repo) -> tuple[Entry, ...]:
    """Return the entries of the machine's apt that are mirrors of this distribution.

    Other archives use the same suite names. They are told apart by their key: an entry that names one counts
    only if the distribution has it too.
    """
    if repo.base not in (DEBIAN, HOST):
        return ()
    found = setup.mirrors_of(frozenset((_own_release(),))) if repo.base == HOST else ()
    # Who follows `stable` names no release, and the mirror has it all the same.
    found = found or setup.mirrors_of(frozenset(repo.suites_known))
    return tuple(entry for entry in found if _has_key_of(repo, entry))


def _has_key_of(repo: Repo, entry: Entry) -> bool:
    if set(entry.signed_by) & set(repo.keyrings):
        return True
    known = frozenset[str]().union(*map(fingerprints_in, _rings(repo)))
    if not entry.signed_by:
        return bool(known)  # on a machine of another distribution, `stable` is somebody else's
    named = set[str]()
    for word in entry.signed_by:
        if word.startswith("/"):
            named |= fingerprints_in(setup.keyring_bytes(word) or b"")
        else:
            named |= {word.upper().rstrip("!")} | fingerprints_in(word.encode())
    return bool(known & named)


def _with_mirrors(repo: Repo, entries: Sequence[Entry], network: Network) -> Network:
    """Return the network with what apt knows put after what the user set."""
    mirrors = dict(network.mirrors)
    mirrors[repo.base] = tuple(
        dict.fromkeys((*mirrors.get(repo.base, ()), *(entry.uri for entry in entries)))
    )
    return replace(network, mirrors=tuple(mirrors.items()))


def _own_release() -> str:
    for line in (read_text("/etc/os-release") or "").splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip().strip('"')
    return ""


def _rings(repo: Repo) -> tuple[bytes, ...]:
    rings = map(setup.keyring_bytes, repo.keyrings)
    return tuple(ring for ring in rings if ring is not None)


def _fetched_key(repo: Repo, folder: Path, network: Network) -> bytes:
    """Return the key of a repository; only one with a pinned fingerprint is ever kept."""
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


def _question(row: RocmSet, matrix: Matrix, states: Sequence[State]) -> str:
    """Return a name for everything that the answer depends on."""
    said = {
        "form": 2,
        "lists": [[state.base, *(file.sha256 for file in state.files)] for state in states],
        "roots": row.packages,
        "version": [row.version, row.floating, row.version_package],
        "keep_out": matrix.keep_out_patterns,
        "c_library": [library.package for library in matrix.c_library],
        "glibc": [glibc_version(), row.glibc],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _resolve(row: RocmSet, matrix: Matrix, lists: Sequence[Lists], bases: Mapping[str, str]) -> Found:
    roots = tuple((Relation(name),) for name in row.packages)
    patterns = matrix.keep_out_patterns
    c_library = matrix.c_library[0]
    # What a row asks for by its name has a use there: Blender runs Python inside.
    packages = closure(roots, lists, (*patterns, c_library.package), row.packages)
    glibc = _oldest_glibc(row, packages, c_library)
    machine = glibc_version()
    own = machine is None or compare(f"{machine[0]}.{machine[1]}", glibc) < 0
    if own:
        packages = closure((*roots, (Relation(c_library.package),)), lists, patterns, row.packages)
    version = row.version
    if row.floating:
        version = upstream(next(p.version for p in packages if p.name == row.version_package))
    return Found(
        version=version,
        artifacts=tuple(_artifact(package, bases) for package in packages),
        glibc=glibc,
        own_glibc=own,
    )


def _oldest_glibc(row: RocmSet, packages: Sequence[Package], c_library: CLibrary) -> str:
    demands = (*demands_on(packages, c_library.package), row.glibc or "0")
    return upstream(max(demands, key=version_key))


def _artifact(package: Package, bases: Mapping[str, str]) -> Artifact:
    if re.fullmatch("[0-9a-f]{64}", package.sha256) is None or not package.filename:
        raise NotAvailable(f"{package} has no sha256 or no file in the index")
    return Artifact(
        kind="deb",
        name=package.name,
        version=package.version,
        url=join(bases[package.repo], package.filename),
        sha256=package.sha256,
        size_bytes=package.size_bytes,
        installed_bytes=package.installed_bytes,
        repo=package.repo,
        path=package.filename,
    )
