"""Small real wheels, and a simple index (PEP 503 and 658) on loopback that serves them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Wheel:
    filename: str
    data: bytes
    metadata: bytes

    @property
    def project(self) -> str:
        return self.filename.split("-")[0].lower().replace("_", "-")

    @property
    def tag(self) -> str:
        return self.filename.removesuffix(".whl").split("-", 2)[2]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def build_wheel(
    name: str,
    version: str,
    *,
    tag: str = "py3-none-any",
    requires: Sequence[str] = (),
    files: Mapping[str, bytes] | None = None,
    extras: Mapping[str, Sequence[str]] | None = None,
    requires_python: str = ">=3.8",
    script: str = "",
    false_record: bool = False,
    hex_record: bool = False,
    algorithm: str = "sha256",
    compression: int = zipfile.ZIP_STORED,
) -> Wheel:
    """Build a wheel with METADATA, WHEEL and a correct RECORD, and with one module unless `files` is given.

    Args:
        extras: Extra -> its requirements.
        script: The lines that define its console scripts.
        hex_record: Write hex hashes to RECORD instead of base64, as AMD's tools do.
        algorithm: The name of the hash in RECORD.
    """
    module = name.replace("-", "_")
    stem = f"{module}-{version}"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if requires_python:
        metadata += f"Requires-Python: {requires_python}\n"
    metadata += "".join(f"Requires-Dist: {item}\n" for item in requires)
    for extra, items in (extras or {}).items():
        metadata += f"Provides-Extra: {extra}\n"
        metadata += "".join(f"Requires-Dist: {_with_marker(item, extra)}\n" for item in items)
    members = dict(files or {f"{module}/__init__.py": f"__version__ = {version!r}\n".encode()})
    members[f"{stem}.dist-info/METADATA"] = metadata.encode()
    members[f"{stem}.dist-info/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    )
    if script:
        members[f"{stem}.dist-info/entry_points.txt"] = f"[console_scripts]\n{script}\n".encode()
    twist = b"?" if false_record else b""
    digest = _hex if hex_record else _digest
    record = [f"{path},{algorithm}={digest(data + twist)},{len(data)}" for path, data in members.items()]
    members[f"{stem}.dist-info/RECORD"] = "\n".join([*record, f"{stem}.dist-info/RECORD,,", ""]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, data in members.items():
            info = zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0))
            is_program = "/bin/" in path or "/ld-linux" in path
            info.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(info, data, compression)
    return Wheel(f"{stem}-{tag}.whl", out.getvalue(), metadata.encode())


def _with_marker(requirement: str, extra: str) -> str:
    text, _, marker = requirement.partition(";")
    return f"{text}; {marker.strip()} and extra == '{extra}'" if marker else f"{text}; extra == '{extra}'"


def _hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@dataclass
class Index:
    """The behavior of the server; change a field to make it misbehave."""

    base: str  # http://127.0.0.1:PORT
    wheels: dict[str, list[Wheel]] = field(default_factory=dict)  # index folder -> its wheels
    html: bool = False  # respond to every request with a page that is not an index
    hashed: bool = True  # include the hash of each file
    headless: bool = False  # break the connection on requests for a file's size
    login: str = ""  # NAME:PASSWORD that every request must contain, or "" for none
    busy: list[str] = field(default_factory=list)  # path suffixes whose first request gets a 503
    asked: list[str] = field(default_factory=list)  # every requested path

    def url(self, folder: str) -> str:
        return f"{self.base}/{folder}"

    def answer(self, path: str) -> tuple[int, str, bytes]:
        self.asked.append(path)
        for end in self.busy:
            if path.endswith(end):
                self.busy.remove(end)
                return 503, "text/plain", b"overloaded"
        if self.html:
            return 200, "text/html", b"<!doctype html><title>Sign in</title><p>Please sign in to the network"
        folder, _, last = path.strip("/").rpartition("/")
        for wheel in self.wheels.get(folder, []):
            name = quote(wheel.filename)
            if last == name + ".metadata":
                return 200, "text/plain", wheel.metadata
            if last == name:
                return 200, "application/zip", wheel.data
        page = [wheel for wheel in self.wheels.get(folder, []) if wheel.project == last]
        if page:
            return 200, "text/html", self._page(folder, page)
        if whole := self.wheels.get(path.strip("/")):  # one page with all wheels
            return 200, "text/html", self._page(path.strip("/"), whole)
        return 404, "text/plain", b"no such thing"

    def _page(self, folder: str, wheels: list[Wheel]) -> bytes:
        lines = ["<!DOCTYPE html><html><body>"]
        for wheel in wheels:
            metadata = hashlib.sha256(wheel.metadata).hexdigest()
            fragment = f"#sha256={wheel.sha256}" if self.hashed else ""
            lines.append(
                f'<a href="/{folder}/{quote(wheel.filename)}{fragment}" '
                f'data-dist-info-metadata="sha256={metadata}" data-core-metadata="sha256={metadata}">'
                f"{wheel.filename}</a><br/>"
            )
        return "\n".join([*lines, "</body></html>"]).encode()


@contextlib.contextmanager
def serve() -> Iterator[Index]:
    """Serve an empty index until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            if index.headless:
                self.close_connection = True
            else:
                self.do_GET()

        def do_GET(self) -> None:
            expected = f"Basic {base64.b64encode(index.login.encode()).decode()}"
            if index.login and self.headers["Authorization"] != expected:
                status, kind, body = 401, "text/plain", b"who are you?"
            else:
                status, kind, body = index.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index = Index(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
