"""The one way out to the network: mirrors, proxies, retries, and errors in plain words.

An address is tried under the mirrors set for it, longest prefix first, and then as it stands. Failures that
may pass (a broken connection, 429, 5xx) are tried again after a growing pause; answers that will not change
(403, 404, a certificate) are not. Offline means that no connection is ever opened. Nothing here judges the
bytes: hashes and signatures are the callers' business.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocenv import __version__
from rocenv.core.errors import FetchError
from rocenv.net.errors import TransientError, all_failed, in_plain_words, refusal, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests

    from rocenv.config import Mirrors

T = TypeVar("T")

TRIES = 4
CHUNK_BYTES = 256 * 1024
CONNECT_TIMEOUT_S = 10.0
LONGEST_PAUSE_S = 30.0  # a server may ask for hours
SMALL_BYTES = 128 * 1024 * 1024  # a distribution's whole package index has 60 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The whole body of a small thing, and where it came from."""

    url: str  # the address that answered
    body: bytes
    etag: str = ""  # to ask for it again, with the same mirrors
    passed_over: tuple[str, ...] = ()  # why addresses tried before this one did not serve


class NotModified:
    """The server still has what the given ETag names."""


NOT_MODIFIED: Final = NotModified()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An open response (status 200, 206 or 304) whose body is yet to be read."""

    status: int
    url: str  # the address that answered, after redirects
    headers: Mapping[str, str]  # names in any case
    raw: Any  # the urllib3 response

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as the server holds them, never decoded: a `.gz` stays one."""
        self.raw.enforce_content_length = True  # urllib3 1.26 takes a broken connection for the end
        yield from self.raw.stream(CHUNK_BYTES, decode_content=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """How this machine gets at addresses; may be shared by threads.

    Proxies and certificates of the environment are honoured (`http_proxy`, `no_proxy`, `REQUESTS_CA_BUNDLE`).
    """

    mirrors: Mirrors = ()
    offline: bool = False  # ROCENV_OFFLINE counts as well
    proxy: str = ""  # for http:// where the environment names none
    pause_s: float = 0.5  # before the second try; doubled from then on
    read_timeout_s: float = 30.0
    _local: threading.local = field(default_factory=threading.local, init=False, repr=False, compare=False)

    @property
    def is_offline(self) -> bool:
        """Whether no connection may be opened."""
        return self.offline or _offline_by_environment()

    def candidates(self, url: str) -> tuple[str, ...]:
        """Return the addresses to try for `url`, in order.

        A prefix ends at a `/` or at its own last `/` or `:`, so that `…/whl` does not match `…/whl-old`. An
        address that is only a name (`debian:pool/x.deb`) has no original to end with.
        """
        matching = [(prefix, bases) for prefix, bases in self.mirrors if _is_below(url, prefix)]
        matching.sort(key=lambda mirror: -len(mirror[0]))
        found = [_rebased(url, prefix, base) for prefix, bases in matching for base in bases]
        if url.startswith(("http://", "https://")):
            found.append(url)
        return tuple(dict.fromkeys(found))

    def get(
        self, url: str, *, etag: str | None = None, limit_bytes: int = SMALL_BYTES
    ) -> Response | NotModified:
        """Return the body of something small: an index, a key.

        Raises:
            FetchError: No address served it. The code is `offline`, `gone` (404 everywhere), `too-large` ...
        """
        headers = {"If-None-Match": etag} if etag else {}
        candidate, found, said = self._first(url, lambda each: self._read(each, headers, limit_bytes))
        if found is None:
            return NOT_MODIFIED
        body, new_etag = found
        return Response(url=candidate, body=body, etag=new_etag, passed_over=said)

    def size_of(self, url: str) -> int:
        """Return how many bytes a file has, as its server says; nothing of it is read.

        Raises:
            FetchError: No address answered, or none says it.
        """
        return self._first(url, self._stated_size)[1]

    def require_candidates(self, url: str) -> tuple[str, ...]:
        """Return `candidates(url)`, or raise FetchError where there are none."""
        found = self.candidates(url)
        if not found:
            scheme = url.partition(":")[0]
            raise FetchError(
                f"no address is known for `{url}`",
                hints=(f"rocenv config set mirrors.{scheme}: https://HOST/PATH/",),
                code="no-mirror",
            )
        return found

    @contextlib.contextmanager
    def open(
        self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> Iterator[Answer]:
        """Open one address as it stands, once; inside the block too, network trouble becomes a FetchError.

        Raises:
            TransientError: The failure may pass.
            FetchError: It will not.
        """
        self._require_online(url)
        import requests
        import urllib3

        try:
            with self._session().request(
                method,
                url,
                headers=dict(headers or {}),
                stream=True,
                timeout=(CONNECT_TIMEOUT_S, self.read_timeout_s),
                proxies=self._own_proxy(url),
            ) as response:
                asked = headers or {}
                if response.status_code not in ((200, 304) if "If-None-Match" in asked else (200, 206)):
                    raise refusal(url, response)
                yield Answer(
                    status=response.status_code,
                    url=response.url,
                    headers=response.headers,
                    raw=response.raw,
                )
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise in_plain_words(
                url, error, connect_timeout_s=CONNECT_TIMEOUT_S, read_timeout_s=self.read_timeout_s
            ) from error

    def pause_before(self, attempt: int, error: TransientError) -> float:
        """Return the seconds to wait before try number `attempt` (2 is the first repeat)."""
        # Spread, so that parallel downloads do not come back in step.
        own: float = self.pause_s * 2 ** (attempt - 2) * random.uniform(0.75, 1.25)
        return min(max(own, error.retry_after_s), LONGEST_PAUSE_S)

    def _first(self, url: str, ask: Callable[[str], T]) -> tuple[str, T, tuple[str, ...]]:
        """Return the first address that serves, its answer, and why those before it did not."""
        failures: list[FetchError] = []
        for candidate in self.require_candidates(url):
            try:
                answer = self._persist(candidate, ask)
            except FetchError as error:
                if error.code == "offline":
                    raise
                failures.append(error)
            else:
                return candidate, answer, tuple(failure.message for failure in failures)
        raise all_failed(f"cannot fetch `{shown(url)}`", failures)

    def _persist(self, url: str, ask: Callable[[str], T]) -> T:
        """Return the answer of one address; wait out what may pass."""
        for attempt in range(2, TRIES + 1):
            try:
                return ask(url)
            except TransientError as error:
                time.sleep(self.pause_before(attempt, error))
        return ask(url)

    def _stated_size(self, url: str) -> int:
        with self.open(url, method="HEAD") as answer:
            stated = answer.headers.get("Content-Length", "")
        if not stated.isdigit():
            raise FetchError(f"`{shown(url)}` does not say how large it is", code="fetch-failed")
        return int(stated)

    def _read(self, url: str, headers: dict[str, str], limit_bytes: int) -> tuple[bytes, str] | None:
        """Return body and ETag of one address, or None for "not modified"."""
        with self.open(url, headers) as answer:
            if answer.status == 304:
                return None
            body = bytearray()
            for chunk in answer.chunks():
                body += chunk
                if len(body) > limit_bytes:
                    raise FetchError(
                        f"`{shown(url)}` sends more than the {limit_bytes} bytes that such a file may have",
                        code="too-large",
                    )
            return bytes(body), answer.headers.get("ETag", "")

    def _require_online(self, url: str) -> None:
        if self.is_offline:
            reason, hint = (
                ("ROCENV_OFFLINE is set", "unset ROCENV_OFFLINE")
                if _offline_by_environment()
                else ("`--offline` was given", "repeat the command without `--offline`")
            )
            raise FetchError(f"`{shown(url)}` is needed, but {reason}", hints=(hint,), code="offline")

    def _session(self) -> requests.Session:
        """Return this thread's session: requests does not promise that one can be shared."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            import requests

            session = requests.Session()
            session.headers["User-Agent"] = f"rocenv/{__version__}"
            # Ranges and hashes are about the file as it is stored.
            session.headers["Accept-Encoding"] = "identity"
            self._local.session = session
        return session

    def _own_proxy(self, url: str) -> dict[str, str]:
        if not self.proxy:
            return {}
        from requests.utils import get_environ_proxies, should_bypass_proxies

        named = get_environ_proxies(url)
        if "http" in named or "all" in named or should_bypass_proxies(url, no_proxy=None):
            return {}
        return {"http": self.proxy}


def _offline_by_environment() -> bool:
    return os.environ.get("ROCENV_OFFLINE", "") not in ("", "0")


def _is_below(url: str, prefix: str) -> bool:
    if not url.startswith(prefix):
        return False
    return prefix.endswith(("/", ":")) or url[len(prefix) :][:1] in ("", "/", "?", "#")


def _rebased(url: str, prefix: str, base: str) -> str:
    rest = url[len(prefix) :].removeprefix("/")
    if not rest or rest[0] in "?#":
        return base + rest
    return f"{base.removesuffix('/')}/{rest}"
