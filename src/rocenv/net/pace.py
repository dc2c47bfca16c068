"""Close connections that deliver almost nothing.

A read timeout restarts with every byte, so a server that sends one byte every two seconds would never
trigger it. This module measures every read from the socket, for headers as well as bodies.
"""

from __future__ import annotations

import io
from time import monotonic
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from urllib3 import PoolManager


class TooSlow(Exception):
    """Raised if a response arrives too slowly."""

    def __init__(self, bytes_per_s: float) -> None:
        super().__init__(f"{bytes_per_s:.3g} bytes per second")
        self.bytes_per_s = bytes_per_s


class PacedAdapter(HTTPAdapter):
    """Opens connections that raise TooSlow if a response arrives too slowly.

    Args:
        least_bytes_per_s: The minimum speed.
        over_s: The waiting time, in seconds, over which the speed is averaged.
        timeout_s: The maximum duration of one read.
    """

    def __init__(self, least_bytes_per_s: float, over_s: float, timeout_s: float) -> None:
        def paced(raw: io.RawIOBase) -> io.BufferedReader:
            return io.BufferedReader(_PacedReader(raw, least_bytes_per_s, over_s, timeout_s))

        self._pools = _pools(paced)
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Set up direct connections."""
        super().init_poolmanager(*args, **options)
        self._pace(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:
        """Set up connections through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        self._pace(manager)
        return manager

    def _pace(self, manager: PoolManager) -> None:
        if manager.pool_classes_by_scheme.get("http") is HTTPConnectionPool:  # not a SOCKS proxy
            manager.pool_classes_by_scheme = self._pools


def _pools(paced: Callable[[io.RawIOBase], io.BufferedReader]) -> dict[str, Any]:
    from http.client import HTTPResponse

    class PacedResponse(HTTPResponse):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.fp = paced(self.fp.detach())

    class PacedConnection(HTTPConnection):
        response_class = PacedResponse

    class PacedTlsConnection(HTTPSConnection):
        response_class = PacedResponse

    class PacedPool(HTTPConnectionPool):
        ConnectionCls = PacedConnection

    class PacedTlsPool(HTTPSConnectionPool):
        ConnectionCls = PacedTlsConnection

    return {"http": PacedPool, "https": PacedTlsPool}


class _PacedReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, least_bytes_per_s: float, over_s: float, timeout_s: float) -> None:
        self._raw = raw
        self._least_bytes_per_s = least_bytes_per_s
        self._over_s = over_s
        self._timeout_s = timeout_s
        self._waited_s = 0.0
        self._received = 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readinto(self, buffer: Any) -> int | None:
        begin = monotonic()
        count = self._raw.readinto(buffer)
        took_s = monotonic() - begin
        if took_s < self._timeout_s + 1:  # otherwise the machine was asleep
            self._judge(count or 0, took_s)
        return count

    def _judge(self, count: int, took_s: float) -> None:
        # Only waiting for the server counts, not the caller's work between reads.
        self._received += count
        self._waited_s += took_s
        if self._waited_s < self._over_s:
            return
        bytes_per_s = self._received / self._waited_s
        if bytes_per_s < self._least_bytes_per_s and count:
            raise TooSlow(bytes_per_s)
        self._received, self._waited_s = 0, 0.0
