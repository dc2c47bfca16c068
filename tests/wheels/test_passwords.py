"""Passwords in mirror URLs, which rocenv uses but must write only to the settings."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

import rocenv.sources.uv
from rocenv import config
from rocenv.context import Context
from rocenv.core.errors import DataError, FetchError
from rocenv.core.logins import mask_logins
from rocenv.core.model import Request
from rocenv.home import Home
from rocenv.net import Network
from rocenv.plan import make_plan
from rocenv.system import process
from tests.amd_index import AmdIndex
from tests.wheels.index import Index, build_wheel, serve
from tests.wheels.test_create_torch import ORIGINAL, ROWS
from tests.wheels.test_rocm_wheels import World, write_settings

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from rocenv.sources.interpreter import Interpreter
    from tests.mini import Mini

NAME = "anna"
PLAIN, ENCODED = "hunter2-secret", "hunter2/@:#?% secret"


def with_login(url: str, password: str) -> str:
    return url.replace("://", f"://{NAME}:{quote(password, safe='')}@", 1)


def forms(password: str) -> list[bytes]:
    """Return a password as it appears in plain text, in a URL and in a header."""
    header = base64.b64encode(f"{NAME}:{password}".encode())
    return [b"hunter2", header.rstrip(b"=")[:-2]]


def holders(folder: Path, password: str, but: tuple[str, ...] = ("config.toml",)) -> list[str]:
    """List the files below a folder that contain a password."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in but and not path.is_symlink():
            content = path.read_bytes()
            found += [str(path) for form in forms(password) if form in content]
        assert "hunter2" not in str(path)
    return found


def said(done: subprocess.CompletedProcess[str], password: str) -> bool:
    text = (done.stdout + done.stderr).encode()
    return any(form in text for form in forms(password))


def collect(mini: Mini, name: str, out: Path, env: Mapping[str, str] = MappingProxyType({})) -> None:
    """Create the files that users send to others: a support bundle and a `verify` report."""
    for variable in (
        "ROCENV_SYSROOT",
        "ROCENV_TARGET",
        "ROCENV_PROFILES",
    ):  # these files stay on this machine
        del mini.env[variable]
    mini.env.update(env)
    done = mini.run("doctor", "--collect", str(out / "bundle.json"))
    assert (out / "bundle.json").exists(), done.stderr
    done = mini.run("verify", name, "--report", str(out / "report.json"))
    assert (out / "report.json").exists(), done.stderr


def look(mini: Mini, done: subprocess.CompletedProcess[str], password: str, name: str = "demo") -> None:
    """Check the output of `create`, the exported lock, and all files."""
    assert done.returncode == 0, done.stderr
    assert not said(done, password), (done.stdout, done.stderr)
    for command in (("lock", name), ("doctor", "--json")):
        done = mini.run(*command, NO_PROXY="127.0.0.1")
        assert done.stdout, (command, done.stderr)
        assert not said(done, password), (command, done.stdout, done.stderr)
    assert holders(mini.home, password) == []


def look_everywhere(mini: Mini, password: str, name: str = "demo") -> None:
    """Run every command that prints or writes data about an env, and check all output."""
    out = mini.root / "out"
    out.mkdir()
    (out / "app.log").write_text("hipErrorNoBinaryForGpu\n")
    commands = [
        ("resolve", "--rocm", "5.7", "--json"),
        ("lock", name),
        ("lock", name, "-o", str(out / "x.lock")),
        ("show", name, "--json"),
        ("list", "--json"),
        ("verify", name, "--json"),
        ("doctor", "--json"),
        ("diagnose", str(out / "app.log"), "--json"),
        ("matrix", "--json"),
        ("gc",),
        ("cache",),
        ("config", "get", "defaults.rocm"),
        ("explain", "gfx1100"),
        ("clone", name, "second"),
        ("create", "third", "--from", str(out / "x.lock"), "--no-verify", "--json"),
        ("repair", name),
    ]
    for command in commands:
        done = mini.run(*command, NO_PROXY="127.0.0.1")
        assert done.returncode != 3, (command, done.stderr)
        assert not said(done, password), (command, done.stdout, done.stderr)
    collect(mini, name, out)
    assert holders(out, password) == []
    assert holders(mini.home, password) == []


class TestDebianPackages:
    def test_the_password_of_a_configured_mirror_is_not_revealed(self, mini: Mini) -> None:
        mini.server.login = f"{NAME}:{ENCODED}"
        address = with_login(f"{mini.server.url}/debian", ENCODED)
        assert mini.run("config", "set", "mirrors.debian:", address).returncode == 0
        done = mini.create("demo", "--json")
        assert not said(done, ENCODED), done.stderr
        assert f'"{mini.server.url}/debian/pool' in mini.run("lock", "demo").stdout
        for each in (mini.home / "cache" / "artifacts").iterdir():
            each.unlink()
        shutil.rmtree(mini.home / "store", onerror=None)
        look_everywhere(mini, ENCODED)

    def test_the_password_of_an_apt_mirror_is_not_revealed(self, mini: Mini) -> None:
        mini.server.login = f"{NAME}:{ENCODED}"
        sources = mini.sysroot / "etc/apt/sources.list.d/mini.sources"
        sources.write_text(sources.read_text().replace(mini.server.url, with_login(mini.server.url, ENCODED)))
        look(mini, mini.create("demo", "--json"), ENCODED)

    def test_a_password_in_netrc_is_not_revealed(self, mini: Mini) -> None:
        """`.netrc` contains the password unescaped."""
        mini.server.login = f"{NAME}:{PLAIN}"
        (mini.root / "user" / ".netrc").write_text(f"machine 127.0.0.1 login {NAME} password {PLAIN}\n")
        look(mini, mini.create(), PLAIN)

    def test_a_wrong_password_is_not_revealed(self, mini: Mini) -> None:
        mini.server.login = "anna:another"
        mirror = with_login(f"{mini.server.url}/debian", ENCODED)
        assert mini.run("config", "set", "mirrors.debian:", mirror).returncode == 0
        for argv in (("create", "demo", "--rocm", "5.7", "--json"), ("create", "demo", "--rocm", "5.7")):
            done = mini.run(*argv)
            assert done.returncode == 1
            assert "401 (Unauthorized)" in done.stdout + done.stderr
            assert not said(done, ENCODED), done.stderr
        assert holders(mini.home, ENCODED) == []

    @pytest.mark.parametrize("server", ["http://127.0.0.1:1", "http://no-such-host.invalid"])
    def test_the_password_of_an_unreachable_mirror_is_not_revealed(self, server: str) -> None:
        network = Network(mirrors=(("debian:", (with_login(server, ENCODED),)),), pause_s=0.001)
        with pytest.raises(FetchError) as caught:
            network.get("debian:dists/mini/InRelease")
        text = "\n".join((str(caught.value), caught.value.message, *caught.value.hints))
        assert server in text
        assert not any(form in text.encode() for form in forms(ENCODED))

    def test_an_interrupted_download_does_not_reveal_the_password(self, mini: Mini) -> None:
        from tests.loopback import Fault

        mini.server.login = f"{NAME}:{ENCODED}"
        address = with_login(f"{mini.server.url}/debian", ENCODED)
        assert mini.run("config", "set", "mirrors.debian:", address).returncode == 0
        mini.create()
        packages = [each.path for each in mini.server.requests if each.path.endswith(".deb")]
        mini.run("remove", "demo", "-y")
        shutil.rmtree(mini.home / "cache" / "artifacts")
        shutil.rmtree(mini.home / "store")
        for path in packages:
            mini.server.fail(path, Fault(cut_after=100))
            mini.server.always(path, Fault(status=403))
        done = mini.run("create", "demo", "--rocm", "5.7")
        assert done.returncode == 1
        assert not said(done, ENCODED), done.stderr
        assert list((mini.home / "cache" / "artifacts").glob("*.part.json"))
        assert holders(mini.home, ENCODED) == []


@pytest.fixture
def torch(mini: Mini, python: Interpreter) -> Iterator[Index]:
    series = python.series
    rows = ROWS.format(index=ORIGINAL, python=series).replace(
        'targets = ["gfx1100"]', 'targets = ["gfx1100"]\ncompanions = { numpy = "1.0" }'
    )
    (mini.root / "profiles" / "torch.toml").write_text(rows)
    tag = f"cp{series.replace('.', '')}"
    wheel = build_wheel("torch", "2.8.0+rocm6.4", tag=f"{tag}-{tag}-linux_x86_64", requires=["filelock"])
    with serve() as index:
        index.wheels["mirror/rocm6.4"] = [wheel, build_wheel("filelock", "3.13.1")]
        index.wheels["simple"] = [build_wheel("numpy", "1.0")]
        yield index


class TestWheels:
    def test_passwords_in_the_urls_of_both_wheel_indexes_are_not_revealed(
        self, mini: Mini, torch: Index
    ) -> None:
        torch.login = f"{NAME}:{ENCODED}"
        for key, folder in ((ORIGINAL, "mirror/rocm6.4"), ("pypi:", "simple")):
            address = with_login(torch.url(folder), ENCODED)
            assert mini.run("config", "set", f"mirrors.{key}", address).returncode == 0
        done = self.create(mini)
        assert done.returncode == 0, done.stderr
        assert not said(done, ENCODED)
        look_everywhere(mini, ENCODED, "sd")

    @pytest.mark.parametrize("where", ["uv", "pip"])
    def test_passwords_in_uv_and_pip_index_urls_are_not_revealed(
        self, mini: Mini, torch: Index, where: str
    ) -> None:
        torch.login = f"{NAME}:{ENCODED}"
        address = with_login(torch.url("mirror/rocm6.4"), ENCODED)
        assert mini.run("config", "set", f"mirrors.{ORIGINAL}", address).returncode == 0
        general = with_login(torch.url("simple"), ENCODED)
        variable = {"uv": "UV_DEFAULT_INDEX", "pip": "PIP_INDEX_URL"}[where]
        mini.env[variable] = general
        look(mini, self.create(mini), ENCODED, "sd")

    def test_no_command_line_contains_the_password(
        self, mini: Mini, torch: Index, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All users of a machine can read command lines."""
        torch.login = f"{NAME}:{ENCODED}"
        for name, value in {**mini.env, "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        mirrors = tuple(
            (key, (with_login(torch.url(folder), ENCODED),))
            for key, folder in ((ORIGINAL, "mirror/rocm6.4"), ("pypi:", "simple"))
        )
        seen: list[str] = []
        real = process.run

        def recorded(argv: list[str], **options: object) -> object:
            seen.extend(argv)
            return real(argv, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(rocenv.sources.uv, "run", recorded)
        context = Context(Home(mini.home), network=Network(mirrors=mirrors))
        lock = make_plan(Request(platform="linux", rocm="6.4", torch="*", target="gfx1100"), context)
        assert {wheel.name for wheel in lock.part("torch").artifacts} == {"torch", "filelock", "numpy"}  # type: ignore[union-attr]
        assert seen
        assert not any(form in word.encode() for form in forms(ENCODED) for word in seen)

    def test_a_wrong_password_is_not_revealed(self, mini: Mini, torch: Index) -> None:
        torch.login = "anna:another"
        for key, folder in ((ORIGINAL, "mirror/rocm6.4"), ("pypi:", "simple")):
            mini.run("config", "set", f"mirrors.{key}", with_login(torch.url(folder), ENCODED))
        done = self.create(mini)
        assert done.returncode == 1
        assert not said(done, ENCODED), done.stderr
        assert holders(mini.home, ENCODED) == []

    def create(self, mini: Mini) -> subprocess.CompletedProcess[str]:
        argv = ("create", "sd", "--rocm", "6.4", "--torch", "--no-verify", "--json")
        return mini.run(*argv, NO_PROXY="127.0.0.1", UV_HTTP_RETRIES="0", UV_OFFLINE="0")


@pytest.mark.parametrize("release", ["10.0", "7.14"])
def test_amds_wheel_indexes_do_not_reveal_the_password(tmp_path: Path, release: str) -> None:
    """10.0 has an index with pages; 7.14 has a single page, which is combined with the general index."""
    with AmdIndex() as index:
        home = tmp_path / "home"
        write_settings(home, index)
        index.login = f"{NAME}:{PLAIN}"
        file = home / "config.toml"
        file.write_text(file.read_text().replace(index.url, with_login(index.url, PLAIN)))
        world = World(home, index, {})
        import os

        world.env = {
            "HOME": str(tmp_path / "user"),
            "LC_ALL": "C.UTF-8",
            "NO_PROXY": "127.0.0.1",
            "PATH": os.environ["PATH"],
            "ROCENV_HOME": str(home),
        }
        argv = ("create", "x", "--rocm", release, "--target", "gfx1151", "--torch", "--no-verify")
        done = world.run(*argv, "--json")
        assert b"hunter2" not in done.stdout + done.stderr
        for command in (("lock", "x"), ("show", "x"), ("doctor", "x", "--json")):
            done = world.run(*command, ok=False)
            assert b"hunter2" not in done.stdout + done.stderr
        assert holders(home, PLAIN) == []


class TestSettings:
    @pytest.mark.parametrize(
        "address",
        [
            "ftp://anna:hunter2@host/",
            "https://anna:hunter2/x@host/",
            "https://anna:hunter2#x@host/",
            "https://anna:hunter2@x@host/",
            "https://anna:hunter2@host:port/",
            "https://anna:hunter2@/",
        ],
    )
    def test_a_password_that_is_not_percent_encoded_is_rejected_and_not_shown(
        self, mini: Mini, address: str
    ) -> None:
        done = mini.run("config", "set", "mirrors.debian:", address)
        assert done.returncode == 1
        assert "hunter2" not in done.stderr
        assert not (mini.home / "config.toml").exists()
        with pytest.raises(DataError) as caught:
            config.assign(mini.home / "config.toml", ("mirrors", "debian:"), address)
        assert "hunter2" not in str(caught.value.message)

    def test_a_crash_report_masks_passwords(self, mini: Mini) -> None:
        from rocenv.cli import _write_bug_report

        argv = ["config", "set", "mirrors.x", "https://anna:hunter2-secret@host/"]
        text = _write_bug_report(ValueError("https://anna:hunter2-secret@host/ broke"), argv)
        file = Path(text.split("`")[1])
        try:
            assert "hunter2" not in text + file.read_text()
            assert "https://***@host/ broke" in file.read_text()
        finally:
            file.unlink()

    def test_bundles_and_reports_do_not_reveal_the_password_of_a_proxy(self, mini: Mini) -> None:
        mini.create()
        proxy = "http://anna:hunter2-secret@127.0.0.1:9/"
        variables = dict.fromkeys(("http_proxy", "HTTPS_PROXY", "all_proxy", "PIP_INDEX_URL"), proxy)
        out = mini.root / "out"
        out.mkdir()
        variables |= {"HF_TOKEN": "hf_hunter2", "HSA_OVERRIDE_GFX_VERSION": proxy}
        collect(mini, "demo", out, variables)
        assert holders(out, PLAIN) == []

    def test_json_errors_mask_passwords(self, mini: Mini) -> None:
        from rocenv.cli import error_json

        error = DataError("https://a:hunter2@h/ x", hints=("see https://a:hunter2@h/",))
        assert "hunter2" not in json.dumps(error_json(error))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://a:b@host/x and http://u@h", "see https://***@host/x and http://***@h"),
        ("https://host/@scope/x?y=a@b", "https://host/@scope/x?y=a@b"),
        ("`https://a:b%40c@host`", "`https://***@host`"),
        ("a@b.c, git@host:x", "a@b.c, git@host:x"),
        ("https://a:b@c@host/", "https://***@host/"),
    ],
)
def test_passwords_in_text_are_masked(text: str, shown: str) -> None:
    assert mask_logins(text) == shown


def test_a_login_is_sent_only_to_the_server_in_its_url() -> None:
    network = Network(mirrors=(("pypi:", ("https://a:b@mirror:8443/simple",)),))
    assert network.candidates("https://mirror:8443/files/x") == ("https://a:b@mirror:8443/files/x",)
    for other in (
        "http://mirror:8443/x",
        "https://mirror/x",
        "https://mirror:8443.evil/x",
        "https://evil/mirror:8443",
    ):
        assert network.candidates(other) == (other,)
    assert network.candidates("https://own:login@mirror:8443/x") == ("https://own:login@mirror:8443/x",)
