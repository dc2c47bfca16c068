"""Plain HTTP, over which rocenv does not read indexes or unsigned files, even after a redirect."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.errors import FetchError, RocenvError
from rocenv.net import Network
from rocenv.sources.encryption import is_trusted, require_encrypted
from rocenv.sources.general_index import from_first
from rocenv.sources.interpreter import _install
from rocenv.sources.simple_index import SimpleIndex
from rocenv.sources.uv import Uv
from tests.loopback import Fault, Loopback
from tests.wheels.index import Wheel, build_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.core.model import Artifact
    from rocenv.sources.interpreter import Interpreter
    from rocenv.sources.uv_outcome import Outcome

PLAIN = "http://corp.invalid/simple"  # reached through a proxy, so nothing leaves this machine
NO_PIP = {"PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def wheel() -> Wheel:
    return build_wheel("thing", "1.0")


@pytest.fixture
def plain(wheel: Wheel) -> Iterator[Loopback]:
    """A plain HTTP server, which also acts as a proxy for all other hosts."""
    with Loopback(_site(wheel, f"/{wheel.filename}#sha256={wheel.sha256}")) as server:
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    for extension in ("subjectAltName=IP:127.0.0.1", "basicConstraints=critical,CA:FALSE"):
        command += f" -addext {extension}"
    out = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run([*command.split(), *out], check=True, capture_output=True, timeout=20)
    return folder / "certificate.pem"


@pytest.fixture
def secure(certificate: Path) -> Iterator[Loopback]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with Loopback(tls=context) as server:
        yield server


def _site(wheel: Wheel, link: str) -> dict[str, bytes]:
    page = f'<a href="{link}">{wheel.filename}</a>'.encode()
    return {"/simple/thing/": page, f"/{wheel.filename}": wheel.data}


def with_settings(uv: Uv, **more: str) -> Uv:
    environ = {name: value for name, value in uv.environ.items() if name.upper() != "NO_PROXY"}
    return replace(uv, environ={**environ, **NO_PIP, **more})


# ---------------------------------------------------------------- plain HTTP indexes


def test_a_plain_http_index_is_rejected_with_the_setting_in_a_hint(
    uv: Uv, python: Interpreter, plain: Loopback
) -> None:
    uv = with_settings(uv, http_proxy=plain.url)
    for ask in (
        lambda: uv.resolve(["thing"], index_url=PLAIN, python=python),
        lambda: uv.select(["thing"], index_url=PLAIN, python=python),
        lambda: uv.select(["thing"], index_url="", page=f"{PLAIN}/", python=python),
    ):
        with pytest.raises(FetchError, match=r"the index from `http://corp\.invalid/") as caught:
            ask()
        assert caught.value.code == "unencrypted"
        assert "`PIP_TRUSTED_HOST=corp.invalid`" in caught.value.hints[1]
    assert not plain.requests


@pytest.mark.parametrize("way", ["pip", "uv", "file", "file for install"])
def test_an_index_on_a_trusted_host_is_read(
    uv: Uv, python: Interpreter, plain: Loopback, wheel: Wheel, tmp_path: Path, way: str
) -> None:
    config = tmp_path / "pip.conf"
    section = "install" if way == "file for install" else "global"
    config.write_text(f"[{section}]\ntrusted-host =\n    other.invalid\n    corp.invalid\n")
    by_file = {"PIP_CONFIG_FILE": str(config)}
    settings = {"pip": {"PIP_TRUSTED_HOST": "a corp.invalid"}, "uv": {"UV_INSECURE_HOST": "corp.invalid:80"}}
    if way == "uv":
        settings["uv"] = {"UV_INSECURE_HOST": "http://corp.invalid"}
    uv = with_settings(uv, http_proxy=plain.url, **settings.get(way, by_file))
    (found,) = uv.resolve(["thing"], index_url=PLAIN, python=python)
    assert (found.sha256, found.url) == (wheel.sha256, f"http://corp.invalid/{wheel.filename}")
    assert all(request.proxied for request in plain.requests)


@pytest.mark.parametrize(
    ("named", "url", "expected"),
    [
        ("corp.invalid", "http://corp.invalid/x", True),
        ("corp.invalid", "http://corp.invalid:8080/x", True),
        ("corp.invalid:8080", "http://corp.invalid:8080/x", True),
        ("corp.invalid:8080", "http://corp.invalid/x", False),
        ("CORP.invalid", "http://corp.INVALID/x", True),
        ("[::2]:80", "http://[::2]:80/x", True),
        ("corp.invalid", "http://corp.invalid.evil.invalid/x", False),
        ("corp.invalid", "http://evil.invalid/corp.invalid", False),
        ("corp.invalid", "http://corp.invalid@evil.invalid/", False),
        ("*", "http://corp.invalid/x", False),
        ("invalid", "http://corp.invalid/x", False),
        ("[::1 x:y", "http://[::1/x", False),
    ],
)
def test_a_host_is_trusted_only_if_its_name_and_port_match(named: str, url: str, expected: bool) -> None:
    assert is_trusted(url, {**NO_PIP, "PIP_TRUSTED_HOST": named}) == expected


def test_an_invalid_index_url_is_a_clear_error() -> None:
    with pytest.raises(FetchError, match="is not encrypted"):
        require_encrypted(("http://[::1/",), NO_PIP, "the index")


def test_the_mirror_after_a_plain_http_one_is_tried_with_a_note(
    uv: Uv, python: Interpreter, said: list[str]
) -> None:
    def ask(url: str) -> str:
        if url != "https://good.invalid":
            uv.resolve(["thing"], index_url=url, python=python)
        return url

    uv = with_settings(uv)
    assert from_first((PLAIN, "https://good.invalid"), ask, uv) == "https://good.invalid"
    assert "is not encrypted" in said[0]
    assert said[0].endswith("trying https://good.invalid")


def test_pages_that_rocenv_reads_itself_must_also_be_encrypted(
    plain: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", plain.url)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    mirrors = (("https://index.invalid/simple/", (f"{PLAIN}/",)),)

    def newest() -> Artifact:
        network = Network(mirrors=mirrors, pause_s=0.001)
        index = SimpleIndex(
            url="https://index.invalid/simple/",
            network=network,
            kept=tmp_path,
            key_file=tmp_path / "key",
            rank=lambda _: 0,
        )
        return index.newest("thing", lambda _: True)

    with pytest.raises(FetchError, match="is not encrypted") as caught:
        newest()
    assert "trusted-host = corp.invalid" in caught.value.hints[1]
    assert not plain.requests
    monkeypatch.setenv("PIP_TRUSTED_HOST", "corp.invalid")
    assert newest().version == "1.0"


# ---------------------------------------------------------------- redirects to plain HTTP


@pytest.mark.parametrize("no_proxy", ["", "127.0.0.1", "*"])
def test_uv_does_not_follow_a_redirect_from_an_index_to_plain_http(
    uv: Uv, python: Interpreter, secure: Loopback, plain: Loopback, certificate: Path, no_proxy: str
) -> None:
    place = f"{plain.url}/simple/thing/"
    secure.always("/simple/thing/", Fault(status=302, headers={"Location": place}))
    uv = with_settings(uv, SSL_CERT_FILE=str(certificate), no_proxy=no_proxy)
    with pytest.raises(FetchError, match=r"a link from .* to `http://127") as caught:
        uv.resolve(["thing"], index_url=f"{secure.url}/simple", python=python)
    assert (caught.value.code, plain.requests) == ("unencrypted", [])


@pytest.mark.parametrize("place", ["index", "page", "file"])
def test_uvs_result_is_rejected_if_it_bypassed_the_proxy_for_a_plain_http_url(
    uv: Uv,
    python: Interpreter,
    secure: Loopback,
    plain: Loopback,
    certificate: Path,
    wheel: Wheel,
    place: str,
) -> None:
    """rocenv cannot prevent uv from using such a URL, so it rejects the result, even if uv cached it."""
    secure.files = {f"/{wheel.filename}": wheel.data}
    plain.files = _site(wheel, f"{secure.url}/{wheel.filename}#sha256={wheel.sha256}")
    asked = f"{secure.url}/simple"
    path = {"index": "/simple/thing/", "page": "/simple/", "file": f"/{wheel.filename}"}[place]
    if place == "page":
        plain.files["/simple/"] = plain.files["/simple/thing/"]
    if place == "file":
        secure.files |= _site(wheel, f"/{wheel.filename}#sha256={wheel.sha256}")
    secure.always(path, Fault(status=302, headers={"Location": f"{plain.url}{path}"}))
    exception = {"https_proxy": "http://proxy.invalid", "no_proxy": "127.0.0.1"}
    uv = with_settings(uv, SSL_CERT_FILE=str(certificate), **exception)

    def ask(uv: Uv) -> object:
        if place == "page":
            return uv.select(["thing"], index_url="", page=f"{asked}/", python=python)
        return uv.resolve(["thing"], index_url=asked, python=python)

    with pytest.raises(FetchError, match=r"a link from .* to `http://127") as caught:
        ask(uv)
    assert caught.value.code == "unencrypted"
    assert plain.requests
    for later in (uv, replace(uv, offline=True)):
        with pytest.raises(RocenvError):
            ask(later)


def test_a_cache_that_an_interrupted_call_did_not_check_is_discarded(
    uv: Uv,
    python: Interpreter,
    secure: Loopback,
    plain: Loopback,
    certificate: Path,
    wheel: Wheel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secure.files = {f"/{wheel.filename}": wheel.data}
    plain.files = _site(wheel, f"{secure.url}/{wheel.filename}#sha256={wheel.sha256}")
    secure.always("/simple/thing/", Fault(status=302, headers={"Location": f"{plain.url}/simple/thing/"}))
    exception = {"https_proxy": "http://proxy.invalid", "no_proxy": "127.0.0.1"}
    uv = with_settings(uv, SSL_CERT_FILE=str(certificate), **exception)
    run = Uv.run

    def interrupted(self: Uv, *arguments: str, **options: Any) -> Outcome:
        run(self, *arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Uv, "run", interrupted)
        uv.resolve(["thing"], index_url=f"{secure.url}/simple", python=python)
    assert plain.requests
    with pytest.raises(FetchError, match="not fully cached"):
        replace(uv, offline=True).resolve(["thing"], index_url=f"{secure.url}/simple", python=python)


def test_uv_does_not_read_files_from_plain_http_urls(
    uv: Uv, python: Interpreter, secure: Loopback, plain: Loopback, certificate: Path, wheel: Wheel
) -> None:
    """uv would download and trust the wheel, because the page contains no hash."""
    secure.files = _site(wheel, f"{plain.url}/{wheel.filename}")
    uv = with_settings(uv, SSL_CERT_FILE=str(certificate))
    with pytest.raises(FetchError, match=r"a link from .* to `http://127") as caught:
        uv.resolve(["thing"], index_url=f"{secure.url}/simple", python=python)
    assert (caught.value.code, plain.requests) == ("unencrypted", [])


def test_a_plain_http_redirect_is_rejected_even_between_encrypted_ones(
    secure: Loopback, plain: Loopback, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.files = {"/end": b"x"}
    secure.always("/begin", Fault(status=302, headers={"Location": "http://corp.invalid/middle"}))
    plain.always("/middle", Fault(status=302, headers={"Location": f"{secure.url}/end"}))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    monkeypatch.setenv("http_proxy", plain.url)
    with pytest.raises(FetchError, match=r"redirects to `http://corp\.invalid/middle`"):
        Network(pause_s=0.001).get(f"{secure.url}/begin")


# ---------------------------------------------------------------- certificates


SWITCHES = {
    "CURL_CA_BUNDLE": "",
    "GIT_SSL_NO_VERIFY": "1",
    "PIP_TRUSTED_HOST": "127.0.0.1",
    "PYTHONHTTPSVERIFY": "0",
    "SSL_CERT_FILE": "",
    "UV_INSECURE_HOST": "127.0.0.1",
}


def test_no_setting_disables_certificate_checks(
    uv: Uv, python: Interpreter, secure: Loopback, wheel: Wheel, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.files = _site(wheel, f"/{wheel.filename}#sha256={wheel.sha256}")
    for name, value in SWITCHES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    with pytest.raises(FetchError) as of_rocenv:
        Network(pause_s=0.001).get(f"{secure.url}/simple/thing/")
    assert of_rocenv.value.code == "certificate"
    uv = with_settings(uv, **SWITCHES)
    with pytest.raises(FetchError, match="the certificate of https://127") as of_uv:
        uv.resolve(["thing"], index_url=f"{secure.url}/simple", python=python)
    assert of_uv.value.code == "certificate"
    assert any(hint.startswith("rocenv ignores UV_INSECURE_HOST") for hint in of_uv.value.hints)
    assert not secure.requests


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")
def test_uv_gets_only_safe_environment_variables(
    uv: Uv, python: Interpreter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import uv as package

    fake = tmp_path / "uv"
    fake.write_text(f"#!{sys.executable}\nimport json, os\nprint(json.dumps(dict(os.environ)))\n")
    fake.chmod(0o755)
    monkeypatch.setattr(package, "find_uv_bin", lambda: str(fake))

    def seen(**more: str) -> dict[str, str]:
        found: dict[str, str] = json.loads(with_settings(uv, **SWITCHES, **more).run("x").stdout)
        return found

    base = seen()
    kept = {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}  # uv treats empty variables as unset
    assert SWITCHES.keys() & base.keys() <= kept
    assert base["http_proxy"] == "http://127.0.0.1:0"
    assert "HTTP_PROXY" not in seen(HTTP_PROXY="http://p.invalid")
    assert "NO_PROXY" not in seen(NO_PROXY="*")
    behind = seen(HTTPS_PROXY="http://p.invalid", NO_PROXY="corp.invalid", HTTP_PROXY="http://p.invalid")
    assert (behind["HTTPS_PROXY"], behind["NO_PROXY"]) == ("http://p.invalid", "corp.invalid")
    assert behind["http_proxy"] == "http://127.0.0.1:0"

    # uv knows the hash of each Python, so a mirror may use plain HTTP, but a custom Python list may not.
    mirror = with_settings(uv, UV_PYTHON_INSTALL_MIRROR="http://corp.invalid/pythons", http_proxy="http://p")
    assert json.loads(_install("3.12", mirror).stdout)["http_proxy"] == "http://p"
    listed = {"UV_PYTHON_DOWNLOADS_JSON_URL": "http://corp.invalid/list.json"}
    with pytest.raises(RocenvError, match="UV_PYTHON_DOWNLOADS_JSON_URL"):
        _install("3.12", with_settings(uv, **listed))
    assert _install("3.12", with_settings(uv, **listed, PIP_TRUSTED_HOST="corp.invalid")).code == 0
