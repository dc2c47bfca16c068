"""Network errors that name the server and the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from rocenv.core.errors import FetchError
from rocenv.core.logins import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import requests

_NETWORK_HINT = "check your network, VPN and proxy"
_PROXY_HINT = "check the proxy in the environment: http_proxy, https_proxy, all_proxy, no_proxy"


class TransientError(FetchError):
    """A failure that a retry may fix.

    Attributes:
        retry_after_s: The pause that the server requested, or 0 if none.
        no_server: No connection was made, because the name does not resolve or the host is unreachable or
            refuses connections.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retry_after_s: float = 0,
        no_server: bool = False,
        hints: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, code=code, hints=hints)
        self.retry_after_s = retry_after_s
        self.no_server = no_server


def all_failed(name: str, failures: Sequence[FetchError]) -> FetchError:
    """Combine the failures of all URLs for the file `name`.

    The code is `gone` only if every URL failed with it, because an unreachable mirror may have the file.
    """
    if len(failures) == 1 and f"`{name}`" in failures[0].message:
        return failures[0]
    codes = [failure.code for failure in failures]
    code = next((code for code in codes if code != "gone"), "gone")
    code = next((worse for worse in ("hash-mismatch", "truncated") if worse in codes), code)
    hints = tuple(dict.fromkeys(hint for failure in failures for hint in failure.hints))
    reasons = "; ".join(failure.message for failure in failures)
    return FetchError(f"cannot download `{name}`: {reasons}", hints=hints, code=code)


def is_below(url: str, prefix: str) -> bool:
    """Whether a URL starts with a prefix, and the prefix does not end in the middle of a name."""
    if not url.startswith(prefix):
        return False
    return prefix.endswith(("/", ":")) or url[len(prefix) :][:1] in ("", "/", "?", "#")


def mirror_hint(url: str, known: Mapping[str, str]) -> str:
    """Return a hint that shows how to set a mirror for a URL: a known one, or the user's own.

    Args:
        url: The original URL, or a symbolic one: `debian:pool/x.deb`.
        known: Prefix with known mirrors -> the mirror to suggest, or "" to list them all.
    """
    prefix = next((prefix for prefix in known if is_below(url, prefix)), "")
    if prefix and known[prefix]:
        return (
            f"`rocenv config set mirrors.{prefix} {known[prefix]}` sets a mirror; any works, because rocenv "
            "checks signatures (others: `rocenv config mirrors`)"
        )
    if prefix:
        return "`rocenv config mirrors` lists this server's known mirrors, tests their speed, and sets one"
    return own_mirror_hint(url)


def own_mirror_hint(url: str) -> str:
    """Return a hint that shows how to set a mirror for everything on a URL's server."""
    parts = _split(url)
    host = parts.netloc.rpartition("@")[2]
    server = f"{parts.scheme}://{host}/" if host else f"{url.partition(':')[0]}:"
    return f"if you have a mirror of `{server}`, set it as `mirrors.{server}`; see `rocenv help config set`"


def status_error(url: str, response: requests.Response, hint: str) -> FetchError:
    """Return the error for an unsuccessful HTTP status; `hint` says how to set a mirror."""
    status = response.status_code
    phrase = f" ({response.reason})" if response.reason else ""
    message = f"`{shown(url)}` returned {status}{phrase}"
    hints = (hint,)
    if status in (404, 410):
        return FetchError(message, code="gone")
    if status in (401, 403):
        return FetchError(message, hints=hints, code="forbidden")
    if status == 407:
        return FetchError(
            f"the proxy requires a user name and password for `{shown(url)}`", hints=(_PROXY_HINT,)
        )
    if status == 416:
        return TransientError(message, code="range-refused")
    if status in (408, 425, 429) or status >= 500:
        return TransientError(
            message,
            code="server-error",
            retry_after_s=_retry_after_s(response.headers.get("Retry-After", "")),
            hints=("run the command again later; it will resume where it left off", *hints),
        )
    return FetchError(message, hints=hints)


def connection_error(
    url: str, error: Exception, connect_timeout_s: float, read_timeout_s: float, hint: str
) -> FetchError:
    """Convert an exception from requests or urllib3 to an error that names the server and the cause.

    `hint` says how to set a mirror.
    """
    import errno
    import socket
    import ssl

    from requests import exceptions
    from urllib3.exceptions import IncompleteRead

    from rocenv.net.pace import TooSlow

    causes = tuple(_causes(error))
    host = _split(url).hostname or shown(url)
    hints: tuple[str, ...] = (hint,)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return FetchError(
            f"the certificate of `{host}` is not trusted, so `{shown(url)}` was not downloaded",
            hints=("behind a proxy that inspects TLS, set REQUESTS_CA_BUNDLE to its certificate", *hints),
            code="certificate",
        )
    if isinstance(error, (exceptions.InvalidURL, exceptions.InvalidSchema, exceptions.TooManyRedirects)):
        return FetchError(f"`{shown(url)}` is not a valid URL: {error}")
    no_server = any(
        isinstance(cause, (socket.gaierror, ConnectionRefusedError))
        or (isinstance(cause, OSError) and cause.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH))
        for cause in causes
    )
    if isinstance(error, exceptions.ProxyError):
        return TransientError(
            f"the proxy for `{host}` does not work, so `{shown(url)}` was not downloaded",
            hints=(_PROXY_HINT,),
            code="unreachable",
            no_server=no_server,
        )
    reason = f"the connection to `{host}` was lost"
    for kind, text in (
        (socket.gaierror, f"cannot resolve the name `{host}` (no such host, or no network)"),
        (ConnectionRefusedError, f"`{host}` refused the connection"),
        (exceptions.ConnectTimeout, f"`{host}` did not respond within {connect_timeout_s:g} s"),
        (TimeoutError, f"`{host}` sent no data for {read_timeout_s:g} s"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            reason = text
            break
    for cause in causes:
        if isinstance(cause, TooSlow):
            reason = f"`{host}` is too slow: {cause.bytes_per_s:.1f} bytes/s"
        elif isinstance(cause, IncompleteRead):
            whole = cause.partial + cause.expected
            reason = f"{reason}: the response was truncated ({cause.partial} of {whole} bytes arrived)"
    message = f"{reason} while downloading `{shown(url)}`"
    return TransientError(message, hints=(_NETWORK_HINT, *hints), code="unreachable", no_server=no_server)


def _retry_after_s(header: str) -> float:
    """Parse either form of a `Retry-After` header; return 0 if it is invalid."""
    import urllib3

    try:
        return urllib3.Retry().parse_retry_after(header)
    except urllib3.exceptions.InvalidHeader:
        return 0.0


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; requests and urllib3 hide some in arguments and in `reason`."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inner = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        waiting.extend(item for item in inner if isinstance(item, BaseException))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # such as `http://[::1/`
        return SplitResult("", "", url, "", "")
