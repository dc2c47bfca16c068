"""Releases and files in GitHub repositories: ZLUDA builds and library packs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from drift.pages import body_of
from drift.parts import Part, names
from rocenv.core.errors import FetchError
from rocenv.core.logins import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drift.parts import Things
    from rocenv.data.releases import ZludaBuild
    from rocenv.data.rows import Matrix
    from rocenv.home import Home
    from rocenv.net import Network

# Source: https://docs.github.com/en/rest/releases/releases, https://docs.github.com/en/rest/repos/contents
GITHUB_API = "https://api.github.com/repos/"
PER_PAGE = 100
MOST_PAGES = 10
_DOWNLOAD = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:releases/download/(.+)|raw/([^/]+)/(.+))")


def zluda(matrix: Matrix, home: Home) -> Iterator[Part]:
    by_repository: dict[str, list[ZludaBuild]] = {}
    for row in matrix.zluda:
        if row.tag and (match := _DOWNLOAD.match(row.url)):
            by_repository.setdefault(match[1], []).append(row)
    for repository, rows in by_repository.items():
        known = {f"{row.tag}/{asset.name}": asset.sha256 for row in rows for asset in row.assets}
        yield _releases("zluda", repository, known)


def packs(matrix: Matrix, home: Home) -> Iterator[Part]:
    by_repository: dict[str, dict[str, str]] = {}
    branches: dict[tuple[str, str], dict[str, str]] = {}
    for row in matrix.pack:
        match = _DOWNLOAD.fullmatch(row.url)
        if match and match[3]:
            branches.setdefault((match[1], match[3]), {})[unquote(match[4])] = ""
        elif match:
            by_repository.setdefault(match[1], {})[unquote(match[2])] = row.sha256
        elif row.tag:  # the names of its files are unknown
            by_repository.setdefault(row.provider, {})[f"{row.tag}/"] = ""
    for repository, known in by_repository.items():
        yield _releases("packs", repository, known)
    for (repository, branch), known in branches.items():
        address = f"https://github.com/{repository}/tree/{branch}"
        look = partial(_read_files, repository, branch, known)
        yield Part(place="packs", address=address, known=known, look=look)


def _releases(place: str, repository: str, known: Things) -> Part:
    address = f"https://github.com/{repository}/releases"
    return Part(place=place, address=address, known=known, look=partial(_read_assets, repository, known))


def _read_assets(repository: str, known: Things, network: Network) -> Things:
    """Return the assets of the releases in the rows, and of newer releases.

    New archives for Linux are left out, because rocenv does not use them.
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
    """One release in a GitHub repository."""

    tag: str
    published: str  # ISO 8601, UTC
    assets: dict[str, str]  # name -> sha256, "" if GitHub has none


def releases(network: Network, repository: str) -> list[Release]:
    """Fetch all published releases of a repository.

    Raises:
        FetchError: GitHub does not answer, or the answer is not a list of releases.
    """
    found: list[Release] = []
    for page in range(1, MOST_PAGES + 1):
        rows = _json_list(network, f"{GITHUB_API}{repository}/releases?per_page={PER_PAGE}&page={page}")
        found += [_release(row) for row in rows if not row.get("draft")]
        if len(rows) < PER_PAGE:
            break
    return found


def files(network: Network, repository: str, branch: str) -> set[str]:
    """Fetch the names of the files in the top folder of a branch; raise FetchError as `releases` does."""
    rows = _json_list(network, f"{GITHUB_API}{repository}/contents/?ref={branch}")
    return {row["name"] for row in rows if row.get("type") == "file"}


def _release(row: dict[str, Any]) -> Release:
    assets = {each["name"]: (each.get("digest") or "").removeprefix("sha256:") for each in row["assets"]}
    return Release(tag=row["tag_name"], published=row.get("published_at") or "", assets=assets)


def _json_list(network: Network, url: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(body_of(network, url))
    except ValueError as error:
        raise FetchError(f"`{shown(url)}` is not JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise FetchError(f"`{shown(url)}` is not a JSON list of objects")
    return found
