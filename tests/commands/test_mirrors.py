"""`config mirrors`: listing and setting mirrors, and measuring servers, including ones that misbehave."""

from __future__ import annotations

import json
import re
import shlex
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from rocenv import config
from rocenv.data.load import load
from rocenv.net import Network
from tests.loopback import Fault, Loopback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.commands.lab import Lab

KNOWN = 'status = "tested"\nsource = "rocenv:README.md"\nchecked = "2026-11-23"\n'
SAMPLE = "torch.whl"


@pytest.fixture
def server() -> Iterator[Loopback]:
    files = {f"/{name}/{SAMPLE}": b"x" * 3_000_000 for name in ("good", "slow", "silent", "moved")}
    with Loopback(files) as loopback:
        yield loopback


def document(lab: Lab, *argv: str) -> Any:
    done = lab.run("config", "mirrors", "--json", *argv)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write_rows(lab: Lab, addresses: dict[str, str], also: str = "") -> None:
    """Add an origin and its mirrors to the user's rows; each mirror also replaces the origins in `also`."""
    rows = ["schema = 1\n[[origin]]\nname = 'mine'\ntitle = 'x'\nprefixes = ['https://a.invalid/whl']\n"]
    rows.append(f"sample = '{SAMPLE}'\n{KNOWN}")
    for name, address in addresses.items():
        rows.append(f"[[mirror]]\nname = '{name}'\nof = 'mine'\naddress = '{address}'\n")
        rows.append(f"operator = 'y'\nregion = 'z'\nalso = {{{also}}}\n{KNOWN}")
    (lab.home / "profiles").mkdir(parents=True)
    (lab.home / "profiles" / "mine.toml").write_text("".join(rows))


def test_every_origin_and_mirror_is_listed_offline(lab: Lab) -> None:
    done = lab.run("config", "mirrors", ROCENV_OFFLINE="1")
    text = done.stdout.decode()
    matrix = load()
    for origin in matrix.origin:
        assert f"{origin.name}: {origin.title}" in text
        assert all(f"  {prefix}\n" in text for prefix in origin.prefixes)
    for row in matrix.mirror:
        assert row.address in text
    assert "only if you set it" in done.stderr.decode()
    assert not lab.config.exists()


def test_json_lists_sources(lab: Lab) -> None:
    (found,) = document(lab, "debian")["origins"]
    assert found["prefixes"] == ["debian:"]
    assert {"name", "address", "operator", "region", "source", "status", "checked"} <= set(
        found["mirrors"][0]
    )
    assert not any(each["set"] or each["speed"] for each in found["mirrors"])


def test_downloads_try_the_chosen_mirror_first(lab: Lab) -> None:
    address = next(row.address for row in load().mirror if row.name == "pytorch-nju")
    lab.home.mkdir()
    lab.config.write_text("# mine\n[mirrors]\n'debian:' = 'https://d.example/'\n")
    done = lab.run("config", "mirrors", "--use", "pytorch-nju")
    assert done.returncode == 0
    assert "rocenv config unset mirrors.https://download.pytorch.org/whl" in done.stderr.decode()
    assert lab.config.read_text().startswith("# mine\n")
    network = Network(mirrors=config.load(lab.config).mirrors)
    for host in ("download", "download-r2"):
        url = f"https://{host}.pytorch.org/whl/rocm6.2/torch.whl"
        assert network.candidates(url) == (f"{address}/rocm6.2/torch.whl", url)
    assert network.candidates("debian:x") == ("https://d.example/x",)
    (found,) = document(lab, "pytorch")["origins"]
    assert [each["name"] for each in found["mirrors"] if each["set"]] == ["pytorch-nju"]


def test_a_mirror_is_set_completely_or_not_at_all(lab: Lab) -> None:
    write_rows(lab, {"bad": "https://m.invalid/whl"}, also="'https://b.invalid/' = 'm.invalid'")
    done = lab.run("config", "mirrors", "--use", "bad")
    assert done.returncode == 1
    assert "does not begin with" in done.stderr.decode()
    assert not lab.config.exists()


def test_the_printed_commands_undo_setting_a_mirror(lab: Lab) -> None:
    lab.home.mkdir()
    own = ["https://one.example/whl", "https://a 'b'.example/whl"]
    lab.config.write_text(f"[mirrors]\n'https://download.pytorch.org/whl' = {json.dumps(own)}\n")
    before = config.load(lab.config)
    done = lab.run("config", "mirrors", "--use", "pytorch-nju")
    assert config.load(lab.config) != before
    lines = done.stderr.decode().splitlines()
    undo = [shlex.split(line.split("`")[1]) for line in lines if line.startswith("to undo: ")]
    assert len(undo) == 2
    for _rocenv, *argv in undo:
        assert lab.run(*argv).returncode == 0
    assert config.load(lab.config) == before


def test_a_mirror_of_signed_packages_also_serves_their_key(lab: Lab) -> None:
    document(lab, "--use", "amd-apt-geekery")
    network = Network(mirrors=config.load(lab.config).mirrors)
    for url in ("https://repo.radeon.com/rocm/apt/6.2/dists/x", "https://repo.radeon.com/rocm/rocm.gpg.key"):
        assert network.candidates(url)[0] == url.replace("repo.radeon.com", "radeon.geekery.cn")
    wheel = "https://repo.radeon.com/rocm/windows/rocm-rel-7.2/x.whl"
    assert network.candidates(wheel) == (wheel,), "AMD does not sign its wheels"


@pytest.mark.parametrize(
    ("argv", "code"), [(["--use", "nobody"], 1), (["nowhere"], 2), (["--use", "pytorch-nju", "--test"], 2)]
)
def test_unknown_mirror_names_change_nothing(lab: Lab, argv: list[str], code: int) -> None:
    assert lab.run("config", "mirrors", *argv).returncode == code
    assert not lab.config.exists()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("mirrors.download.pytorch.org", "https://d.example/whl", "is not a URL prefix"),
        ("mirrors.debian:", "d.example/debian", "does not begin with `https://`"),
        ("mirrors.debian:", "https://user:p@ss@d.example/", "percent-encode special characters"),
        ("defaults.rokm", "5.7", "choose from `defaults.rocm`"),
        ("mirror.debian", "https://d.example/", "`mirror.debian` is not a setting"),
    ],
)
def test_a_mirror_setting_without_effect_is_rejected(lab: Lab, key: str, value: str, said: str) -> None:
    done = lab.run("config", "set", key, value)
    assert done.returncode in (1, 2)
    assert said in done.stderr.decode()
    assert not lab.config.exists()


def test_the_hint_for_a_mirror_without_a_colon_can_be_copied(lab: Lab) -> None:
    done = lab.run("config", "set", "mirrors.debian", "https://d.example/x y")
    assert done.returncode == 2
    _rocenv, *argv = shlex.split(done.stderr.decode().partition("hint: ")[2])
    assert lab.run(*argv).returncode == 0
    assert config.load(lab.config).mirrors == (("debian:", ("https://d.example/x y",)),)


def test_the_speed_of_each_mirror_is_measured(lab: Lab, server: Loopback) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
    server.always(f"/slow/{SAMPLE}", Fault(bytes_per_s=200_000, block_bytes=20_000))
    server.always(f"/silent/{SAMPLE}", Fault(stall_after=0))
    server.always(
        f"/moved/{SAMPLE}",
        Fault(
            status=302, headers={"Location": server.url.replace("127.0.0.1", "localhost") + f"/good/{SAMPLE}"}
        ),
    )
    names = ("good", "slow", "silent", "moved", "missing")
    write_rows(lab, {name: f"{server.url}/{name}" for name in names} | {"dead": dead})
    begin = time.monotonic()
    (found,) = document(lab, "mine", "--test")["origins"]
    assert time.monotonic() - begin < 15, "all servers are measured at once, for a few seconds"
    speeds = {each["name"]: each["speed"] for each in found["mirrors"]}
    assert speeds["good"]["bytes_per_s"] > 1_000_000
    assert 50_000 < speeds["slow"]["bytes_per_s"] < 400_000
    assert speeds["moved"]["redirected_to"] == "localhost"
    assert "sent no data" in speeds["silent"]["error"]
    assert speeds["missing"]["error"] == "returned 404 (Not Found)"
    assert "refused the connection" in speeds["dead"]["error"]
    assert "cannot resolve" in found["speed"]["error"], "the origin is tested too"
    assert [each["name"] for each in found["mirrors"]].index("slow") == 2, "the fastest servers come first"
    assert not lab.config.exists(), "a test changes no settings"
    told = lab.run("config", "mirrors", "mine", "--test").stderr.decode()
    assert "3 of 7 addresses work" in told
    assert re.search("--use (good|moved)`", told), "the suggested mirror works"


def test_a_server_cannot_write_to_the_terminal(lab: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 503 \x1b]0;hacked\x07\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        write_rows(lab, {"bad": f"http://127.0.0.1:{listener.getsockname()[1]}"})
        done = lab.run("config", "mirrors", "mine", "--test")
        thread.join(timeout=10)
    assert b"returned 503" in done.stdout
    assert b"none of the 2 addresses work: check your network" in done.stderr
    assert b"--use" not in done.stderr
    assert b"\x1b" not in done.stdout


def test_the_speed_test_is_refused_offline(lab: Lab) -> None:
    done = lab.run("config", "mirrors", "pytorch", "--test", "--json", ROCENV_OFFLINE="1")
    assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "offline")


def test_the_hint_for_a_missing_debian_mirror_is_a_complete_command(lab: Lab) -> None:
    (lab.root / "machine" / "etc").mkdir(parents=True)
    words = ("create", "x", "--channel", "debian-trixie", "--target", "gfx1100", "--rocm", "5.7", "-y")
    done = lab.run(*words, "--json", ROCENV_SYSROOT=str(lab.root / "machine"))
    assert done.returncode == 1
    (hint,) = json.loads(done.stdout)["hints"]
    plan = lab.run("resolve", *words[2:-1], "--json", ROCENV_SYSROOT=str(lab.root / "machine"))
    assert f"hint: {hint}" in json.loads(plan.stdout)["notes"]
    suggested = shlex.split(hint.split("`")[1])[1:]
    assert lab.run(*suggested).returncode == 0
    ((prefix, addresses),) = config.load(lab.config).mirrors
    assert prefix == "debian:"
    assert set(addresses) <= {row.address for row in load().mirror}
