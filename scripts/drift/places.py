"""The sites that rows refer to. `PLACES` lists the functions that yield the parts of each site."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from drift import pages
from drift.parts import Lacking, Part, is_news, names
from rocenv.context import Context
from rocenv.core.errors import FetchError, NotAvailable
from rocenv.core.logins import shown
from rocenv.core.versions import series
from rocenv.sources.apt import find
from rocenv.sources.apt.mirrors import DEBIAN
from rocenv.sources.apt.signature import fingerprints_in
from rocenv.sources.apt.version import upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from drift.parts import Things
    from rocenv.data.releases import Repo, RocmSet, RocmWheels, TorchSet
    from rocenv.data.rows import Matrix
    from rocenv.data.windows import ZludaBuild
    from rocenv.home import Home
    from rocenv.net import Network

_FOLDER_OF_A_RELEASE = re.compile(r"(.+/)([\w-]+-)(\d[\d.]*)/")  # https://…/rocm/windows/rocm-rel-7.2.1/
_one_at_a_time = threading.Lock()  # because the sets of a suite share its cached index
_WHEEL_HASH = re.compile(r"(\S+\.whl): sha256 ([0-9a-f]{64})")


# ---------------------------------------------------------------- PyTorch


def pytorch(matrix: Matrix, home: Home) -> Iterator[Part]:
    matches = (_WHEEL_HASH.fullmatch(fact.text) for fact in matrix.fact)
    hashes = {match[1]: match[2] for match in matches if match}
    by_index: dict[str, list[TorchSet]] = {}
    for row in matrix.torch:
        if row.channel:
            continue  # belongs to ROCm wheels: see `therock`
        by_index.setdefault(row.index.rstrip("/"), []).append(row)
    for index, rows in by_index.items():
        local = f"rocm{rows[0].rocm}" if rows[0].rocm else f"cu{rows[0].cuda.replace('.', '')}"
        pinned = {name: sha256 for name, sha256 in hashes.items() if f"+{local}-" in name}
        known = names(_torch(row.version, python) for row in rows if row.released for python in row.python)
        look = partial(_read_torch, f"{index}/torch/", rows, local, pinned)
        yield Part(place="pytorch", address=f"{index}/torch/", known={**known, **pinned}, look=look)
    for root in {index.rpartition("/")[0] for index in by_index}:
        # This page lists the wheels from all indexes, including those without a row.
        address = f"{root}/torch/"
        have = {row.rocm for row in matrix.torch if row.released and row.rocm and not row.channel}
        yield Part(place="pytorch", address=address, known={}, look=partial(_find_new_rocm, address, have))


def _torch(version: str, python: str) -> str:
    torch = f"torch {version}" if version else "any torch version"
    return f"{torch} for Python {python}"


def _read_torch(
    address: str, rows: Sequence[TorchSet], local: str, pinned: Things, network: Network
) -> Things:
    """Return the versions, as precise as those in the rows, and the wheels with a known hash."""
    parts = rows[0].version.count(".") + 1
    platform = "linux" if rows[0].rocm else "windows"
    have = [row.version for row in rows if row.released]
    present: dict[str, str] = {}
    for wheel in pages.torch_wheels(network, address):
        version = ".".join(map(str, wheel.version.release[:parts]))
        if wheel.version.local != local or wheel.platform != platform or wheel.version.is_prerelease:
            continue
        if version in have or not have or is_news(version, have):
            present |= names(_torch(version, python) for python in wheel.pythons)
        if wheel.link.name in pinned:
            present[wheel.link.name] = wheel.link.sha256
    return present


def _find_new_rocm(address: str, have: set[str], network: Network) -> Things:
    locals_ = {wheel.version.local or "" for wheel in pages.torch_wheels(network, address)}
    found = {match[1] for local in locals_ if (match := re.fullmatch(r"rocm(\d+(?:\.\d+)+)", local))}
    return names(f"index rocm{version}" for version in found if is_news(version, have))


# ---------------------------------------------------------------- repo.radeon.com


def radeon(matrix: Matrix, home: Home) -> Iterator[Part]:
    for repo in matrix.repos.values():
        if "{apt_dir}" in repo.base:
            yield from _apt_releases(matrix, repo)
        if repo.key_url:
            known = names(repo.fingerprints)
            yield Part(place="radeon", address=repo.key_url, known=known, look=partial(_read_key, repo))
    by_root: dict[tuple[str, str], list[str]] = {}
    for row in matrix.rocm_wheels:
        if match := _FOLDER_OF_A_RELEASE.fullmatch(row.index):
            by_root.setdefault((match[1], match[2]), []).append(match[3])
            yield _wheels("radeon", [row], matrix)
    for (root, prefix), have in by_root.items():
        known = names(f"{prefix}{version}" for version in have)
        look = partial(_read_folders, root, prefix, have)
        yield Part(place="radeon", address=root, known=known, look=look)


def _apt_releases(matrix: Matrix, repo: Repo) -> Iterator[Part]:
    channels = {channel.name for channel in matrix.channels.values() if repo.name in channel.repos}
    rows = [row for row in matrix.rocm if row.channel in channels]
    root = repo.base.partition("{apt_dir}")[0]
    have = sorted({row.apt_dir for row in rows})
    look = partial(_read_folders, root, "", have)
    yield Part(place="radeon", address=root, known=names(have), look=look)
    for folder, suite in sorted({(row.apt_dir, row.suite) for row in rows}):
        address = f"{repo.base.format(apt_dir=folder)}/dists/{suite}/InRelease"
        known = names(["InRelease"])
        yield Part(place="radeon", address=address, known=known, look=partial(_read_release, address))


def _read_folders(root: str, prefix: str, have: Sequence[str], network: Network) -> Things:
    folders = (link.name.rstrip("/") for link in pages.links(network, root))
    found = [name.removeprefix(prefix) for name in folders if name.startswith(prefix)]
    return names(f"{prefix}{version}" for version in found if version in have or is_news(version, have))


def _read_release(address: str, network: Network) -> Things:
    if b"\nSHA256:" not in pages.body_of(network, address):
        raise FetchError(f"`{address}` is not a release file")
    return names(["InRelease"])


def _read_key(repo: Repo, network: Network) -> Things:
    found = fingerprints_in(pages.body_of(network, repo.key_url))
    if not found:
        raise FetchError(f"`{repo.key_url}` is not a key")
    return names(found & set(repo.fingerprints))


# ---------------------------------------------------------------- distributions


def debian(matrix: Matrix, home: Home) -> Iterator[Part]:
    for row in matrix.rocm:
        repos = [matrix.repos[name] for name in matrix.channels[row.channel].repos]
        if repos[0].base != DEBIAN:
            continue
        known = {_rocm(row.version): "", **{name: _examined_version(row, name) for name in row.packages}}
        look = partial(_read_packages, row, matrix, home)
        suites = "+".join(repo.suite for repo in repos)
        yield Part(place="debian", address=f"{DEBIAN}dists/{suites}", known=known, look=look)


def _rocm(version: str) -> str:
    return f"ROCm {version}"


def _examined_version(row: RocmSet, package: str) -> str:
    """Return the package version that the row's source mentions, or ""."""
    match = re.search(rf"(?<!\S){re.escape(package)} (\d\S*[^\s;,])", row.source)
    return match[1] if match else ""


def _read_packages(row: RocmSet, matrix: Matrix, home: Home, network: Network) -> Things:
    try:
        with _one_at_a_time:
            artifacts = find(row, Context(home=home, matrix=matrix, network=network, max_age_s=0)).artifacts
    except NotAvailable as error:
        raise Lacking(f"a complete set: {error}") from error
    found = {artifact.name: artifact.version for artifact in artifacts}
    present = {name: found[name] for name in row.packages if name in found}
    versions = [upstream(version) for version in present.values()]
    is_there = any(f"{version}.".startswith(f"{row.version}.") for version in versions)
    return {_rocm(row.version if is_there else versions[0]): "", **present}


# ---------------------------------------------------------------- TheRock


def therock(matrix: Matrix, home: Home) -> Iterator[Part]:
    by_index: dict[str, list[RocmWheels]] = {}
    for row in matrix.rocm_wheels:
        if not _FOLDER_OF_A_RELEASE.fullmatch(row.index):
            by_index.setdefault(row.index, []).append(row)
    for rows in by_index.values():
        yield _wheels("therock", rows, matrix)
    for index in matrix.index:
        if index.url.startswith("http") and "{" not in index.url and index.url not in by_index:
            look = partial(_read_page, index.url)
            yield Part(place="therock", address=index.url, known=names(["its listing"]), look=look)


def _read_page(address: str, network: Network) -> Things:
    pages.links(network, address)
    return names(["its listing"])


def _wheels(place: str, rows: Sequence[RocmWheels], matrix: Matrix) -> Part:
    known = names(f"rocm {row.version}" for row in rows if not row.floating)
    releases = {(row.version, row.channel) for row in rows}
    torches = [row for row in matrix.torch if (row.rocm, row.channel) in releases and row.released]
    known |= names(_torch(row.version, python) for row in torches for python in row.python)
    if not torches:
        known |= names(_torch("", python) for row in rows for python in row.python)
    look = partial(_read_wheels, rows[0].index, rows, known)
    return Part(place=place, address=rows[0].index, known=known, look=look)


def _read_wheels(address: str, rows: Sequence[RocmWheels], known: Things, network: Network) -> Things:
    """Return known wheels that the page still lists, and newer ROCm releases; wheels may be on subpages."""
    found = pages.links(network, address)
    if not pages.wheels(found):
        base = address.rstrip("/")
        found = [*pages.links(network, f"{base}/torch/"), *pages.links(network, f"{base}/rocm/")]
    present: dict[str, str] = {}
    for wheel in pages.wheels(found):
        if wheel.project == "torch":
            versions = (wheel.version.public, series(wheel.version.public), "")
            present |= names(_torch(version, python) for version in versions for python in wheel.pythons)
    have = [row.version for row in rows if not row.floating]
    matches = (re.fullmatch(r"rocm-(\d[\w.]*)\.tar\.gz", link.name) for link in found)
    released = {match[1] for match in matches if match and have}
    news = names(f"rocm {version}" for version in released if is_news(version, have))
    present |= names(f"rocm {version}" for version in released)
    return {name: value for name, value in present.items() if name in known} | news


# ---------------------------------------------------------------- GitHub: ZLUDA builds and library packs

# Source: https://docs.github.com/en/rest/releases/releases, https://docs.github.com/en/rest/repos/contents
GITHUB_API = "https://api.github.com/repos/"
PER_PAGE = 100
MAX_PAGES = 10
_DOWNLOAD = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:releases/download/(.+)|raw/([^/]+)/(.+))")


def zluda(matrix: Matrix, home: Home) -> Iterator[Part]:
    by_repository: dict[str, list[ZludaBuild]] = {}
    for row in matrix.zluda:
        if row.tag and (match := _DOWNLOAD.match(row.url)):
            by_repository.setdefault(match[1], []).append(row)
    for repository, rows in by_repository.items():
        known = {f"{row.tag}/{asset.name}": asset.sha256 for row in rows for asset in row.assets}
        yield _release_part("zluda", repository, known)


def packs(matrix: Matrix, home: Home) -> Iterator[Part]:
    by_repository: dict[str, dict[str, str]] = {}
    branches: dict[tuple[str, str], dict[str, str]] = {}
    for row in matrix.pack:
        match = _DOWNLOAD.fullmatch(row.url)
        if match and match[3]:
            branches.setdefault((match[1], match[3]), {})[unquote(match[4])] = ""
        elif match:
            by_repository.setdefault(match[1], {})[unquote(match[2])] = row.sha256
        elif row.tag:  # its file names are unknown
            by_repository.setdefault(row.provider, {})[f"{row.tag}/"] = ""
    for repository, known in by_repository.items():
        yield _release_part("packs", repository, known)
    for (repository, branch), known in branches.items():
        address = f"https://github.com/{repository}/tree/{branch}"
        look = partial(_read_files, repository, branch, known)
        yield Part(place="packs", address=address, known=known, look=look)


def _release_part(place: str, repository: str, known: Things) -> Part:
    address = f"https://github.com/{repository}/releases"
    return Part(place=place, address=address, known=known, look=partial(_read_assets, repository, known))


def _read_assets(repository: str, known: Things, network: Network) -> Things:
    """Return the assets from the releases in the rows and from newer ones.

    New archives for Linux are omitted, because rocenv does not use them.
    """
    tags = {name.partition("/")[0] for name in known}
    found = releases(network, repository)
    newest = max((release.published for release in found if release.tag in tags), default="")
    present: dict[str, str] = {}
    for release in found:
        if release.tag not in tags and release.published <= newest:
            continue
        if f"{release.tag}/" in known:
            present[f"{release.tag}/"] = ""
        for asset, sha256 in release.assets.items():
            name = f"{release.tag}/{asset}"
            if name in known or "linux" not in asset:
                present[name] = sha256
    return present


def _read_files(repository: str, branch: str, known: Things, network: Network) -> Things:
    found = files(network, repository, branch)
    return names(name for name in found if name in known or name.endswith((".7z", ".rar", ".zip")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release in a GitHub repository."""

    tag: str
    published: str  # ISO 8601, UTC
    assets: dict[str, str]  # name -> sha256, or "" if GitHub does not publish it


def releases(network: Network, repository: str) -> list[Release]:
    """Fetch all published releases of a repository.

    Raises:
        FetchError: GitHub is unreachable, or the response is not a list of releases.
    """
    found: list[Release] = []
    for page in range(1, MAX_PAGES + 1):
        rows = _json_list(network, f"{GITHUB_API}{repository}/releases?per_page={PER_PAGE}&page={page}")
        found += [_release(row) for row in rows if not row.get("draft")]
        if len(rows) < PER_PAGE:
            break
    return found


def files(network: Network, repository: str, branch: str) -> set[str]:
    """Fetch the file names in the top-level folder of a branch; raise the same errors as `releases`."""
    rows = _json_list(network, f"{GITHUB_API}{repository}/contents/?ref={branch}")
    return {row["name"] for row in rows if row.get("type") == "file"}


def _release(row: dict[str, Any]) -> Release:
    assets = {each["name"]: (each.get("digest") or "").removeprefix("sha256:") for each in row["assets"]}
    return Release(tag=row["tag_name"], published=row.get("published_at") or "", assets=assets)


def _json_list(network: Network, url: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(pages.body_of(network, url))
    except ValueError as error:
        raise FetchError(f"`{shown(url)}` is not JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise FetchError(f"`{shown(url)}` is not a JSON list of objects")
    return found


# ---------------------------------------------------------------- all places

PLACES: Mapping[str, Callable[[Matrix, Home], Iterable[Part]]] = {
    "pytorch": pytorch,
    "radeon": radeon,
    "debian": debian,
    "zluda": zluda,
    "packs": packs,
    "therock": therock,
}
