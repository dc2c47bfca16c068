"""All network connections: mirrors, proxies, retries and clear errors.

The mirrors of a URL are tried first, longest prefix first, then the URL itself. Transient failures
(a broken connection, 429, 5xx) are retried after increasing pauses, without limit while each attempt receives
new bytes; permanent ones (403, 404, an invalid certificate) are not. A server that is too slow is treated as
unreachable. In offline mode, no connection is opened. Callers verify hashes and signatures.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from rocenv import __version__
from rocenv.core.errors import FetchError
from rocenv.core.logins import shown
from rocenv.net.body import Body, body_chunks
from rocenv.net.errors import (
    TransientError,
    all_failed,
    connection_error,
    is_below,
    mirror_hint,
    status_error,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests

    from rocenv.config import Mirrors

T = TypeVar("T")

TRIES = 4
_TRIES_WITHOUT_SERVER = 2  # for `hasty` callers; retried at once, in case a name server failed
CONNECT_TIMEOUT_S = 10.0
LONGEST_PAUSE_S = 30.0  # a server may request hours
SMALL_BYTES = 128 * 1024 * 1024  # the largest index for a distribution is 60 MB
# Pauses are divided by this after an attempt that received data. Otherwise, a server that sends 100 KB per
# connection would need days for 1 GB, because that takes 10,000 attempts.
_TIMES_SHORTER = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The complete body of a small file, and its origin."""

    url: str  # the URL that served it
    body: bytes
    final_url: str  # the URL after redirects
    etag: str = ""  # for conditional requests with the same mirrors
    unchanged: bool = False  # the file still has the given ETag, so there is no body
    passed_over: tuple[str, ...] = ()  # why earlier URLs failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Access to servers; threads can share it.

    It uses the proxies and certificates from the environment (`http_proxy`, `no_proxy`,
    `REQUESTS_CA_BUNDLE`).
    """

    mirrors: Mirrors = ()
    configured: tuple[str, ...] = ()  # prefixes with mirrors in the user's settings
    logins: tuple[str, ...] = ()  # URLs whose credentials apply to the whole server
    offline: bool = False  # ROCENV_OFFLINE has the same effect
    proxy: str = ""  # used for http:// if the environment specifies none
    known_mirrors: Callable[[], Mapping[str, str]] = field(default=dict, compare=False)  # see `mirror_hint`
    pause_s: float = 0.5  # pause before the second attempt; doubles each time
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    read_timeout_s: float = 30.0
    least_bytes_per_s: float = 1024  # minimum speed per connection, averaged over slow_after_s
    slow_after_s: float = 30.0
    _local: threading.local = field(default_factory=threading.local, init=False, repr=False, compare=False)

    @property
    def is_offline(self) -> bool:
        """Whether connections are forbidden."""
        return self.offline or _offline_by_environment()

    def candidates(self, url: str) -> tuple[str, ...]:
        """List the URLs to try for `url`, in order.

        A prefix cannot end in the middle of a name, so `…/whl` does not match `…/whl-old`.
        Symbolic URLs (`debian:pool/x.deb`) require a mirror.
        """
        matching = [(prefix, bases) for prefix, bases in self.mirrors if is_below(url, prefix)]
        matching.sort(key=lambda mirror: -len(mirror[0]))
        found = [_rebased(url, prefix, base) for prefix, bases in matching for base in bases]
        if url.startswith(("http://", "https://")):
            found.append(self._with_login(url))
        return tuple(dict.fromkeys(found))

    def _with_login(self, url: str) -> str:
        """Add the credentials of a mirror on the same server, because locks and plans never contain any."""
        scheme, separator, rest = url.partition("://")
        server = re.split(r"[/?#]", rest, maxsplit=1)[0]
        bases = (base for _, bases in self.mirrors for base in bases)
        for known in (*bases, *self.logins):
            at = urlsplit(known)
            login, _, known_server = at.netloc.rpartition("@")
            if login and (at.scheme, known_server) == (scheme, server):
                return f"{scheme}{separator}{login}@{rest}"
        return url

    def original(self, url: str) -> str:
        """Map a mirror's URL to the original, so that locks work on any machine."""
        plain = shown(url)
        for prefix, bases in self.mirrors:
            for base in map(shown, bases):
                if is_below(plain, base):
                    return _rebased(plain, base, prefix)
        return plain

    def require_candidates(self, url: str) -> tuple[str, ...]:
        """Return `candidates(url)`, or raise FetchError if there are none."""
        found = self.candidates(url)
        if not found:
            raise FetchError(
                f"no URL is configured for `{url}`", hints=(self.mirror_hint(url),), code="no-mirror"
            )
        return found

    def mirror_hint(self, url: str) -> str:
        """Return a hint about setting a mirror for a failed URL, or for the original behind a mirror."""
        original = self.original(url)
        for prefix in self.configured:
            if is_below(original, prefix):
                return (
                    f"you set a mirror for `{prefix}`; to remove it: `rocenv config unset mirrors.{prefix}`"
                )
        return mirror_hint(original, self.known_mirrors())

    def get(
        self, url: str, *, etag: str = "", limit_bytes: int = SMALL_BYTES, hashed: bool = False
    ) -> Response:
        """Fetch a small file, such as an index or a key, unless `etag` is still current.

        If the caller checks a hash (`hashed`), an interrupted download is resumed even if the server cannot
        guarantee that the file is unchanged.

        Raises:
            FetchError: No URL served it. The code is `offline`, `gone` (404 everywhere), `too-large` ...
        """
        failures: list[FetchError] = []

        def read_all(candidate: str) -> Response:
            body = Body(limit_bytes, hashed=hashed)
            answer = self.persist(
                lambda: self._read(candidate, body, etag),
                lambda: len(body.content),
                restart=body.start_over,
                hasty=True,
            )
            return replace(answer, passed_over=tuple(failure.message for failure in failures))

        return self.try_each(url, read_all, failures.append)

    def _read(self, url: str, body: Body, etag: str) -> Response:
        headers = body.resume_headers() or ({"If-None-Match": etag} if etag else {})
        with self.open(url, headers) as answer:
            body.begin(url, answer)
            for chunk in body_chunks(answer):
                body.add(url, chunk)
            return Response(
                url=url,
                body=bytes(body.content),
                final_url=answer.url,
                etag=answer.headers.get("ETag", ""),
                unchanged=answer.status_code == 304,
            )

    def size_of(self, url: str) -> int:
        """Query a file's size in bytes without downloading it.

        Raises:
            FetchError: No server responded, or none reported the size.
        """

        def stated_size(candidate: str) -> int:
            with self.open(candidate, method="HEAD") as answer:
                stated = answer.headers.get("Content-Length", "")
            if not stated.isdigit():
                raise FetchError(f"the server did not report the size of `{shown(candidate)}`")
            return int(stated)

        return self.try_each(url, lambda candidate: self.persist(lambda: stated_size(candidate), hasty=True))

    def try_each(
        self,
        url: str,
        attempt: Callable[[str], T],
        on_failure: Callable[[FetchError], None] = lambda _: None,
        *,
        name: str = "",
    ) -> T:
        """Try the URLs for `url` in order until an attempt succeeds.

        Args:
            url: The original URL.
            attempt: Called with one URL; raises FetchError.
            on_failure: Called with each failure.
            name: Name of the file in errors, instead of `url`.

        Raises:
            FetchError: All URLs failed.
        """
        failures: list[FetchError] = []
        for candidate in self.require_candidates(url):
            try:
                return attempt(candidate)
            except FetchError as error:
                failures.append(error)
                on_failure(error)
                if error.code == "offline":
                    break
        raise all_failed(name or shown(url), failures)

    @contextlib.contextmanager
    def open(
        self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> Iterator[requests.Response]:
        """Send one request to one URL and yield the open response (status 200, 206 or 304).

        Network failures inside the block also become FetchErrors. Read the body with `body.body_chunks`.

        Raises:
            TransientError: A retry may help.
            FetchError: A retry will not help.
        """
        self._require_online(url)
        import requests
        import urllib3

        from rocenv.net.pace import TooSlow

        asked = dict(headers or {})
        timeout = (self.connect_timeout_s, self.read_timeout_s)
        try:
            with self._session().request(
                method, url, headers=asked, stream=True, timeout=timeout, proxies=self._own_proxy(url)
            ) as response:
                self._require_encrypted_hops(url, response)
                if response.status_code not in ((200, 304) if "If-None-Match" in asked else (200, 206)):
                    raise status_error(url, response, self.mirror_hint(url))
                yield response
        except (requests.RequestException, urllib3.exceptions.HTTPError, TooSlow) as error:
            raise connection_error(url, error, *timeout, self.mirror_hint(url)) from error

    def pause_before(self, attempt: int, error: TransientError, *, advanced: bool = False) -> float:
        """Return the pause in seconds before attempt number `attempt` (2 is the first retry).

        The pause is short after an attempt that `advanced`, because there may be thousands of such attempts.
        """
        # Add jitter, so that parallel downloads do not retry at the same time.
        own: float = self.pause_s * 2 ** (attempt - 2) * random.uniform(0.75, 1.25)
        if advanced:
            own /= _TIMES_SHORTER
        return min(max(own, error.retry_after_s), LONGEST_PAUSE_S)

    def persist(
        self,
        attempt: Callable[[], T],
        position: Callable[[], int] = lambda: 0,
        *,
        restart: Callable[[], object] = lambda: None,
        wait: Callable[[float], object] = time.sleep,
        hasty: bool = False,
    ) -> T:
        """Retry an attempt that raises TransientError, up to TRIES times in a row without progress.

        Args:
            attempt: Called again after each pause.
            position: Returns how many bytes have arrived. Bytes that arrive too slowly are not included.
            restart: Called to discard the bytes if a server refuses to resume.
            wait: Called with the length of each pause, in seconds.
            hasty: Do not wait for an unreachable server, because the user is waiting for a plan.

        Raises:
            TransientError: From the last attempt, or from the interruption after which a server refused to
                resume.
        """
        tries, furthest = 0, position()
        failure: TransientError | None = None
        since, before = time.monotonic(), furthest
        while True:
            try:
                return attempt()
            except TransientError as error:
                elapsed, reached = time.monotonic() - since, position()
                is_slow = elapsed >= self.slow_after_s and reached - before < elapsed * self.least_bytes_per_s
                if elapsed >= self.slow_after_s and not is_slow:
                    since, before = time.monotonic(), reached
                advanced = reached > furthest and not is_slow
                furthest = max(furthest, reached)
                tries = 1 if advanced else tries + 1
                if error.code != "range-refused" or failure is None:  # only a resumed request can be refused
                    failure = error
                gives_up = hasty and error.no_server and not furthest
                if tries >= (_TRIES_WITHOUT_SERVER if gives_up else TRIES):
                    raise failure from None
                if error.code == "range-refused":
                    restart()
                wait(self.pause_before(tries + 1, error, advanced=advanced or gives_up))

    def _require_online(self, url: str) -> None:
        if self.is_offline:
            reason, hint = (
                ("ROCENV_OFFLINE is set", "unset ROCENV_OFFLINE")
                if _offline_by_environment()
                else ("`--offline` was given", "run the command without `--offline`")
            )
            raise FetchError(f"`{shown(url)}` is needed, but {reason}", hints=(hint,), code="offline")

    def _session(self) -> requests.Session:
        """Open one session per thread, because requests does not guarantee thread safety."""
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            import requests

            from rocenv.net.pace import PacedAdapter

            session = requests.Session()
            session.headers["User-Agent"] = f"rocenv/{__version__}"
            # Request no compression, because ranges and hashes refer to the stored file.
            session.headers["Accept-Encoding"] = "identity"
            adapter = PacedAdapter(self.least_bytes_per_s, self.slow_after_s, self.read_timeout_s)
            session.mount("http://", adapter)
            session.mount("https://", adapter)
            self._local.session = session
        return session

    def _require_encrypted_hops(self, url: str, response: requests.Response) -> None:
        """Reject a redirect from an encrypted connection to plain HTTP."""
        plain = [hop.url for hop in (*response.history, response) if not is_protected(hop.url)]
        if is_protected(url) and plain:
            raise FetchError(
                f"`{shown(url)}` redirects to `{shown(plain[0])}`, which is not encrypted",
                hints=(self.mirror_hint(url),),
                code="unencrypted",
            )

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


def is_protected(url: str) -> bool:
    """Whether the connection is encrypted, which protects the content from eavesdropping and tampering."""
    with contextlib.suppress(ValueError):  # such as `http://[::1/`
        return url.startswith("https://") or urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")
    return False


def _rebased(url: str, prefix: str, base: str) -> str:
    rest = url[len(prefix) :].removeprefix("/")
    if not rest or rest[0] in "?#":
        return base + rest
    return f"{base.removesuffix('/')}/{rest}"
