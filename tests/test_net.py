from __future__ import annotations

import contextlib
import itertools
import re
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv import __version__
from rocenv.core.errors import FetchError
from rocenv.core.logins import shown
from rocenv.net import TRIES, Network, pace
from rocenv.net.errors import TransientError
from tests.loopback import Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY = b"Package: demo\n" * 1000


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ROCENV_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback({"/index": BODY}) as loopback:
        yield loopback


@pytest.fixture
def network() -> Network:
    return Network(pause_s=0.01)


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def body_of(network: Network, url: str) -> bytes:
    return network.get(url).body


# ---------------------------------------------------------------- mirrors


A_AND_B = {"https://a/": ("https://m/",), "https://a/b/": ("https://n/",)}


@pytest.mark.parametrize(
    ("mirrors", "url", "expected"),
    [
        ({}, "https://a/x", ["https://a/x"]),
        (
            {"https://a/": ("https://m/", "https://n/d")},
            "https://a/x",
            ["https://m/x", "https://n/d/x", "https://a/x"],
        ),
        (
            {"https://a/whl": ("https://m",)},
            "https://a/whl/t.whl",
            ["https://m/t.whl", "https://a/whl/t.whl"],
        ),
        ({"https://a/whl": ("https://m",)}, "https://a/whl-old/t", ["https://a/whl-old/t"]),
        ({"https://a/whl": ("https://m/w",)}, "https://a/whl", ["https://m/w", "https://a/whl"]),
        (A_AND_B, "https://a/b/c", ["https://n/c", "https://m/b/c", "https://a/b/c"]),
        ({"debian:": ("https://m/debian",)}, "debian:pool/x.deb", ["https://m/debian/pool/x.deb"]),
        ({"debian:": ("https://m/debian/",)}, "debian:/pool/x.deb", ["https://m/debian/pool/x.deb"]),
        ({}, "debian:pool/x.deb", []),
        ({"https://a/": ("https://a/", "https://m/")}, "https://a/x", ["https://a/x", "https://m/x"]),
    ],
)
def test_mirrors_are_tried_before_the_original_with_the_longest_prefix_first(
    mirrors: dict[str, tuple[str, ...]], url: str, expected: list[str]
) -> None:
    assert list(Network(mirrors=tuple(mirrors.items())).candidates(url)) == expected


SEGMENT = st.text("abc-.", min_size=1, max_size=3)
PREFIX = st.builds(
    lambda parts, end: "https://h/" + "/".join(parts) + end,
    st.lists(SEGMENT, max_size=3),
    st.sampled_from(["", "/"]),
)
BASES = st.lists(st.sampled_from(["https://m", "https://n/x/"]), min_size=1, max_size=2).map(tuple)


@given(
    mirrors=st.lists(st.tuples(PREFIX, BASES), max_size=4).map(tuple),
    path=st.lists(SEGMENT, min_size=1, max_size=5),
)
def test_rewriting_keeps_the_path_after_the_prefix(
    mirrors: tuple[tuple[str, tuple[str, ...]], ...], path: list[str]
) -> None:
    url = "https://h/" + "/".join(path)
    found = Network(mirrors=mirrors).candidates(url)
    assert found[-1] == url
    assert len(set(found)) == len(found)
    wanted = {url}
    for prefix, bases in mirrors:
        folder = prefix.removesuffix("/") + "/"
        if url == prefix or url.startswith(folder):
            rest = url[len(folder) :] if url != prefix else ""
            wanted |= {(base.rstrip("/") + "/" + rest) if rest else base for base in bases}
    assert set(found) == wanted


def test_a_dead_mirror_is_reported_and_the_next_one_is_used(server: Loopback, network: Network) -> None:
    dead = f"http://127.0.0.1:{unused_port()}/"
    mirrored = Network(mirrors=(("http://name.invalid/d/", (dead, f"{server.url}/")),), pause_s=0.01)
    response = mirrored.get("http://name.invalid/d/index")
    assert (response.body, response.url) == (BODY, f"{server.url}/index")
    assert len(response.passed_over) == 1
    assert "refused the connection" in response.passed_over[0]


def test_a_symbolic_url_without_a_mirror_has_a_hint(network: Network) -> None:
    with pytest.raises(FetchError) as caught:
        network.get("debian:dists/InRelease")
    assert caught.value.code == "no-mirror"
    assert caught.value.hints == (
        "if you have a mirror of `debian:`, set it as `mirrors.debian:`; see `rocenv help config set`",
    )


def test_hints_suggest_known_mirrors_of_the_original(network: Network) -> None:
    known = {"http://127.0.0.1/whl": "", "debian:": "https://m/debian"}
    knowing = replace(
        network, known_mirrors=lambda: known, mirrors=(("http://127.0.0.1/whl", ("http://127.0.0.1:1/",)),)
    )
    assert "`rocenv config mirrors` lists this server's known mirrors" in knowing.mirror_hint(
        "http://127.0.0.1:1/torch.whl"
    )
    assert "`rocenv config set mirrors.debian: https://m/debian`" in knowing.mirror_hint(
        "debian:dists/InRelease"
    )
    assert "set it as `mirrors.http://127.0.0.1/`" in knowing.mirror_hint(
        "http://127.0.0.1/whl-old/torch.whl"
    )
    with pytest.raises(FetchError) as caught:
        knowing.get("http://127.0.0.1:1/torch.whl")
    assert any("rocenv config mirrors" in hint for hint in caught.value.hints)


# ---------------------------------------------------------------- requests


def test_requests_identify_rocenv_and_disable_compression(server: Loopback, network: Network) -> None:
    server.fail("/index", Fault(headers={"Content-Encoding": "gzip"}))
    assert body_of(network, f"{server.url}/index") == BODY
    headers = server.seen("/index")[0].headers
    assert headers["User-Agent"] == f"rocenv/{__version__}"
    assert headers["Accept-Encoding"] == "identity"


def test_an_unchanged_etag_avoids_downloading_the_body(server: Loopback, network: Network) -> None:
    url = f"{server.url}/index"
    first = network.get(url)
    again = network.get(url, etag=first.etag)
    assert (again.unchanged, again.body) == (True, b"")
    assert server.sent_bytes("/index") == len(BODY)
    server.files["/index"] = b"new"
    second = network.get(url, etag=first.etag)
    assert (second.unchanged, second.body, second.etag == first.etag) == (False, b"new", False)


def test_a_redirect_is_followed(server: Loopback, network: Network) -> None:
    server.fail("/old", Fault(status=302, headers={"Location": "/index"}))
    assert body_of(network, f"{server.url}/old") == BODY


def test_an_oversized_body_is_rejected(server: Loopback, network: Network) -> None:
    with pytest.raises(FetchError) as caught:
        network.get(f"{server.url}/index", limit_bytes=100)
    assert caught.value.code == "too-large"
    assert network.get(f"{server.url}/index", limit_bytes=len(BODY)).body == BODY


# ---------------------------------------------------------------- retries


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=503, headers={"Retry-After": "0"}),
        Fault(status=429),
        Fault(cut_after=100),
        Fault(content_length=len(BODY) + 5),
    ],
)
def test_transient_failures_are_retried(server: Loopback, network: Network, fault: Fault) -> None:
    server.fail("/index", *[fault] * (TRIES - 1))
    assert body_of(network, f"{server.url}/index") == BODY
    assert len(server.seen("/index")) == TRIES


@pytest.mark.parametrize("fault", [Fault(cut_after=1000), Fault(reset_after=1000)])
def test_a_download_that_makes_progress_can_use_any_number_of_connections(
    server: Loopback, network: Network, fault: Fault
) -> None:
    server.always("/index", fault)
    assert body_of(network, f"{server.url}/index") == BODY
    assert [request.first_byte for request in server.requests] == list(range(0, len(BODY), 1000))


def test_a_file_without_a_hash_is_resumed_only_if_it_is_known_to_be_unchanged(
    server: Loopback, network: Network
) -> None:
    server.fail("/index", Fault(cut_after=1000))
    weak = {"ETag": 'W/"1"'}
    with Loopback({"/index": BODY}, validators=False) as other:
        for headers in ({}, weak):
            other.fail("/index", Fault(cut_after=1000, headers=headers))
            assert body_of(network, f"{other.url}/index") == BODY
        assert all(request.first_byte == 0 for request in other.requests)
    new = bytes(len(BODY))
    fresh = Network(pause_s=0.5)
    server.fail("/index", Fault(status=503))
    thread = threading.Timer(0.2, lambda: server.files.update({"/index": new}))
    thread.start()
    assert body_of(fresh, f"{server.url}/index") == new
    thread.join()


def test_a_file_with_a_hash_is_resumed_without_an_etag(network: Network) -> None:
    """Package lists can exceed 10 MB, and some mirrors do not send ETags."""
    with Loopback({"/list": BODY}, validators=False) as server:
        server.always("/list", Fault(reset_after=1000))
        assert network.get(f"{server.url}/list", hashed=True).body == BODY
        assert [request.first_byte for request in server.requests] == list(range(0, len(BODY), 1000))


def test_an_unexpected_range_is_not_appended(server: Loopback, network: Network) -> None:
    server.fail("/index", Fault(cut_after=1000), Fault(shifts_range=500))
    assert body_of(network, f"{server.url}/index") == BODY
    assert [request.status for request in server.requests] == [200, 206, 200]


def test_a_truncated_body_is_reported(server: Loopback, network: Network) -> None:
    server.always("/index", Fault(content_length=len(BODY) + 5))
    with pytest.raises(FetchError, match=rf"truncated \({len(BODY)} of {len(BODY) + 5} bytes arrived\)"):
        network.get(f"{server.url}/index")


# ---------------------------------------------------------------- the minimum speed


def test_a_slow_server_is_reported(server: Loopback) -> None:
    server.always("/index", Fault(bytes_per_s=20, block_bytes=1))
    network = Network(pause_s=0.001, slow_after_s=0.3)
    begin = time.monotonic()
    with pytest.raises(FetchError) as caught:
        network.get(f"{server.url}/index")
    assert time.monotonic() - begin < 5
    assert re.search(r"`127\.0\.0\.1` is too slow: [\d.]+ bytes/s", caught.value.message)
    assert caught.value.code == "unreachable"
    assert len(server.requests) == TRIES
    assert any("set it as `mirrors." in hint for hint in caught.value.hints)


def test_slow_headers_also_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=trickle_headers, args=(listener,), daemon=True).start()
        network = Network(pause_s=0.001, slow_after_s=0.2, read_timeout_s=2)
        begin = time.monotonic()
        with pytest.raises(FetchError, match=r"`127\.0\.0\.1` is too slow"):
            network.get(f"http://127.0.0.1:{listener.getsockname()[1]}/index")
        assert time.monotonic() - begin < 5


def trickle_headers(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=send_slowly, args=(connection,), daemon=True).start()


def send_slowly(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.recv(65536)
        for byte in b"HTTP/1.1 200 OK\r\nX: " + bytes(1000):
            connection.send(bytes([byte]))
            time.sleep(0.05)


def test_a_speed_above_the_minimum_is_accepted(server: Loopback) -> None:
    body = BODY[:4096]
    server.always("/index", Fault(body=body, bytes_per_s=8 * 1024, block_bytes=1024))
    network = Network(slow_after_s=0.3)
    assert body_of(network, f"{server.url}/index") == body
    assert len(server.requests) == 1


def test_a_slow_mirror_is_skipped(server: Loopback) -> None:
    with Loopback({"/index": BODY}) as mirror:
        mirror.always("/index", Fault(bytes_per_s=20, block_bytes=1))
        mirrors = ((f"{server.url}/", (f"{mirror.url}/",)),)
        response = Network(mirrors=mirrors, pause_s=0.001, slow_after_s=0.1).get(f"{server.url}/index")
    assert response.url == f"{server.url}/index"
    assert "is too slow" in response.passed_over[0]


def test_progress_below_the_minimum_speed_does_not_reset_the_attempts(server: Loopback) -> None:
    server.always("/index", Fault(stall_after=10))
    network = Network(pause_s=0.001, read_timeout_s=0.1, slow_after_s=0.3)
    with pytest.raises(FetchError):
        network.get(f"{server.url}/index")
    assert len(server.requests) <= TRIES + 3


def test_clock_changes_and_sleep_do_not_make_a_server_slow(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.always("/index", Fault(bytes_per_s=40_000, block_bytes=1000))
    day, asleep = itertools.count(time.time(), 86_400), itertools.count(0, 3600)
    monkeypatch.setattr(time, "time", lambda: next(day))
    monkeypatch.setattr(pace, "monotonic", lambda: next(asleep))
    assert body_of(Network(slow_after_s=0.05), f"{server.url}/index") == BODY


def test_persistent_failures_are_reported_after_the_last_attempt(server: Loopback, network: Network) -> None:
    server.always("/index", Fault(status=503))
    with pytest.raises(FetchError) as caught:
        network.get(f"{server.url}/index")
    assert "503 (Service Unavailable)" in caught.value.message
    assert len(server.seen("/index")) == TRIES


def test_planning_does_not_wait_for_an_unreachable_server() -> None:
    patient = Network(pause_s=5)
    for url in (f"http://127.0.0.1:{unused_port()}/index", "http://name.invalid/index"):
        for attempt in (patient.get, patient.size_of):
            with pytest.raises(FetchError) as caught:
                attempt(url)
            assert caught.value.code == "unreachable"


def test_a_download_waits_for_an_unreachable_server(server: Loopback, network: Network) -> None:
    """The server may just be restarting, and giving up could waste an hour-long download."""
    pauses: list[float] = []

    def attempt() -> str:
        refused = f"http://127.0.0.1:{unused_port()}/"
        with network.open(refused if len(pauses) < TRIES - 1 else f"{server.url}/index"):
            return "done"

    assert network.persist(attempt, wait=pauses.append) == "done"
    assert len(pauses) == TRIES - 1


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "gone"), (410, "gone"), (403, "forbidden"), (400, "fetch-failed"), (304, "fetch-failed")],
)
def test_permanent_failures_are_not_retried(
    server: Loopback, network: Network, status: int, code: str
) -> None:
    server.always("/index", Fault(status=status))
    with pytest.raises(FetchError) as caught:
        network.get(f"{server.url}/index")
    assert caught.value.code == code
    assert f"`{server.url}/index` returned {status}" in caught.value.message
    assert len(server.seen("/index")) == 1


def test_a_file_counts_as_gone_only_if_every_url_returns_404(server: Loopback) -> None:
    dead = f"http://127.0.0.1:{unused_port()}/"
    for original, mirror, code in (
        (f"{server.url}/lost/", f"{server.url}/other/", "gone"),
        (f"{server.url}/lost/", dead, "unreachable"),
        (dead, f"{server.url}/other/", "unreachable"),
    ):
        network = Network(mirrors=((original, (mirror,)),), pause_s=0.001)
        with pytest.raises(FetchError) as caught:
            network.get(f"{original}index")
        assert caught.value.code == code
        assert f"`{mirror}index`" in caught.value.message
        assert f"`{original}index`" in caught.value.message


def test_pauses_between_attempts_grow_and_respect_retry_after_up_to_a_limit() -> None:
    network = Network(pause_s=1.0)
    plain = TransientError("x", code="x")
    for attempt, middle in ((2, 1.0), (3, 2.0), (4, 4.0)):
        assert middle * 0.75 <= network.pause_before(attempt, plain) <= middle * 1.25
    assert network.pause_before(2, TransientError("x", code="x", retry_after_s=7)) == 7
    assert network.pause_before(2, TransientError("x", code="x", retry_after_s=86400)) == 30


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_is_respected(server: Loopback, network: Network, form: str) -> None:
    value = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    server.fail("/index", Fault(status=429, headers={"Retry-After": value}))
    begin = time.monotonic()
    assert body_of(network, f"{server.url}/index") == BODY
    assert time.monotonic() - begin >= 0.9


def test_an_invalid_retry_after_is_ignored(server: Loopback, network: Network) -> None:
    server.fail("/index", Fault(status=429, headers={"Retry-After": "soon"}))
    assert body_of(network, f"{server.url}/index") == BODY


# ---------------------------------------------------------------- clear errors


def test_a_refused_connection_is_a_clear_error(network: Network) -> None:
    url = f"http://127.0.0.1:{unused_port()}/x"
    with pytest.raises(FetchError) as caught:
        network.get(url)
    assert "refused the connection" in caught.value.message
    assert url in caught.value.message
    assert any(f"set it as `mirrors.{url[:-1]}`" in hint for hint in caught.value.hints)


def test_an_unknown_host_name_is_a_clear_error(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_name(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    with pytest.raises(FetchError, match=r"cannot resolve the name `name\.invalid`"):
        network.get("http://name.invalid/x")


def test_a_server_that_does_not_respond_is_a_clear_error(server: Loopback) -> None:
    server.always("/index", Fault(stall_after=10))
    network = Network(pause_s=0.001, read_timeout_s=0.1, slow_after_s=0.1)
    with pytest.raises(FetchError, match=r"sent no data for 0\.1 s"):
        network.get(f"{server.url}/index")


def test_an_untrusted_certificate_is_not_retried(tmp_path: Path, network: Network) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    extra = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *extra], check=True, capture_output=True, timeout=20)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Loopback({"/index": BODY}, tls=context) as server:
        slow = Network(pause_s=20)
        begin = time.monotonic()
        with pytest.raises(FetchError) as caught:
            slow.get(f"{server.url}/index")
        assert time.monotonic() - begin < 5
        assert caught.value.code == "certificate"
        assert "REQUESTS_CA_BUNDLE" in caught.value.hints[0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
            assert body_of(network, f"{server.url}/index") == BODY


@pytest.mark.parametrize("url", ["http://", "http://a b/", "http://[::1/x", "https://127.0.0.1:99999/"])
def test_the_error_for_an_invalid_url_shows_the_url(network: Network, url: str) -> None:
    with pytest.raises(FetchError) as caught:
        network.get(url)
    assert url in caught.value.message


def test_a_redirect_loop_is_an_error(server: Loopback, network: Network) -> None:
    server.always("/loop", Fault(status=302, headers={"Location": "/loop"}))
    with pytest.raises(FetchError, match="is not a valid URL"):
        network.get(f"{server.url}/loop")


def test_passwords_in_urls_are_not_shown() -> None:
    with pytest.raises(FetchError) as caught:
        Network(pause_s=0.001).get(f"http://me:secret@127.0.0.1:{unused_port()}/x")
    assert "secret" not in caught.value.message + " ".join(caught.value.hints)
    assert shown("https://me:secret@host/x?y") == "https://host/x?y"


# ---------------------------------------------------------------- offline, proxies


def test_offline_mode_makes_no_connections(server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{server.url}/index"
    with pytest.raises(FetchError) as by_flag:
        Network(offline=True).get(url)
    monkeypatch.setenv("ROCENV_OFFLINE", "1")
    with pytest.raises(FetchError) as by_environment:
        Network().get(url)
    assert by_flag.value.code == by_environment.value.code == "offline"
    assert "--offline" in by_flag.value.message
    assert by_environment.value.hints == ("unset ROCENV_OFFLINE",)
    assert server.requests == []
    monkeypatch.setenv("ROCENV_OFFLINE", "0")
    assert body_of(Network(), url) == BODY


@pytest.mark.parametrize("way", ["environment", "argument"])
def test_a_proxy_is_used(server: Loopback, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "environment":
        monkeypatch.setenv("http_proxy", server.url)
    network = Network(pause_s=0.001, proxy=server.url if way == "argument" else "")
    assert body_of(network, "http://name.invalid/index") == BODY
    assert server.requests[0].proxied


def test_proxy_variables_override_the_proxy_from_apt_and_no_proxy_applies(
    server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(pause_s=0.001, proxy=f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("http_proxy", server.url)
    assert body_of(network, "http://name.invalid/index") == BODY
    monkeypatch.delenv("http_proxy")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert body_of(network, f"{server.url}/index") == BODY
    assert [request.proxied for request in server.requests] == [True, False]


def test_a_dead_proxy_is_reported_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{unused_port()}")
    with pytest.raises(FetchError) as caught:
        Network(pause_s=0.001).get("http://name.invalid/index")
    assert "proxy" in caught.value.message
    assert "http_proxy" in caught.value.hints[0]
