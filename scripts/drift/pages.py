"""Published pages: folder listings and wheel indexes (PEP 503)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rocenv.core.errors import FetchError
from rocenv.core.logins import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.version import Version

    from rocenv.net import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An entry on an index page: a file or a folder."""

    name: str  # folder names end with /
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel on a page."""

    link: Link
    project: str
    version: Version
    pythons: frozenset[str]  # such as "3.12"; free-threaded builds are ignored
    platform: str  # "linux", "windows" or ""


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def body_of(network: Network, url: str) -> bytes:
    """Fetch the body of a page; raise FetchError if that fails."""
    return network.get(url).body


def links(network: Network, url: str) -> list[Link]:
    """Fetch the links in a listing; raise FetchError if the page has none and so is not a listing."""
    parser = _Anchors()
    parser.feed(body_of(network, url).decode("utf-8", errors="replace"))
    found = []
    for reference in parser.found:
        address, fragment = urldefrag(urljoin(url, reference))
        folder, _, name = urlsplit(address).path.rstrip("/").rpartition("/")
        is_parent = urlsplit(url).path.startswith(f"{folder}/{name}/")
        if name and not is_parent:
            slash = "/" if address.endswith("/") else ""
            found.append(Link(name=unquote(name) + slash, sha256=fragment.partition("sha256=")[2]))
    if not found:
        raise FetchError(f"`{shown(url)}` has no links; your proxy or provider may have replaced the page")
    return found


def wheels(found: Iterable[Link]) -> list[Wheel]:
    """Return the wheels among the links of a page."""
    result = []
    for link in found:
        try:
            project, version, _, tags = parse_wheel_filename(link.name)
        except InvalidWheelFilename:
            continue
        pythons = [
            re.fullmatch(r"cp(\d)(\d+)", tag.interpreter) for tag in tags if tag.abi == tag.interpreter
        ]
        platforms = {tag.platform for tag in tags}
        platform = "linux" if any("linux" in each for each in platforms) else ""
        result.append(
            Wheel(
                link=link,
                project=project,
                version=version,
                pythons=frozenset(f"{match[1]}.{match[2]}" for match in pythons if match),
                platform="windows" if any(each.startswith("win") for each in platforms) else platform,
            )
        )
    return result


def torch_wheels(network: Network, url: str) -> list[Wheel]:
    """Fetch the torch wheels on a page; raise FetchError if there are none."""
    found = [wheel for wheel in wheels(links(network, url)) if wheel.project == "torch"]
    if not found:
        raise FetchError(f"`{shown(url)}` lists no torch wheels")
    return found
