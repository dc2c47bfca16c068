"""A real HTTP server on 127.0.0.1 that serves bytes or a folder and can be told to misbehave."""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

BLOCK_BYTES = 64 * 1024
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """How a response deviates from a correct one; by default, it does not."""

    status: int = 0  # respond with this status and a short message
    headers: Mapping[str, str] = field(
        default_factory=dict
    )  # added to the response, e.g. Retry-After or Location
    body: bytes | None = None  # serve this instead, with 200
    cut_after: int | None = None  # close the connection after this many bytes of the body
    reset_after: int | None = None  # likewise, but with a TCP reset, as a failing router would
    stall_after: int | None = None  # stop sending after this many bytes, but keep the connection open
    bytes_per_s: float = 0  # 0 means unlimited
    block_bytes: int = BLOCK_BYTES  # the size of each write
    ignores_range: bool = False
    shifts_range: int = 0  # respond with 206, but start this many bytes too late
    content_length: int | None = None  # send this Content-Length instead of the right one
    states_length: bool = True  # if False, omit Content-Length and end the body by closing the connection


@dataclass(frozen=True, kw_only=True)
class Request:
    """A received request and its response."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int
    first_byte: int
    proxied: bool  # the URL is absolute, as in requests to a proxy


class Loopback:
    """A server that runs until the `with` block ends.

    Args:
        files: Path on the server -> bytes.
        folder: A folder for paths that are not in `files`.
        validators: Send ETag and Last-Modified.
        tls: Use HTTPS with this context.
        ranges: Support range requests; otherwise send whole files.
        most_bytes: Send at most this many bytes for a range request.
        missing: The status for missing files.
    """

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        folder: Path | None = None,
        validators: bool = True,
        tls: ssl.SSLContext | None = None,
        ranges: bool = True,
        most_bytes: int = 1 << 40,
        missing: int = 404,
    ) -> None:
        self.files = dict(files or {})
        self.folder = folder
        self.validators = validators
        self.ranges = ranges
        self.most_bytes = most_bytes
        self.missing = missing
        self.login = ""  # required NAME:PASSWORD, or "" for none
        self.requests: list[Request] = []
        self._sent: dict[str, int] = {}
        self._faults: dict[str, list[Fault]] = {}
        self._always: dict[str, Fault] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def fail(self, path: str, *faults: Fault) -> None:
        """Apply these faults to the next requests for `path`, one each; later responses are correct."""
        self._faults.setdefault(path, []).extend(faults)

    def always(self, path: str, fault: Fault) -> None:
        """Use this fault for every request for `path`, or for every path if it is `*`."""
        self._always[path] = fault

    def content(self, path: str) -> bytes | None:
        """Return the bytes to serve for `path`."""
        if path in self.files:
            return self.files[path]
        found = self.folder and self.folder / path.lstrip("/")
        return found.read_bytes() if found and found.is_file() else None

    def seen(self, path: str) -> list[Request]:
        """Return the requests for `path`, in order."""
        return [request for request in self.requests if request.path == path]

    def sent_bytes(self, path: str) -> int:
        """Return the total size of the bodies sent for `path`, in bytes."""
        return self._sent.get(path, 0)

    def _next_fault(self, path: str) -> Fault:
        with self._lock:
            waiting = self._faults.get(path)
            if waiting:
                return waiting.pop(0)
            return self._always.get(path) or self._always.get("*") or Fault()

    def _count(self, path: str, size: int) -> None:
        with self._lock:
            self._sent[path] = self._sent.get(path, 0) + size


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not print a traceback, because test clients are often killed or disconnect early."""


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"loopback": loopback})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # because headers and body are written separately
    loopback: Loopback

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        if not _is_allowed(self.headers["Authorization"], self.loopback.login):
            self._send(401, b"401\n", {"WWW-Authenticate": 'Basic realm="mirror"'}, Fault())
            return
        fault = self.loopback._next_fault(path)
        content = fault.body if fault.body is not None else self.loopback.content(path)
        first, end, status = self._status(content, fault)
        self.loopback.requests.append(
            Request(
                method=self.command,
                path=path,
                headers=dict(self.headers.items()),
                status=status,
                first_byte=first,
                proxied=bool(parts.netloc),
            )
        )
        if status == 304:
            self.send_response(status)
            self.end_headers()
        elif content is None or status not in (200, 206):
            self._send(status, f"{status}\n".encode(), dict(fault.headers), Fault())
        else:
            self._serve(path, content, slice(first, end), status, fault)

    def _status(self, content: bytes | None, fault: Fault) -> tuple[int, int, int]:
        """Compute the first byte to send, the end (exclusive), and the status."""
        if fault.status:
            return 0, 0, fault.status
        if content is None:
            return 0, 0, self.loopback.missing
        etag, date = _validators(content)
        if self.loopback.validators and self.headers["If-None-Match"] == etag:
            return 0, 0, 304
        asked = self.headers["Range"]
        if not asked or fault.ignores_range or not self.loopback.ranges:
            return 0, len(content), 200
        condition = self.headers["If-Range"]
        if condition and condition not in ((etag, date) if self.loopback.validators else ()):
            return 0, len(content), 200
        first, end = _range(asked, len(content))
        first += fault.shifts_range
        end = min(end, first + self.loopback.most_bytes)
        return (first, end, 206) if first < end else (0, 0, 416)

    def _serve(self, path: str, content: bytes, part: slice, status: int, fault: Fault) -> None:
        headers = {"Content-Type": "text/html" if path.endswith("/") else "application/octet-stream"}
        headers |= fault.headers
        if self.loopback.validators:
            headers["ETag"], headers["Last-Modified"] = _validators(content)
        if self.loopback.ranges:
            headers["Accept-Ranges"] = "bytes"
        if status == 206:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{len(content)}"
        self._send(status, content[part], headers, fault, path)

    def _send(self, status: int, body: bytes, headers: dict[str, str], fault: Fault, path: str = "") -> None:
        self.send_response(status)
        if fault.states_length:
            length = len(body) if fault.content_length is None else fault.content_length
            headers["Content-Length"] = str(length)
        if not fault.states_length or fault.content_length is not None:
            self.close_connection = True
            headers["Connection"] = "close"
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        limits = (len(body), fault.cut_after, fault.reset_after, fault.stall_after)
        end = min(limit for limit in limits if limit is not None)
        for begin in range(0, end, fault.block_bytes):
            block = body[begin : min(begin + fault.block_bytes, end)]
            self.wfile.write(block)
            self.loopback._count(path, len(block))
            if fault.bytes_per_s and self.loopback._closing.wait(len(block) / fault.bytes_per_s):
                break
        if fault.stall_after is not None:
            self.loopback._closing.wait()
        if fault.reset_after is not None:
            time.sleep(0.05)  # a reset discards unsent data
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if end < len(body):
            self.close_connection = True


def _is_allowed(header: str | None, login: str) -> bool:
    return not login or header == f"Basic {base64.b64encode(login.encode()).decode()}"


def _range(asked: str, size: int) -> tuple[int, int]:
    """Parse `bytes=5-9`, `bytes=5-` or `bytes=-5` into the first byte and the end (exclusive)."""
    begin, _, last = asked.removeprefix("bytes=").partition("-")
    if not begin:
        return max(size - int(last), 0), size
    return int(begin), min(int(last) + 1, size) if last else size


def _validators(content: bytes) -> tuple[str, str]:
    digest = hashlib.sha256(content).hexdigest()
    # Both validators change with the contents.
    return f'"{digest[:16]}"', formatdate(1_500_000_000 + int(digest[:6], 16), usegmt=True)


def wait_until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Wait until `condition()` is true; fail the test after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)
