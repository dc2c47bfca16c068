"""Measure the latency and throughput of servers with a short read from each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rocenv.core.errors import FetchError
from rocenv.net.body import body_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.net import Network

MAX_BYTES = 1 << 20
MAX_S = 3.0  # applies separately to connecting, the first byte, and reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The result for one URL; `error` explains why it could not be measured."""

    first_byte_s: float = 0.0
    bytes_per_s: float = 0.0
    redirected_to: str = ""  # the host that sent the bytes, if different
    error: str = ""


def measure(urls: Sequence[str], network: Network) -> list[Speed]:
    """Read the beginning of each URL, in parallel, without mirrors or retries.

    Raises:
        FetchError: rocenv is offline.
    """
    hurried = replace(network, connect_timeout_s=MAX_S, read_timeout_s=MAX_S)
    with ThreadPoolExecutor(max(1, len(urls))) as pool:
        return list(pool.map(lambda url: _speed(url, hurried), urls))


def _speed(url: str, network: Network) -> Speed:
    begin, received = monotonic(), 0
    try:
        with network.open(url) as answer:
            first = monotonic()
            for chunk in body_chunks(answer):
                received += len(chunk)
                if received >= MAX_BYTES or monotonic() - first >= MAX_S:
                    break
            took_s = max(monotonic() - first, 1e-3)  # a small body arrives with the headers
            host = urlsplit(answer.url).hostname or ""
    except FetchError as error:
        if error.code == "offline":
            raise
        reason = error.message.partition(" while downloading ")[0]
        return Speed(error=reason.removeprefix(f"`{url}` "))
    return Speed(
        first_byte_s=first - begin,
        bytes_per_s=received / took_s,
        redirected_to="" if host == urlsplit(url).hostname else host,
    )
