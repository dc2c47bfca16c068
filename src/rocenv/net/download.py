"""Artifacts -> verified files in the cache, several at a time, each resumable by any later process.

One whose hash nobody has published is proved by its size alone, and never put together from several
connections unless the server vouches that they give the same file; its hash is known from then on.

An artifact arrives as `<sha256>.part`, with what the server said about it in `<sha256>.part.json`, under the
lock `<sha256>.lock`; it gets its name, its hash, only once its bytes are proved. So a file of that name is
whole, and nothing else in the folder may be used.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError
from rocenv.net import CHUNK_BYTES, TRIES
from rocenv.net.errors import TransientError, all_failed, mirror_hint, shown
from rocenv.net.partial import Part
from rocenv.system.files import storage_errors
from rocenv.system.locks import locked

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.core.progress import Progress, Stage
    from rocenv.net import Network

STOP_WITHIN_S = 0.5


def fetch_all(
    artifacts: Sequence[Artifact], folder: Path, network: Network, progress: Progress, *, workers: int = 4
) -> Generator[tuple[Artifact, Path], None, None]:
    """Yield each artifact with its verified file as soon as it is there, in order of completion.

    Files of the right name and size count as there and are not hashed again: whoever unpacks one hashes it
    while reading. Ctrl-C, or closing the generator, stops the downloads and keeps what they have.

    Raises:
        FetchError: At once when one artifact cannot be had, naming it and every address that was tried. The
            code is `gone` if all of them answer 404, `hash-mismatch` if one served other bytes, `offline` ...
        PrefixError: The folder cannot be written or the disk is full.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    ready = [artifact for artifact in artifacts if artifact.sha256 and _is_there(artifact, folder)]
    missing = [artifact for artifact in artifacts if artifact not in ready]
    if not missing:
        yield from ((artifact, folder / artifact.sha256) for artifact in ready)
        return
    stop = threading.Event()
    with progress.stage("Fetching", sum(artifact.size_bytes for artifact in missing)) as stage:
        order = _Order(folder=folder, network=network, stage=stage, stop=stop)
        crew = _Crew(missing, lambda artifact: _fetch(artifact, order), stop)
        with crew.at_work(workers):
            # After the start of the crew, so that the caller's work on these overlaps with it.
            yield from ((artifact, folder / artifact.sha256) for artifact in ready)
            yield from crew.results()


class _Crew:
    """The threads that work on what is missing, for the length of a `with` block.

    They are daemons and not a pool: the interpreter waits for a pool at exit, and a thread that listens to a
    silent server may need half a minute to see that it is not wanted any more.
    """

    def __init__(
        self, missing: Sequence[Artifact], work: Callable[[Artifact], Path], stop: threading.Event
    ) -> None:
        self._work = work
        self._stop = stop
        self._left = len(missing)
        self._waiting: queue.SimpleQueue[Artifact] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Artifact, Path]] = queue.SimpleQueue()
        self._failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        for artifact in missing:
            self._waiting.put(artifact)

    @contextlib.contextmanager
    def at_work(self, workers: int) -> Iterator[None]:
        for _ in range(min(workers, self._left)):
            thread = threading.Thread(target=self._toil, daemon=True)
            thread.start()
            self._threads.append(thread)
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join(STOP_WITHIN_S / len(self._threads))

    def results(self) -> Iterator[tuple[Artifact, Path]]:
        while self._left:
            if self._failures:
                raise self._failures[0]
            try:
                # With a limit: Windows delivers Ctrl-C only between two waits.
                result = self._done.get(timeout=0.2)
            except queue.Empty:
                continue
            self._left -= 1
            yield result

    def _toil(self) -> None:
        while not self._stop.is_set():
            try:
                artifact = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._done.put((artifact, self._work(artifact)))
            except _Stopped:
                return
            except BaseException as error:  # the caller's thread raises it
                self._failures.append(error)
                self._stop.set()


class _Stopped(Exception):
    """The caller is not interested any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What all downloads of one `fetch_all` share."""

    folder: Path
    network: Network
    stage: Stage
    stop: threading.Event


def _is_there(artifact: Artifact, folder: Path) -> bool:
    try:
        return (folder / artifact.sha256).stat().st_size == artifact.size_bytes
    except OSError:
        return False


def _fetch(artifact: Artifact, order: _Order) -> Path:
    key = artifact.sha256 or f"first-{hashlib.sha256(artifact.url.encode()).hexdigest()[:32]}"
    waiting = f"waiting for another process that fetches {artifact.name} {artifact.version}"
    with (
        storage_errors(order.folder),
        locked(order.folder / f"{key}.lock", waiting=waiting),
    ):
        # Another process may have completed it while this one waited.
        if artifact.sha256 and _is_there(artifact, order.folder):
            order.stage.skip(artifact.size_bytes)
            return order.folder / artifact.sha256
        with contextlib.closing(Part(order.folder / f"{key}.part", order.stage)) as part:
            _fetch_from_any(artifact, part, order)
            final = order.folder / part.sha256
            part.become(final)
    return final


def _fetch_from_any(artifact: Artifact, part: Part, order: _Order) -> None:
    failures: list[FetchError] = []
    for url in order.network.require_candidates(artifact.url):
        if failures:
            order.stage.note(f"{failures[-1].message}; trying `{shown(url)}`")
        try:
            _fetch_from(url, artifact, part, order)
        except FetchError as error:
            failures.append(error)
            if error.code == "offline":
                break
        else:
            return
    raise all_failed(f"cannot fetch `{artifact.name} {artifact.version}`", failures)


def _fetch_from(url: str, artifact: Artifact, part: Part, order: _Order) -> None:
    """Complete the part from one address and prove it.

    Where bytes of several connections do not make the artifact, that may be because the file changed in
    between or the first of them came from a bad mirror, so it is fetched once more in one go.
    """
    _receive_all(url, artifact, part, order)
    if not artifact.sha256 and part.is_web_page():
        error = _mismatch(url, artifact, part)
        part.restart()
        raise error
    if part.resumed and not part.is_proved(artifact):
        order.stage.note(f"what was there of {artifact.name} does not fit the rest; fetching it anew")
        part.restart()
        _receive_all(url, artifact, part, order)
    if not part.is_proved(artifact):
        error = _mismatch(url, artifact, part)
        part.restart()
        raise error


def _receive_all(url: str, artifact: Artifact, part: Part, order: _Order) -> None:
    """Receive until the end, over as many connections as it takes while each brings something new."""
    attempt, furthest = 1, part.size_bytes
    while part.size_bytes != artifact.size_bytes:
        try:
            return _receive(url, artifact, part, order)
        except TransientError as error:
            if error.code == "range-refused":
                part.restart()
            attempt = 2 if part.size_bytes >= furthest + CHUNK_BYTES else attempt + 1
            furthest = max(furthest, part.size_bytes)
            if attempt > TRIES:
                raise
            if order.stop.wait(order.network.pause_before(attempt, error)):
                raise _Stopped from error


def _receive(url: str, artifact: Artifact, part: Part, order: _Order) -> None:
    """Receive over one connection; on return the server has sent all it wanted, or too much."""
    headers = part.resume_headers(url)
    if not artifact.sha256 and headers and "If-Range" not in headers:
        part.restart()
        headers = {}
    with order.network.open(url, headers) as answer:
        if not artifact.sha256 and url.startswith("https:") and not answer.url.startswith("https:"):
            raise FetchError(
                f"`{shown(url)}` leads to an address that is not encrypted, and no hash of it is known",
                hints=(mirror_hint(url),),
                code="forbidden",
            )
        if answer.status == 206:
            part.resumed = True  # and if these are other bytes than asked for, the hash will tell
        else:
            part.begin(url, answer.headers)
        for chunk in answer.chunks():
            if order.stop.is_set():
                raise _Stopped
            part.write(chunk)
            if part.size_bytes > artifact.size_bytes:
                return
        # Without a stated length a broken connection looks like the end.
        stated = "Content-Length" in answer.headers or "Transfer-Encoding" in answer.headers
        if part.size_bytes < artifact.size_bytes and not stated and not part.is_web_page():
            raise TransientError(f"`{shown(url)}` ended early", code="unreachable")


def _mismatch(url: str, artifact: Artifact, part: Part) -> FetchError:
    name = f"{artifact.name} {artifact.version}"
    if part.is_web_page():
        what = "the server sent a web page instead of the package (a login page or a mirror's error page)"
    else:
        what = f"this is not the file that was promised as `{name}`"
    if part.size_bytes > artifact.size_bytes:
        got = f"more than {artifact.size_bytes} bytes"
    else:
        got = f"{part.size_bytes} bytes with sha256 {part.sha256}"
    hashed = f" with sha256 {artifact.sha256}" if artifact.sha256 else ""
    return FetchError(
        f"`{shown(url)}`: {what}: expected {artifact.size_bytes} bytes{hashed}, got {got}",
        hints=(mirror_hint(url),),
        code="hash-mismatch",
    )
