from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv.core.errors import FetchError, PrefixError
from rocenv.core.model import Artifact
from rocenv.core.progress import Progress
from rocenv.net import TRIES, Network
from rocenv.net.body import CHUNK_BYTES
from rocenv.net.download import fetch_all
from rocenv.net.errors import TransientError
from tests.loopback import HTML, Fault, Loopback, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KIB = 1024
DATA = random.Random(1).randbytes(1300 * KIB)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy", "ROCENV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback({"/demo.deb": DATA}) as loopback:
        yield loopback


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "artifacts"


def artifact(url: str, data: bytes = DATA, name: str = "demo") -> Artifact:
    return Artifact(
        kind="deb",
        name=name,
        version="1.0",
        url=url,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )


def fetch(
    wanted: Artifact, cache: Path, network: Network | None = None, notes: io.StringIO | None = None
) -> Path:
    """Fetch one artifact and return its file; assert that no other files remain next to it."""
    progress = Progress(stream=notes or io.StringIO())
    network = network or Network(pause_s=0.01, read_timeout_s=5)
    ((got, file),) = fetch_all([wanted], cache, network, progress)
    assert got is wanted
    assert file == cache / wanted.sha256
    assert hashlib.sha256(file.read_bytes()).hexdigest() == wanted.sha256
    assert sorted(os.listdir(cache)) == [wanted.sha256, f"{wanted.sha256}.lock"]
    return file


def failure(wanted: Artifact, cache: Path, network: Network | None = None) -> FetchError:
    with pytest.raises(FetchError) as caught:
        fetch(wanted, cache, network)
    assert not (cache / wanted.sha256).exists()
    return caught.value


# ---------------------------------------------------------------- whole downloads


def test_parallel_downloads_arrive_complete_in_order_of_completion(tmp_path: Path) -> None:
    bodies = {f"/{number}.deb": os.urandom(number * 40_000) for number in range(12)}
    with Loopback(bodies) as server:
        server.always("/11.deb", Fault(bytes_per_s=2_000_000))
        wanted = [artifact(f"{server.url}{path}", body, path) for path, body in bodies.items()]
        found = list(fetch_all(wanted, tmp_path, Network(), Progress(stream=io.StringIO())))
    assert {item.name: file.read_bytes() for item, file in found} == bodies
    assert found[-1][0].name == "/11.deb"
    assert not [name for name in os.listdir(tmp_path) if ".part" in name]


def test_cached_files_need_no_connection(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    fetch(wanted, cache)
    fetch(wanted, cache, Network(offline=True))
    assert len(server.requests) == 1


@pytest.mark.quick
def test_a_cached_file_of_the_wrong_size_is_fetched_again(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    cache.mkdir(parents=True)
    (cache / wanted.sha256).write_bytes(DATA[:-1])
    fetch(wanted, cache)


def test_an_artifact_that_is_listed_twice_is_fetched_once(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    found = list(fetch_all([wanted, wanted], cache, Network(), Progress(stream=io.StringIO())))
    assert found == [(wanted, cache / wanted.sha256)] * 2
    assert server.sent_bytes("/demo.deb") == len(DATA)


def test_offline_mode_lists_the_missing_artifacts(server: Loopback, cache: Path) -> None:
    error = failure(artifact(f"{server.url}/demo.deb"), cache, Network(offline=True))
    assert error.code == "offline"
    assert "demo 1.0" in error.message
    assert server.requests == []


# ---------------------------------------------------------------- resuming


def test_interrupted_downloads_resume_where_they_stopped(server: Loopback, cache: Path) -> None:
    server.fail("/demo.deb", Fault(cut_after=400_000), Fault(cut_after=300_000))
    fetch(artifact(f"{server.url}/demo.deb"), cache)
    assert [request.first_byte for request in server.requests] == [0, 400_000, 700_000]
    assert [request.status for request in server.requests] == [200, 206, 206]
    assert server.sent_bytes("/demo.deb") == len(DATA)


@pytest.mark.parametrize(
    ("fault", "most"),
    [
        (Fault(cut_after=CHUNK_BYTES), 6),
        (Fault(cut_after=100_000), 14),
        (Fault(reset_after=400_000), 20),
        (Fault(cut_after=10_000), 134),
    ],
)
def test_many_interruptions_are_tolerated_if_each_attempt_makes_progress(
    server: Loopback, cache: Path, fault: Fault, most: int
) -> None:
    server.always("/demo.deb", fault)
    fetch(artifact(f"{server.url}/demo.deb"), cache)
    assert len(server.requests) <= most
    assert server.sent_bytes("/demo.deb") <= 2 * len(DATA)  # bytes lost in a reset are sent again


def test_bytes_received_before_a_reset_are_kept(server: Loopback, cache: Path) -> None:
    server.fail("/demo.deb", Fault(reset_after=100_000))
    fetch(artifact(f"{server.url}/demo.deb"), cache)
    assert [request.first_byte for request in server.requests] == [0, 100_000]


def test_pauses_stay_short_over_thousands_of_short_lived_connections() -> None:
    network = Network()
    broke = TransientError("x", code="x")
    pauses = [network.pause_before(2, broke, advanced=True) for _ in range(10_000)]
    assert sum(pauses) < 300
    asked = TransientError("x", code="x", retry_after_s=7)
    assert network.pause_before(2, asked, advanced=True) == 7


@given(parts=st.lists(st.integers(1, 5000), max_size=30))
def test_random_interruptions_are_tolerated_if_each_attempt_makes_progress(parts: list[int]) -> None:
    position, left = 0, [*parts, 0]

    def attempt() -> None:
        nonlocal position
        if left[0] == 0:
            return
        position += left.pop(0)
        raise TransientError("broke", code="unreachable")

    Network().persist(attempt, lambda: position, wait=lambda _: None)
    assert position == sum(parts)


def test_a_slow_download_fails_but_keeps_the_received_bytes(server: Loopback, cache: Path) -> None:
    server.always("/demo.deb", Fault(bytes_per_s=20, block_bytes=1))
    wanted = artifact(f"{server.url}/demo.deb")
    begin = time.monotonic()
    error = failure(wanted, cache, Network(pause_s=0.001, slow_after_s=0.3))
    assert time.monotonic() - begin < 5
    assert "`127.0.0.1` is too slow" in error.message
    assert len(server.requests) == TRIES
    assert (cache / f"{wanted.sha256}.part").stat().st_size >= TRIES


def test_connections_without_progress_fail_after_the_last_attempt(server: Loopback, cache: Path) -> None:
    server.always("/demo.deb", Fault(cut_after=0))
    error = failure(artifact(f"{server.url}/demo.deb"), cache)
    assert "was lost" in error.message
    assert len(server.requests) == TRIES


def test_a_short_body_without_content_length_is_resumed(server: Loopback, cache: Path) -> None:
    server.fail("/demo.deb", Fault(cut_after=100_000, states_length=False))
    fetch(artifact(f"{server.url}/demo.deb"), cache)
    assert [request.first_byte for request in server.requests] == [0, 100_000]


def test_a_download_restarts_if_the_server_ignores_ranges(server: Loopback, cache: Path) -> None:
    server.fail("/demo.deb", Fault(cut_after=400_000))
    server.always("/demo.deb", Fault(ignores_range=True))
    fetch(artifact(f"{server.url}/demo.deb"), cache)
    assert server.sent_bytes("/demo.deb") == 400_000 + len(DATA)


def test_a_download_restarts_if_the_server_sends_a_different_range(server: Loopback, cache: Path) -> None:
    server.fail("/demo.deb", Fault(cut_after=400_000), Fault(shifts_range=1000))
    fetch(artifact(f"{server.url}/demo.deb"), cache)
    assert [request.status for request in server.requests] == [200, 206, 200]


@pytest.mark.parametrize("validators", [True, False])
def test_a_download_restarts_if_the_file_changed_between_two_attempts(cache: Path, validators: bool) -> None:
    old = bytes(len(DATA))
    with Loopback({"/demo.deb": old}, validators=validators) as server:
        wanted = artifact(f"{server.url}/demo.deb")
        server.fail("/demo.deb", Fault(cut_after=400_000), *[Fault(status=503)] * (TRIES - 1))
        failure(wanted, cache)
        server.files["/demo.deb"] = DATA
        notes = io.StringIO()
        fetch(wanted, cache, notes=notes)
        statuses = [request.status for request in server.requests[TRIES:]]
    # With a validator, the server reports the change immediately; without one, only the hash reveals it.
    assert statuses == ([200] if validators else [206, 200])
    assert ("do not match" in notes.getvalue()) is not validators


def test_a_weak_validator_is_not_used_for_a_range(cache: Path) -> None:
    with Loopback({"/demo.deb": DATA}, validators=False) as server:
        weak = {"ETag": 'W/"1"', "Last-Modified": "Sat, 01 Jan 2022 00:00:00 GMT"}
        server.fail("/demo.deb", Fault(cut_after=400_000, headers=weak))
        fetch(artifact(f"{server.url}/demo.deb"), cache)
        assert server.requests[1].headers["If-Range"] == "Sat, 01 Jan 2022 00:00:00 GMT"


@pytest.mark.parametrize("note", [b"", b"not json", b"[]", b'{"url": 1}', None])
def test_a_lost_validator_does_not_discard_received_bytes(
    server: Loopback, cache: Path, note: bytes | None
) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    cache.mkdir(parents=True)
    (cache / f"{wanted.sha256}.part").write_bytes(DATA[:400_000])
    if note is not None:
        (cache / f"{wanted.sha256}.part.json").write_bytes(note)
    fetch(wanted, cache)
    assert server.sent_bytes("/demo.deb") == len(DATA) - 400_000


@pytest.mark.parametrize(
    ("left", "fetched"),
    [
        (DATA, 0),  # killed just before it was renamed
        (DATA + b"x", len(DATA)),
        (b"x" * len(DATA), len(DATA)),
        (b"x" * 1000, len(DATA) - 1000 + len(DATA)),
    ],
)
def test_leftovers_of_an_earlier_process_are_resumed_or_discarded(
    server: Loopback, cache: Path, left: bytes, fetched: int
) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    cache.mkdir(parents=True)
    (cache / f"{wanted.sha256}.part").write_bytes(left)
    fetch(wanted, cache)
    assert server.sent_bytes("/demo.deb") == fetched


def test_a_second_mirror_resumes_where_the_first_failed(server: Loopback, cache: Path) -> None:
    with Loopback({"/m/demo.deb": DATA}) as mirror:
        mirror.fail("/m/demo.deb", Fault(cut_after=500_000), Fault(status=404))
        network = Network(mirrors=((f"{server.url}/", (f"{mirror.url}/m/",)),), pause_s=0.01)
        notes = io.StringIO()
        fetch(artifact(f"{server.url}/demo.deb"), cache, network, notes)
    assert server.requests[0].first_byte == 500_000
    assert "If-Range" not in server.requests[0].headers
    assert (
        f"`{mirror.url}/m/demo.deb` returned 404 (Not Found); trying `{server.url}/demo.deb`"
        in notes.getvalue()
    )


# ---------------------------------------------------------------- wrong bytes


def test_a_file_with_the_wrong_bytes_is_reported_and_discarded(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    other = bytes(len(DATA))
    server.files["/demo.deb"] = other
    error = failure(wanted, cache)
    assert error.code == "hash-mismatch"
    for expected in (
        "demo 1.0",
        wanted.url,
        wanted.sha256,
        hashlib.sha256(other).hexdigest(),
        str(len(DATA)),
    ):
        assert expected in error.message
    assert not (cache / f"{wanted.sha256}.part").stat().st_size
    assert len(server.requests) == 1


def test_an_oversized_file_is_reported(server: Loopback, cache: Path) -> None:
    server.files["/demo.deb"] = DATA * 3
    error = failure(artifact(f"{server.url}/demo.deb"), cache)
    assert error.code == "hash-mismatch"
    assert "got more than" in error.message
    assert len(server.requests) == 1


def test_a_file_shorter_than_expected_is_reported_as_truncated(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    server.files["/demo.deb"] = DATA[:-1]
    error = failure(wanted, cache)
    assert error.code == "truncated"
    assert f"is truncated: it ends after {len(DATA) - 1} of {len(DATA)} bytes" in error.message
    assert "sha256" not in error.message
    assert len(server.requests) == 1
    server.files["/demo.deb"] = DATA
    fetch(wanted, cache)


@pytest.mark.parametrize("left", [0, 1000])
def test_a_body_shorter_than_its_content_length_is_reported_as_truncated(
    server: Loopback, cache: Path, left: int
) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    cache.mkdir(parents=True)
    (cache / f"{wanted.sha256}.part").write_bytes(DATA[:left])
    server.files["/demo.deb"] = DATA[:500_000]
    server.always("/demo.deb", Fault(content_length=len(DATA)))
    error = failure(wanted, cache)
    assert "truncated" in error.message
    assert "sha256" not in error.message


def test_a_short_body_without_content_length_is_finally_reported_as_truncated(
    server: Loopback, cache: Path
) -> None:
    server.always("/demo.deb", Fault(cut_after=100_000, states_length=False, ignores_range=True))
    error = failure(artifact(f"{server.url}/demo.deb"), cache)
    assert error.code == "truncated"
    assert f"it ends after 100000 of {len(DATA)} bytes" in error.message


def test_a_server_can_send_a_smaller_range_than_requested(cache: Path) -> None:
    with Loopback({"/demo.deb": DATA}, most_bytes=300_000) as server:
        server.fail("/demo.deb", Fault(cut_after=100_000))
        fetch(artifact(f"{server.url}/demo.deb"), cache)
        assert [request.first_byte for request in server.requests] == [0, *range(100_000, len(DATA), 300_000)]


@pytest.mark.parametrize(
    "fault", [Fault(body=HTML), Fault(body=HTML, states_length=False), Fault(body=b"\xef\xbb\xbf \n<HTML>")]
)
def test_a_web_page_instead_of_a_package_is_recognized(server: Loopback, cache: Path, fault: Fault) -> None:
    server.always("/demo.deb", fault)
    error = failure(artifact(f"{server.url}/demo.deb"), cache)
    assert error.code == "hash-mismatch"
    assert "a web page instead of the package (a login page or a mirror's error page)" in error.message


def test_an_endless_body_is_aborted(server: Loopback, cache: Path) -> None:
    server.files["/demo.deb"] = bytes(60_000_000)
    failure(artifact(f"{server.url}/demo.deb"), cache)
    assert server.sent_bytes("/demo.deb") < 30_000_000


def test_a_bad_mirror_is_noted_and_the_original_server_is_used(server: Loopback, cache: Path) -> None:
    with Loopback() as mirror:
        mirror.always("*", Fault(body=HTML))
        network = Network(mirrors=((f"{server.url}/", (f"{mirror.url}/",)),), pause_s=0.01)
        notes = io.StringIO()
        fetch(artifact(f"{server.url}/demo.deb"), cache, network, notes)
        assert "web page" in notes.getvalue()
        server.files.clear()
        error = failure(artifact(f"{server.url}/demo.deb", DATA + b"2"), cache, network)
    assert error.code == "hash-mismatch"
    assert mirror.url in error.message
    assert f"`{server.url}/demo.deb` returned 404" in error.message


def test_wrong_bytes_take_precedence_over_an_unreachable_mirror_in_the_error(
    server: Loopback, cache: Path
) -> None:
    with Loopback() as mirror:
        mirror.always("*", Fault(status=500))
        network = Network(mirrors=((f"{server.url}/", (f"{mirror.url}/",)),), pause_s=0.01)
        assert failure(artifact(f"{server.url}/demo.deb", b"other"), cache, network).code == "hash-mismatch"


def test_a_package_removed_from_the_server_is_reported_as_gone(server: Loopback, cache: Path) -> None:
    error = failure(artifact(f"{server.url}/left.deb"), cache)
    assert error.code == "gone"
    assert len(server.requests) == 1


# ---------------------------------------------------------------- stopping


def test_one_failed_download_stops_the_others_immediately_and_keeps_their_bytes(tmp_path: Path) -> None:
    big = os.urandom(8_000_000)
    with Loopback({"/slow.deb": big}) as server:
        server.always("/slow.deb", Fault(bytes_per_s=800_000))
        server.fail("/lost.deb", Fault(status=503, headers={"Retry-After": "2"}))
        slow = artifact(f"{server.url}/slow.deb", big, "slow")
        lost = artifact(f"{server.url}/lost.deb", name="lost")
        begin = time.monotonic()
        with pytest.raises(FetchError, match=r"lost 1\.0"):
            list(fetch_all([slow, lost], tmp_path, Network(), Progress(stream=io.StringIO())))
        assert time.monotonic() - begin < 6
        wait_until(lambda: not fetching_threads(), 4)
        assert CHUNK_BYTES <= (tmp_path / f"{slow.sha256}.part").stat().st_size < len(big)


def fetching_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rocenv-download"]


def test_a_failed_download_stops_the_others_while_the_caller_is_busy(server: Loopback, cache: Path) -> None:
    there = artifact(f"{server.url}/demo.deb")
    fetch(there, cache)
    big = os.urandom(8_000_000)
    server.files["/slow.deb"] = big
    server.always("/slow.deb", Fault(bytes_per_s=800_000))
    wanted = [artifact(f"{server.url}/slow.deb", big), artifact(f"{server.url}/lost.deb", b"lost"), there]
    results = fetch_all(wanted, cache, Network(), Progress(stream=io.StringIO()))
    assert next(results)[0] is there
    wait_until(lambda: not fetching_threads(), 4)
    with pytest.raises(FetchError, match="404"):
        next(results)


def test_closing_the_generator_stops_all_downloads(tmp_path: Path) -> None:
    big = os.urandom(4_000_000)
    with Loopback({"/slow.deb": big, "/demo.deb": DATA}) as server:
        server.always("/slow.deb", Fault(bytes_per_s=1_000_000))
        wanted = [artifact(f"{server.url}/slow.deb", big, "slow"), artifact(f"{server.url}/demo.deb")]
        with contextlib.closing(
            fetch_all(wanted, tmp_path, Network(), Progress(stream=io.StringIO()))
        ) as results:
            assert next(results)[0].name == "demo"
        wait_until(lambda: not fetching_threads(), 2)
        assert server.sent_bytes("/slow.deb") < len(big)


PROGRAM = """
    import sys
    from pathlib import Path
    from rocenv.net.download import fetch_all
    from rocenv.core.model import Artifact
    from rocenv.net import Network
    from rocenv.core.progress import Progress

    folder, url, sha256, size = sys.argv[1:]
    wanted = Artifact(kind="deb", name="demo", version="1.0", url=url, sha256=sha256, size_bytes=int(size))
    for _ in fetch_all([wanted], Path(folder), Network(), Progress()):
        print("done", flush=True)
"""


def start(wanted: Artifact, cache: Path, before: str = "") -> subprocess.Popen[str]:
    program = textwrap.dedent(before) + textwrap.dedent(PROGRAM)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(cache), wanted.url, wanted.sha256, str(wanted.size_bytes)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("received", [0, 300 * KIB, 1100 * KIB, 1300 * KIB - 1])
@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_resumes_without_repeating_bytes(
    server: Loopback, cache: Path, received: int, way: signal.Signals
) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    server.fail("/demo.deb", Fault(stall_after=received))
    whole_chunks = received // CHUNK_BYTES * CHUNK_BYTES
    part = cache / f"{wanted.sha256}.part"
    child = start(wanted, cache)
    try:
        wait_until(lambda: server.requests and part.exists() and part.stat().st_size >= whole_chunks)
        child.send_signal(way)
        begin = time.monotonic()
        child.wait(10)
        assert time.monotonic() - begin < 3
    finally:
        child.kill()
        child.communicate()
    fetch(wanted, cache)
    again = received + sum(len(DATA) - request.first_byte for request in server.requests[1:]) - len(DATA)
    assert 0 <= again < CHUNK_BYTES
    if whole_chunks:
        assert "If-Range" in server.requests[1].headers


def test_two_processes_share_one_download(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    server.always("/demo.deb", Fault(bytes_per_s=1_500_000))
    children = [start(wanted, cache) for _ in range(2)]
    outputs = [child.communicate(timeout=20) for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    assert [out for out, _ in outputs] == ["done\n", "done\n"]
    assert server.sent_bytes("/demo.deb") == len(DATA)
    assert "waiting for another process that is downloading demo 1.0" in outputs[0][1] + outputs[1][1]


# ---------------------------------------------------------------- the disk


@pytest.mark.parametrize("room", [600 * KIB, 1300 * KIB - 10])
def test_a_full_disk_is_reported_with_hints_and_the_download_can_be_resumed(
    server: Loopback, cache: Path, room: int
) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    limit = f"""
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
    """
    child = start(wanted, cache, limit)
    _, errors = child.communicate(timeout=20)
    assert child.returncode == 1
    assert "NoSpace: no space left" in errors
    fetch(wanted, cache)
    assert server.requests[-1].first_byte == room


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=False, capture_output=True
    )
    if mount.returncode:
        pytest.skip("mounting needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def test_a_real_full_disk_is_reported(server: Loopback, small_disk: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    with pytest.raises(PrefixError) as caught:
        fetch(wanted, small_disk)
    assert caught.value.code == "no-space"
    assert any("rocenv gc" in hint for hint in caught.value.hints)


def test_a_read_only_disk_is_reported(server: Loopback, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(PrefixError) as caught:
        fetch(artifact(f"{server.url}/demo.deb"), small_disk / "artifacts")
    assert caught.value.code == "home-unwritable"
    assert server.requests == []


def test_a_validator_is_stored_with_its_url(server: Loopback, cache: Path) -> None:
    wanted = artifact(f"{server.url}/demo.deb")
    server.fail("/demo.deb", Fault(cut_after=400_000), *itertools.repeat(Fault(status=500), TRIES - 1))
    failure(wanted, cache)
    note = json.loads((cache / f"{wanted.sha256}.part.json").read_bytes())
    assert note["url"] == wanted.url
    assert note["validator"]
