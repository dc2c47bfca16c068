"""Download artifacts into the cache: in parallel, verified, and resumable by later processes.

An artifact is downloaded to `<sha256>.part` under the lock `<sha256>.lock`; `<sha256>.part.json` stores the
server's validator. After verification it is renamed to its hash, so a file with that name is complete.

If an artifact's hash is not published, its size is checked, and bytes from several connections are combined
only if the server guarantees that they belong to the same file. The first download determines the hash.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import queue
import threading
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING

from rocenv.core.errors import DataError, FetchError
from rocenv.core.foreign import load_json
from rocenv.core.logins import shown
from rocenv.net.body import CHUNK_BYTES, body_chunks, require_range, strong_etag
from rocenv.net.errors import TransientError
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked
from rocenv.system.private import open_own

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.core.progress import Progress, Stage
    from rocenv.net import Network

STOP_WITHIN_S = 0.5
_CONNECTIONS = 4
_HEAD_BYTES = 512


def fetch_all(
    artifacts: Sequence[Artifact], folder: Path, network: Network, progress: Progress
) -> Generator[tuple[Artifact, Path], None, None]:
    """Yield each artifact with its verified file as it completes, in any order.

    A file with the right name and size is not hashed again, because it is hashed when unpacked. Ctrl-C, or
    closing the generator, stops the downloads and keeps the partial files.

    Raises:
        FetchError: An artifact failed; the message names it and every URL tried. The code is `gone` if
            all of them returned 404, `hash-mismatch` if one served different bytes, `truncated` if one served
            too few, `offline` ...
        PrefixError: The folder is not writable, or the disk is full.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    ready = [artifact for artifact in artifacts if artifact.sha256 and _is_cached(artifact, folder)]
    missing = [artifact for artifact in artifacts if artifact not in ready]
    if not missing:
        yield from ((artifact, folder / artifact.sha256) for artifact in ready)
        return
    stop = threading.Event()
    with progress.stage("Fetching", sum(artifact.size_bytes for artifact in missing)) as stage:

        def download(artifact: Artifact) -> Path:
            return _download(artifact, folder, network, stage, stop)

        with _workers(missing, download, stop, min(_CONNECTIONS, len(missing))) as results:
            # Start the workers first, so that the caller's work overlaps with theirs.
            yield from ((artifact, folder / artifact.sha256) for artifact in ready)
            yield from results


@contextlib.contextmanager
def _workers(
    missing: Sequence[Artifact], download: Callable[[Artifact], Path], stop: threading.Event, count: int
) -> Iterator[Iterator[tuple[Artifact, Path]]]:
    """Download in threads while the block runs, and yield the results as they arrive.

    This uses daemon threads instead of an executor, because the interpreter waits for an executor's threads
    at exit, and a thread that reads from a silent server takes half a minute to notice that it should stop.
    """
    waiting: queue.SimpleQueue[Artifact] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[Artifact, Path]] = queue.SimpleQueue()
    failures: list[BaseException] = []

    def work() -> None:
        while not stop.is_set():
            try:
                artifact = waiting.get_nowait()
                done.put((artifact, download(artifact)))
            except (queue.Empty, _Stopped):
                return
            except BaseException as error:  # raised in the caller's thread
                failures.append(error)
                stop.set()

    for artifact in missing:
        waiting.put(artifact)
    threads = [threading.Thread(target=work, name="rocenv-download", daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield _results(len(missing), done, failures)
    finally:
        stop.set()
        for thread in threads:
            thread.join(STOP_WITHIN_S / count)


def _results(
    count: int, done: queue.SimpleQueue[tuple[Artifact, Path]], failures: Sequence[BaseException]
) -> Iterator[tuple[Artifact, Path]]:
    while count:
        if failures:
            raise failures[0]
        # use a timeout, because Windows delivers Ctrl-C only between waits
        with contextlib.suppress(queue.Empty):
            yield done.get(timeout=0.2)
            count -= 1


class _Stopped(Exception):
    """Stops a worker when the caller no longer needs its result."""


def _is_cached(artifact: Artifact, folder: Path) -> bool:
    try:
        return (folder / artifact.sha256).stat().st_size == artifact.size_bytes
    except OSError:
        return False


def _download(
    artifact: Artifact, folder: Path, network: Network, stage: Stage, stop: threading.Event
) -> Path:
    key = artifact.sha256 or f"first-{hashlib.sha256(artifact.url.encode()).hexdigest()[:32]}"
    name = f"{artifact.name} {artifact.version}"
    waiting = f"waiting for another process that is downloading {name}"
    with storage_errors(folder), locked(folder / f"{key}.lock", waiting=waiting):
        # Another process may have completed it in the meantime.
        if artifact.sha256 and _is_cached(artifact, folder):
            stage.skip(artifact.size_bytes)
            return folder / artifact.sha256
        with contextlib.closing(PartialDownload(folder / f"{key}.part", artifact, stage)) as part:
            download = _Download(artifact=artifact, part=part, network=network, stage=stage, stop=stop)
            network.try_each(artifact.url, download.from_address, download.report, name=name)
            final = folder / part.sha256
            part.become(final)
    return final


@dataclass(slots=True, kw_only=True)
class _Download:
    """The download of an artifact into its partial file."""

    artifact: Artifact
    part: PartialDownload
    network: Network
    stage: Stage
    stop: threading.Event
    failure: FetchError | None = None  # from the previous URL

    def report(self, failure: FetchError) -> None:
        self.failure = failure

    def from_address(self, url: str) -> None:
        """Complete the file from one URL and verify it.

        If bytes from several connections have the wrong hash, the file may have changed between connections,
        or the first bytes may have come from a bad mirror, so the file is downloaded again over one
        connection.
        """
        if self.failure:
            self.stage.note(f"{self.failure.message}; trying `{shown(url)}`")
        self._receive_all(url)
        if self.part.resumed and not self.part.is_complete:
            self.stage.note(f"the parts of {self.artifact.name} do not match; downloading it again")
            self.part.restart()
            self._receive_all(url)
        if not self.part.is_complete or (not self.artifact.sha256 and self.part.is_web_page):
            error = self._mismatch(url)
            self.part.restart()
            raise error

    def _receive_all(self, url: str) -> None:
        """Receive the whole file; reconnect as often as needed, as long as each connection makes progress."""
        if self.part.size_bytes != self.artifact.size_bytes:
            self.network.persist(
                lambda: self._receive(url),
                lambda: self.part.size_bytes,
                restart=self.part.restart,
                wait=self._wait,
            )

    def _wait(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise _Stopped

    def _receive(self, url: str) -> None:
        """Receive over one connection until the server has sent everything, or too much."""
        if self.part.size_bytes == self.artifact.size_bytes:
            return  # the connection broke after the last byte
        headers = self.part.resume_headers(url)
        if not self.artifact.sha256 and "If-Range" not in headers:
            self.part.restart()
            headers = {}
        with self.network.open(url, headers) as response:
            if response.status_code == 206:
                require_range(url, response, self.part.size_bytes)
                self.part.resumed = True
            else:
                self.part.begin(url, response.headers)
            for chunk in body_chunks(response):
                if self.stop.is_set():
                    raise _Stopped
                self.part.write(chunk)
                if self.part.size_bytes > self.artifact.size_bytes:
                    return
            # Without a stated length, a broken connection looks like the end of the file, and a server may
            # send a smaller range than requested.
            stated = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
            is_short = self.part.size_bytes < self.artifact.size_bytes
            if is_short and (response.status_code == 206 or not stated) and not self.part.is_web_page:
                raise TransientError(
                    self._truncated(url), code="truncated", hints=(self.network.mirror_hint(url),)
                )

    def _truncated(self, url: str) -> str:
        got, whole = self.part.size_bytes, self.artifact.size_bytes
        return f"`{shown(url)}` is truncated: it ends after {got} of {whole} bytes"

    def _mismatch(self, url: str) -> FetchError:
        artifact, part = self.artifact, self.part
        if part.is_web_page:
            what = "the server sent a web page instead of the package (a login page or a mirror's error page)"
        else:
            what = f"this is not the expected `{artifact.name} {artifact.version}`"
        if part.size_bytes < artifact.size_bytes and not part.is_web_page:
            return FetchError(self._truncated(url), hints=(self.network.mirror_hint(url),), code="truncated")
        if part.size_bytes > artifact.size_bytes:
            got = f"more than {artifact.size_bytes} bytes"
        else:
            got = f"{part.size_bytes} bytes with sha256 {part.sha256}"
        hashed = f" with sha256 {artifact.sha256}" if artifact.sha256 else ""
        return FetchError(
            f"`{shown(url)}`: {what}: expected {artifact.size_bytes} bytes{hashed}, got {got}",
            hints=(self.network.mirror_hint(url),),
            code="hash-mismatch",
        )


class PartialDownload:
    """An open `.part` file; whoever opens it must hold the artifact's lock and close the file.

    Writes are unbuffered, so no bytes are lost if the process is killed. A companion file records the
    server's validator (a strong ETag, or else the date); without it, a file with an unknown hash is not
    resumed.

    Attributes:
        size_bytes: Number of bytes so far.
        resumed: Whether the bytes came over more than one connection.
    """

    def __init__(self, path: Path, artifact: Artifact, stage: Stage) -> None:
        self._path = path
        self._artifact = artifact
        self._validator_file = path.with_name(f"{path.name}.json")
        self._stage = stage
        self._hash = hashlib.sha256()
        self._file = _open_part(path)
        self.size_bytes = 0
        self._file.seek(0)
        while chunk := self._file.read(CHUNK_BYTES):
            self._hash.update(chunk)
            self.size_bytes += len(chunk)
        stage.skip(self.size_bytes)
        self.resumed = self.size_bytes > 0

    @property
    def sha256(self) -> str:
        """The hash of the bytes received so far."""
        return self._hash.hexdigest()

    @property
    def is_complete(self) -> bool:
        """Whether the artifact is complete, judging by its size and, if known, its hash."""
        return self.size_bytes == self._artifact.size_bytes and self._artifact.sha256 in ("", self.sha256)

    @property
    def is_web_page(self) -> bool:
        """Whether the file starts like HTML."""
        self._file.seek(0)
        head = self._file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().lower()
        return head.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))

    def resume_headers(self, url: str) -> dict[str, str]:
        """Return the headers that request the remaining bytes.

        Only the server that sent the validator gets `If-Range`; for other servers, the hash reveals whether
        the file is different.
        """
        if not self.size_bytes:
            return {}
        headers = {"Range": f"bytes={self.size_bytes}-"}
        try:
            known = load_json(self._validator_file)
            if known["url"] == shown(url) and known["validator"]:
                headers["If-Range"] = str(known["validator"])
        except (OSError, DataError, LookupError, TypeError):
            pass  # rocenv was killed before writing the file; the hash is checked anyway
        return headers

    def begin(self, url: str, headers: Mapping[str, str]) -> None:
        """Start over from the first byte, and record the server's validator."""
        self.restart()
        validator = strong_etag(headers) or headers.get("Last-Modified", "")
        self._validator_file.unlink(missing_ok=True)
        # An atomic write is unnecessary, because a truncated file is invalid JSON; it would also leave a
        # temporary file behind if the process were killed.
        with self._validator_file.open("x", encoding="utf-8") as out:
            json.dump({"url": shown(url), "validator": validator}, out)

    def restart(self) -> None:
        """Discard the bytes received so far."""
        self._stage.skip(-self.size_bytes)
        self._file.truncate(0)
        self._hash = hashlib.sha256()
        self.size_bytes = 0
        self.resumed = False

    def write(self, chunk: bytes) -> None:
        """Append a chunk."""
        left = memoryview(chunk)
        while left:
            left = left[self._file.write(left) :]
        self._hash.update(chunk)
        self.size_bytes += len(chunk)
        self._stage.advance(len(chunk))

    def become(self, final: Path) -> None:
        """Rename the complete file, once it is on disk."""
        os.fsync(self._file.fileno())
        self._file.close()
        self._validator_file.unlink(missing_ok=True)
        os.replace(self._path, final)

    def close(self) -> None:
        """Close the file; a later process can resume the download."""
        self._file.close()


def _open_part(path: Path) -> FileIO:
    """Open a partial file for reading and appending; replace anything that is not our file."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    try:
        descriptor = open_own(path, flags)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL):
            raise
        path.unlink()
        descriptor = open_own(path, flags | os.O_EXCL)
    return FileIO(descriptor, "r+")
