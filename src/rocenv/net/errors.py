"""What can go wrong on the way to an address, told in plain words, and whether another try may help."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit, urlunsplit

from rocenv.core.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import requests

_PROXY_HINT = "check the proxy in the environment: http_proxy, https_proxy, all_proxy, no_proxy"


class TransientError(FetchError):
    """A failure that may pass: worth another try.

    Attributes:
        retry_after_s: The pause that the server asked for; 0 = none.
    """

    def __init__(
        self, message: str, *, code: str, retry_after_s: float = 0, hints: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, code=code, hints=hints)
        self.retry_after_s = retry_after_s


def all_failed(what: str, failures: Sequence[FetchError]) -> FetchError:
    """Return one error that tells every failure; `what` begins its sentence and quotes the thing's name.

    A single failure that names the thing itself is returned as it is.

    Its code is `gone` only if every address said so: a mirror that is down says nothing about the file.
    """
    if len(failures) == 1 and what.partition("`")[2] in failures[0].message:
        return failures[0]
    codes = [failure.code for failure in failures]
    code = next((code for code in codes if code != "gone"), "gone")
    if "hash-mismatch" in codes:
        code = "hash-mismatch"
    hints = tuple(dict.fromkeys(hint for failure in failures for hint in failure.hints))
    return FetchError(f"{what}: {'; '.join(failure.message for failure in failures)}", hints=hints, code=code)


def shown(url: str) -> str:
    """Return `url` without the name and password that it may carry, for messages."""
    parts = _split(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def refusal(url: str, response: requests.Response) -> FetchError:
    """Return what an answer means that brings no bytes: `gone`, `forbidden`, or one that may pass."""
    status = response.status_code
    phrase = f" ({response.reason})" if response.reason else ""
    message = f"`{shown(url)}` answers {status}{phrase}"
    if status in (404, 410):
        return FetchError(message, code="gone")
    if status in (401, 403):
        return FetchError(message, hints=(mirror_hint(url),), code="forbidden")
    if status == 407:
        return FetchError(f"the proxy wants a name and a password for `{shown(url)}`", hints=(_PROXY_HINT,))
    if status == 416:
        return TransientError(message, code="range-refused")
    if status in (408, 425, 429) or status >= 500:
        return TransientError(
            message,
            code="server-error",
            retry_after_s=_seconds(response.headers.get("Retry-After", "")),
            hints=("the same command again, later, goes on where it stopped", mirror_hint(url)),
        )
    return FetchError(message, hints=(mirror_hint(url),))


def _seconds(retry_after: str) -> float:
    """Return the pause that a `Retry-After` header means, in either of its forms."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def in_plain_words(
    url: str, error: Exception, *, connect_timeout_s: float, read_timeout_s: float
) -> FetchError:
    """Return what an exception of requests or urllib3 means: who did not answer, and in which way."""
    import socket
    import ssl

    from requests import exceptions

    causes = tuple(_causes(error))
    host = _split(url).hostname or shown(url)
    hints: tuple[str, ...] = (mirror_hint(url),)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return FetchError(
            f"the certificate of `{host}` is not accepted, so `{shown(url)}` was not fetched",
            hints=("behind a proxy that reads along, name its certificate in REQUESTS_CA_BUNDLE", *hints),
            code="certificate",
        )
    if isinstance(error, (exceptions.InvalidURL, exceptions.InvalidSchema, exceptions.TooManyRedirects)):
        return FetchError(f"`{shown(url)}` leads nowhere: {error}")
    if isinstance(error, exceptions.ProxyError):
        return TransientError(
            f"the proxy on the way to `{host}` does not work, so `{shown(url)}` was not fetched",
            hints=(_PROXY_HINT,),
            code="unreachable",
        )
    for kind, words in (
        (socket.gaierror, f"the name `{host}` is not known (no such host, or no network)"),
        (ConnectionRefusedError, f"`{host}` refuses the connection"),
        (exceptions.ConnectTimeout, f"`{host}` does not answer within {connect_timeout_s:g} s"),
        (TimeoutError, f"`{host}` has sent nothing for {read_timeout_s:g} s"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return TransientError(f"{words}, while fetching `{shown(url)}`", hints=hints, code="unreachable")
    return TransientError(
        f"the connection to `{host}` broke while fetching `{shown(url)}`", hints=hints, code="unreachable"
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps; requests and urllib3 hide causes in arguments and in `reason`."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        inner = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        waiting.extend(item for item in inner if isinstance(item, BaseException))


def mirror_hint(url: str) -> str:
    """Return the command that puts another address in front of the one that failed."""
    parts = _split(url)
    host = parts.netloc.rpartition("@")[2]
    return (
        f"`rocenv config set mirrors.{parts.scheme}://{host}/ https://MIRROR/` sets an address to try first"
    )


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # `http://[::1/`
        return SplitResult("", "", url, "", "")
