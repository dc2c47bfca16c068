"""Read a Python package index directly, and select files from its pages of links.

uv could resolve packages, but would have to download them to compute hashes that the index does not publish.
An index has a page per project (PEP 503), or one page with all files. Pages are cached for offline use.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin

from msgspec.structs import replace

from rocenv.core.errors import DataError, FetchError, NotAvailable
from rocenv.core.logins import shown
from rocenv.core.model import Artifact
from rocenv.core.versions import version_of
from rocenv.net.errors import own_mirror_hint
from rocenv.sources.encryption import require_encrypted
from rocenv.system.seal import read_sealed, write_sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from rocenv.net import Network

_PAGE_BYTES = 16 << 20
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class File:
    """A file in an index."""

    project: str  # normalized, "rocm-sdk-core"
    version: str
    name: str
    url: str  # URL on the index itself, even if a mirror served the page
    sha256: str  # "" if the index does not publish it

    @property
    def is_wheel(self) -> bool:
        """Whether the file is a wheel rather than an sdist."""
        return self.name.endswith(".whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleIndex:
    """A package index; each page is read at most once.

    Attributes:
        url: The index's URL, with `/` at the end.
        network: Tries mirrors of the index first.
        kept: The folder for cached pages.
        key_file: Seals cached pages, because offline they are the only source of hashes.
        flat: Whether all files are on one page.
        hashes: File name -> sha256, for files whose hash the index does not publish.
        archives: Projects for which an sdist is acceptable if there is no wheel.
        rank: Rates a wheel by its file name: lower is better, None means incompatible.
        pages: Pages read so far: URL -> text, and the base URL of its links.
    """

    url: str
    network: Network
    kept: Path
    key_file: Path
    rank: Callable[[str], int | None]
    flat: bool = False
    hashes: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    pages: dict[str, tuple[str, str]] = field(default_factory=dict)
    _reading: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def versions(self, project: str) -> set[str]:
        """List the versions with a file for the interpreter; raises the same errors as `newest`."""
        return {file.version for file in self._files(project) if self._fit(file) is not None}

    def newest(self, project: str, allowed: Callable[[str], bool]) -> Artifact:
        """Select the newest allowed version of a project, and its most suitable file.

        Raises:
            NotAvailable: The index has no suitable file.
            FetchError: The index is unreachable, or its hash for the file differs from the known one.
        """
        found = [file for file in self._files(project) if allowed(file.version)]
        ranked = [
            (version_of(file.version), -fit, file) for file in found if (fit := self._fit(file)) is not None
        ]
        if not ranked:
            what = "`{}` file for this Python and platform" if found else "compatible version of `{}`"
            raise NotAvailable(f"{shown(self.url)} has no {what.format(project)}")
        file = max(ranked, key=lambda each: each[:2])[2]
        return Artifact(
            kind="wheel" if file.is_wheel else "sdist",
            name=file.project,
            version=file.version,
            url=file.url,
            sha256=self._sha256(file),
            size_bytes=0,
        )

    def _fit(self, file: File) -> int | None:
        if file.is_wheel:
            return self.rank(file.name)
        return 1 << 30 if file.project in self.archives else None  # after all wheels

    def _sha256(self, file: File) -> str:
        known = self.hashes.get(file.name, "")
        if known and file.sha256 and known != file.sha256:
            raise FetchError(
                f"{shown(self.url)} lists the sha256 {file.sha256} for `{file.name}`, "
                f"but rocenv expects {known}",
                hints=("the file was replaced, possibly maliciously: try again later, or ask its publisher",),
                code="hash-mismatch",
            )
        return file.sha256 or known

    def _files(self, project: str) -> Iterator[File]:
        """Yield a project's wheels and sdists in page order."""
        url = self.url if self.flat else f"{self.url}{project}/"
        try:
            text, base = self._page(url)
        except FetchError as error:
            if error.code not in ("gone", "forbidden"):
                raise
            raise NotAvailable(f"{shown(self.url)} has no project `{project}`: {error.message}") from error
        files = [file for link in _links(text) if (file := self._file(base, link)) is not None]
        if not files:
            raise NotAvailable(
                f"the page {shown(url)} has no links to `{project}` files",
                hints=("open that URL in a browser: a proxy or your ISP may show its own page instead",),
            )
        yield from (file for file in files if file.project == project)

    def _file(self, base: str, link: str) -> File | None:
        """Describe a link's target, or return None if it is neither a wheel nor an sdist."""
        from packaging.utils import parse_sdist_filename, parse_wheel_filename

        try:
            address, fragment = urldefrag(urljoin(base, link))
            name = unquote(address.rpartition("/")[2])
            parse = parse_wheel_filename if name.endswith(".whl") else parse_sdist_filename
            project, version = parse(name)[:2]
        except ValueError:  # not a URL, or not a package name
            return None
        if not name.isprintable() or not address.startswith(("http://", "https://")):
            return None
        stated = fragment.removeprefix("sha256=").lower()
        published = stated if _SHA256.fullmatch(stated) else ""
        return File(project, str(version), name, self.network.original(address), published)

    def _page(self, url: str) -> tuple[str, str]:
        # Threads that look up different projects all need the single page of a flat index.
        with self._reading if self.flat else contextlib.nullcontext():
            if url not in self.pages:
                self.pages[url] = self._read(url)
        return self.pages[url]

    def _read(self, url: str) -> tuple[str, str]:
        """Fetch a page, and return its text and the base URL of its links."""
        place = self.kept / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.html"
        if self.network.is_offline:
            with contextlib.suppress(OSError, DataError):
                base, _, text = read_sealed(place, self.key_file).decode().partition("\n")
                return text, base
        require_encrypted(self.network.require_candidates(url), os.environ, f"the index {shown(self.url)}")
        answer = self.network.get(url, limit_bytes=_PAGE_BYTES)
        base = shown(answer.final_url)
        if shown(answer.url) != shown(url) and self.network.original(base) == base:
            raise FetchError(
                f"the mirror `{shown(answer.url)}` redirects to `{base}`, which is outside the mirror",
                hints=("use a mirror of the entire server", own_mirror_hint(url)),
                code="no-mirror",
            )
        text = answer.body.decode("utf-8", "replace")
        place.parent.mkdir(parents=True, exist_ok=True)
        write_sealed(place, f"{base}\n{text}".encode(), self.key_file)
        return text, base


def with_sizes(artifacts: Iterable[Artifact], network: Network) -> tuple[Artifact, ...]:
    """Query sizes missing from the index without downloading the files; if offline, they stay 0."""
    if network.is_offline:
        return tuple(artifacts)

    from rocenv.sources.credentials import with_logins  # imported late, because it imports all of apt

    asked = with_logins(network)

    def sized(each: Artifact) -> Artifact:
        return each if each.size_bytes else replace(each, size_bytes=asked.size_of(each.url))

    with ThreadPoolExecutor(8) as pool:
        return tuple(pool.map(sized, artifacts))


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect link targets."""
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _links(text: str) -> list[str]:
    parser = _Links()
    try:
        parser.feed(text)
    except AssertionError as error:  # raised for an invalid declaration
        raise FetchError(f"the index page is not valid HTML: {error}") from error
    return parser.found
