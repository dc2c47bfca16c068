"""Which addresses may be read although nobody signs what comes from there, and its hash is not known yet.

On the way from an address without encryption anybody can change an answer. It is read only where the user has
told pip or uv to trust its host.
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
    """Raise FetchError if nothing protects the answer of an address; `what` is asked for there, as a noun."""
    for url in urls:
        if url and not is_protected(url) and not is_trusted(url, environ):
            host = _host(url)[0] or "HOST"
            raise FetchError(
                f"{what} is not read from `{shown(url)}`: the connection is not encrypted, and nobody signs "
                "what is there",
                hints=(
                    "use an address or a mirror that begins with https://",
                    f"if you trust the network to that server: `PIP_TRUSTED_HOST={host}`, or "
                    f"`trusted-host = {host}` in pip's configuration",
                ),
                code="unencrypted",
            )


def is_trusted(url: str, environ: Mapping[str, str]) -> bool:
    """Whether the user has told pip or uv to trust the host of an address without encryption."""
    wanted = _host(url)
    return any(
        host and host == wanted[0] and port in (None, wanted[1]) for host, port in _trusted_hosts(environ)
    )


def _trusted_hosts(environ: Mapping[str, str]) -> Iterator[tuple[str, int | None]]:
    """Yield what pip's `trusted-host` and uv's `allow-insecure-host` name: host, and port if it counts."""
    of_pip = environ.get("PIP_TRUSTED_HOST") or pip_setting(environ, "trusted-host")
    for word in (*of_pip.split(), *environ.get("UV_INSECURE_HOST", "").split()):
        yield _host(word if "://" in word else f"//{word}")


def _host(url: str) -> tuple[str, int | None]:
    """Name the host of an address in small letters, and its port; "" where it has none that makes sense."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:  # `http://[::1/`
        return "", None
