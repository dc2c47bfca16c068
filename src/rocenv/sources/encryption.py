"""Decide which `http://` URLs may serve unsigned content whose hash is unknown.

Without encryption, anyone on the network path can change a response. Therefore, rocenv uses such URLs only
if pip or uv is configured to trust the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rocenv.core.errors import FetchError
from rocenv.core.logins import shown
from rocenv.net import is_protected
from rocenv.sources.general_index import pip_setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


def require_encrypted(urls: Iterable[str], environ: Mapping[str, str], what: str) -> None:
    """Raise FetchError if a URL is neither protected nor trusted; `what` describes its content."""
    for url in urls:
        if url and not is_protected(url) and not is_trusted(url, environ):
            host = _host(url)[0]
            trust = (
                f"if you trust the network path to that server: `PIP_TRUSTED_HOST={host}`, or "
                f"`trusted-host = {host}` in pip's configuration"
            )
            raise FetchError(
                f"refusing to read {what} from `{shown(url)}`: the connection is not encrypted, and its "
                "content is not signed",
                hints=("use a URL or mirror that starts with https://", *((trust,) if host else ())),
                code="unencrypted",
            )


def is_trusted(url: str, environ: Mapping[str, str]) -> bool:
    """Whether pip or uv is configured to trust the host of an `http://` URL."""
    wanted = _host(url)
    return any(
        host and host == wanted[0] and port in (None, wanted[1]) for host, port in _trusted_hosts(environ)
    )


def _trusted_hosts(environ: Mapping[str, str]) -> Iterator[tuple[str, int | None]]:
    """Yield the hosts in pip's `trusted-host` and uv's `allow-insecure-host`, with the port if specified."""
    of_pip = environ.get("PIP_TRUSTED_HOST") or pip_setting(environ, "trusted-host")
    for word in (*of_pip.split(), *environ.get("UV_INSECURE_HOST", "").split()):
        yield _host(word if "://" in word else f"//{word}")


def _host(url: str) -> tuple[str, int | None]:
    """Return a URL's host in lowercase, or "" if the URL is invalid, and its port."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:  # such as `http://[::1/`
        return "", None
