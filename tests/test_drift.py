"""`scripts/check-matrix-drift` on realistic pages with removed, new and changed items."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.aptrepo import Key
from tests.loopback import Fault

if TYPE_CHECKING:
    from tests.mini import Mini

SCRIPT = Path(__file__).parents[1] / "scripts" / "check-matrix-drift"
GITHUB = "https://api.github.com/"
HASH = "b0c10342f64a34998ae8d5084aa1beae7e11defa46a4e05fe9aa6f09ffb0db37"
OTHER = "0" * 64
KNOWN = 'status = "tested"\nsource = "tests/test_drift.py"\nchecked = "2026-11-20"\n'

# `{server}` replaces the hosts in rows.
PROFILES = """schema = 1
[[torch]]
version = "2.5"
rocm = "6.2"
index = "{server}/whl/rocm6.2"
python = ["3.11", "3.12"]
{known}
[[torch]]
version = "2.7.1"
cuda = "11.8"
index = "{server}/whl/cu118"
python = ["3.12"]
{known}
[[torch]]
version = "9.9"
rocm = "9.9"
index = "{server}/whl/rocm9.9"
python = ["3.12"]
released = false
{known}
[[fact]]
about = "torch"
text = "torch-2.5.1+rocm6.2-cp311-cp311-linux_x86_64.whl: sha256 {hash}"
{known}
[[repo]]
name = "maker"
base = "{server}/apt/{{apt_dir}}"
key_url = "{server}/maker.key"
fingerprints = ["{fingerprint}"]
{known}
[[channel]]
name = "maker"
title = "The maker's packages"
by = "maker"
repos = ["maker"]
{known}
[[rocm]]
version = "6.1.0"
channel = "maker"
apt_dir = "6.1"
suite = "jammy"
packages = ["rocblas"]
compiles = []
blas = []
layout = {{ root = "opt/rocm", library_dirs = ["opt/rocm/lib"], libraries = {{}} }}
{known}
[[rocm]]
version = "6.2.0"
channel = "maker"
apt_dir = "6.2"
suite = "jammy"
packages = ["rocblas"]
compiles = []
blas = []
layout = {{ root = "opt/rocm", library_dirs = ["opt/rocm/lib"], libraries = {{}} }}
{known}
[[channel]]
name = "maker-windows"
title = "The maker's wheels for Windows"
by = "maker"
{known}
[[channel]]
name = "wheels"
title = "The maker's wheels"
by = "maker"
{known}
[[rocm_wheels]]
version = "7.2.1"
channel = "maker-windows"
index = "{server}/windows/rocm-rel-7.2.1/"
platform = "windows"
packages = []
targets = ["gfx1100"]
python = ["3.12"]
layout = {{ root = "", library_dirs = [], libraries = {{}} }}
{known}
[[torch]]
version = "2.9.1"
rocm = "7.2.1"
channel = "maker-windows"
index = "{server}/windows/rocm-rel-7.2.1/"
python = ["3.12"]
{known}
[[rocm_wheels]]
version = "7.14.0"
channel = "wheels"
index = "{server}/wheels/"
platform = "linux"
packages = []
targets = ["gfx1100"]
python = ["3.12", "3.13"]
layout = {{ root = "", library_dirs = [], libraries = {{}} }}
{known}
[[rocm_wheels]]
version = "7.14.0"
channel = "wheels"
index = "{server}/wheels/"
platform = "windows"
packages = []
targets = ["gfx1100"]
python = ["3.12", "3.13"]
layout = {{ root = "", library_dirs = [], libraries = {{}} }}
{known}
[[index]]
name = "tarballs"
url = "{server}/tarballs/"
platforms = ["linux"]
{known}
[[hip_sdk]]
version = "6.2.4"
installer = ""
url = ""
os = ""
install_dir = ""
variables = []
{known}
[[zluda]]
project = "vosen"
version = "3"
tag = "v3"
commit = ""
url = "https://github.com/vosen/ZLUDA/releases/download/{{tag}}/{{asset}}"
assets = [
  {{ name = "zluda-3-windows.zip", sha256 = "{hash}" }},
  {{ name = "zluda-3-extra.zip" }},
  {{ name = "zluda-3-linux.tar.gz", platform = "linux" }},
]
{known}
[[pack]]
provider = "somebody/packs"
rocm = ["6.2.4"]
tag = "v0.6.2.4"
asset = "gfx1031 for 6.2.4.7z"
targets = []
url = "https://github.com/somebody/packs/releases/download/v0.6.2.4/gfx1031%20for%206.2.4.7z"
sha256 = "{hash}"
{known}
[[pack]]
provider = "somebody/packs"
rocm = ["6.2.4"]
tag = "v0.6.4.2"
asset = ""
targets = []
{known}
[[pack]]
provider = "else/packs"
rocm = ["6.2.4"]
asset = "old one.7z"
targets = []
url = "https://github.com/else/packs/raw/main/old%20one.7z"
{known}
"""


def listing(*names: str) -> bytes:
    """Build a listing as Apache and wheel indexes do, with links for sorting and to the parent folder."""
    rows = "".join(f'<a href="{name.replace("+", "%2B")}">{name}</a><br>\n' for name in names)
    return f'<html><body><a href="?C=N;O=D">Name</a><a href="../">Parent</a>\n{rows}</body></html>'.encode()


def release(tag: str, published: str, **assets: str) -> dict[str, Any]:
    """Build a release in the form that the GitHub API returns; `assets` maps names to sha256."""
    digests = [(name, sha256 and f"sha256:{sha256}") for name, sha256 in assets.items()]
    rows = [{"name": name, "size": 1, "digest": digest or None} for name, digest in digests]
    return {"tag_name": tag, "published_at": published, "draft": False, "assets": rows}


def world(hash_: str = HASH) -> dict[str, bytes]:
    """Build pages that match the data rows."""
    zluda = {"zluda-3-windows.zip": hash_, "zluda-3-extra.zip": "", "zluda-3-linux.tar.gz": ""}
    old = release("v2", "2023-01-01T00:00:00Z", **{"zluda-2-windows.zip": ""})  # no row lists it
    packs = [
        release("v0.6.4.2", "2025-06-01T00:00:00Z"),
        release("v0.6.2.4", "2024-11-01T00:00:00Z", **{"gfx1031 for 6.2.4.7z": hash_}),
        release("v0.5.7", "2024-01-01T00:00:00Z", **{"gfx1031.7z": ""}),
    ]
    return {
        "/whl/rocm6.2/torch/": listing(
            f"/whl/rocm6.2/torch-2.5.1+rocm6.2-cp311-cp311-linux_x86_64.whl#sha256={hash_}",
            "/whl/rocm6.2/torch-2.5.0+rocm6.2-cp312-cp312-linux_x86_64.whl",
            "/whl/rocm6.2/torch-2.5.1+rocm6.2-cp313-cp313t-linux_x86_64.whl",
            "/whl/rocm6.2/torch-2.4.1+rocm6.2-cp310-cp310-linux_x86_64.whl",
        ),
        "/whl/cu118/torch/": listing(
            "/whl/cu118/torch-2.7.1+cu118-cp312-cp312-win_amd64.whl",
            "/whl/cu118/torch-2.7.1+cu118-cp313-cp313-manylinux_2_28_x86_64.whl",
        ),
        "/whl/torch/": listing(
            "/whl/cpu/torch-2.5.1+cpu-cp311-cp311-linux_x86_64.whl",
            "/whl/rocm5.2/torch-1.13.1+rocm5.2-cp310-cp310-linux_x86_64.whl",
            "/whl/rocm6.2/torch-2.5.1+rocm6.2-cp311-cp311-linux_x86_64.whl",
        ),
        "/apt/": listing("5.7.1/", "6.1/", "6.2/", "debian/", "latest/"),
        "/apt/6.1/dists/jammy/InRelease": b"Suite: jammy\nSHA256:\n",
        "/apt/6.2/dists/jammy/InRelease": b"Suite: jammy\nSHA256:\n",
        "/windows/": listing("rocm-rel-6.4/", "rocm-rel-7.2.1/"),
        "/windows/rocm-rel-7.2.1/": listing(
            "torch-2.9.1+rocm7.2.1-cp312-cp312-win_amd64.whl", "rocm-7.2.1.tar.gz"
        ),
        "/wheels/": listing("torch/", "rocm/"),
        "/wheels/torch/": listing(
            "../torch-2.9.1+rocm7.14.0-cp312-cp312-linux_x86_64.whl",
            "../torch-2.9.1+rocm7.14.0-cp313-cp313-win_amd64.whl",
        ),
        "/wheels/rocm/": listing("../rocm-7.13.0.tar.gz", "../rocm-7.14.0.tar.gz"),
        "/tarballs/": listing("therock-dist-linux-gfx1151-7.14.0.tar.gz"),
        "/github/repos/vosen/ZLUDA/releases": json.dumps(
            [release("v3", "2024-02-11T00:00:00Z", **zluda), old]
        ).encode(),
        "/github/repos/somebody/packs/releases": json.dumps(packs).encode(),
        "/github/repos/else/packs/contents/": json.dumps(
            [{"name": "old one.7z", "type": "file"}, {"name": "README.md", "type": "file"}]
        ).encode(),
    }


@pytest.fixture
def place(mini: Mini) -> Mini:
    """The simulated machine, whose server also stands in for every host in the rows."""
    key = Key.new("maker")
    text = PROFILES.format(server=mini.server.url, known=KNOWN, hash=HASH, fingerprint=key.fingerprint)
    (mini.root / "profiles" / "world.toml").write_text(text)
    mini.server.files |= {**world(), "/maker.key": key.armoured}
    mini.home.mkdir()
    (mini.home / "config.toml").write_text(f'[mirrors]\n"{GITHUB}" = "{mini.server.url}/github/"\n')
    # If a mirror lacks a file, rocenv requests it from the original server, which tests must not contact.
    mini.env |= {"https_proxy": "http://127.0.0.1:9", "no_proxy": "127.0.0.1"}
    return mini


def test_invalid_data_is_an_error_not_drift(place: Mini, tmp_path: Path) -> None:
    newer = tmp_path / "newer" / "newer.toml"
    newer.parent.mkdir()
    newer.write_text("schema = 2")
    env = {**os.environ, **place.env, "ROCENV_PROFILES": str(newer.parent)}
    done = subprocess.run([sys.executable, str(SCRIPT)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"`{newer}` has schema 2" in done.stderr


def check(place: Mini, *options: str, **env: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json", *options],
        env={**place.env, **env},
        cwd=place.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def found(place: Mini, *options: str) -> set[tuple[str, str, str]]:
    """Run the script; return (kind, place, what). Fail the test if a page was unreachable."""
    code, document = check(place, *options)
    assert document["not_reached"] == []
    assert code == (1 if document["drift"] else 0)
    return {(drift["kind"], drift["place"], drift["what"]) for drift in document["drift"]}


def test_pages_that_match_the_rows_cause_no_drift(place: Mini) -> None:
    assert found(place) == set()


def test_changed_torch_wheels_are_reported_as_drift(place: Mini) -> None:
    place.server.files["/whl/rocm6.2/torch/"] = listing(
        f"/whl/rocm6.2/torch-2.5.1+rocm6.2-cp311-cp311-linux_x86_64.whl#sha256={OTHER}",
        "/whl/rocm6.2/torch-2.5.1+rocm6.2-cp313-cp313-linux_x86_64.whl",
        "/whl/rocm6.2/torch-2.6.0+rocm6.2-cp311-cp311-manylinux_2_28_x86_64.whl",
    )
    place.server.files["/whl/cu118/torch/"] = listing(
        "/whl/cu118/torch-2.7.2+cu118-cp312-cp312-win_amd64.whl"
    )
    place.server.files["/whl/rocm9.9/torch/"] = listing(
        "/whl/rocm9.9/torch-9.9.0+rocm9.9-cp312-cp312-linux_x86_64.whl"
    )
    place.server.files["/whl/torch/"] = listing(
        "/whl/rocm6.3/torch-2.7.0+rocm6.3-cp311-cp311-linux_x86_64.whl"
    )
    wheel = "torch-2.5.1+rocm6.2-cp311-cp311-linux_x86_64.whl"
    assert found(place, "--only", "pytorch") == {
        ("gone", "pytorch", "torch 2.5 for Python 3.12"),
        ("new", "pytorch", "torch 2.5 for Python 3.13"),
        ("new", "pytorch", "torch 2.6 for Python 3.11"),
        ("changed", "pytorch", f"{wheel}: {HASH} -> {OTHER}"),
        ("gone", "pytorch", "torch 2.7.1 for Python 3.12"),
        ("new", "pytorch", "torch 2.7.2 for Python 3.12"),
        ("new", "pytorch", "torch 9.9 for Python 3.12"),
        ("new", "pytorch", "index rocm6.3"),
    }


def test_new_and_removed_amd_releases_are_reported_as_drift(place: Mini) -> None:
    del place.server.files["/apt/6.1/dists/jammy/InRelease"]
    place.server.files |= {
        "/apt/": listing("5.7.1/", "6.2/", "6.2.4/", "7.0/"),
        "/maker.key": Key.new("somebody else").armoured,
        "/windows/": listing("rocm-rel-7.2.1/", "rocm-rel-7.2.2/"),
        "/windows/rocm-rel-7.2.1/": listing("torch-2.9.2+rocm7.2.1-cp312-cp312-win_amd64.whl"),
    }
    assert {what[::2] for what in found(place, "--only", "radeon")} >= {
        ("gone", "6.1"),
        ("new", "6.2.4"),
        ("new", "7.0"),
        ("gone", "the page"),
        ("new", "rocm-rel-7.2.2"),
        ("gone", "torch 2.9.1 for Python 3.12"),
        ("gone", "rocm 7.2.1"),
    }


def test_a_changed_signing_key_is_reported_as_drift(place: Mini) -> None:
    other = Key.new("somebody else")
    place.server.files["/maker.key"] = other.armoured
    ((kind, _, what),) = found(place, "--only", "radeon")
    assert kind == "gone"
    assert len(what) >= 40
    assert what != other.fingerprint


def test_changed_distribution_packages_are_reported_as_drift(place: Mini) -> None:
    profile = place.root / "profiles" / "mini.toml"
    profile.write_text(
        profile.read_text().replace('source = "tests/mini.py"', 'source = "mini5-blas 5.7.1-1"')
    )
    assert found(place, "--only", "debian") == set()
    place.repo.remove("mini5-blas")
    place.repo.remove("mini5-hip")
    place.add_set("mini5", "5.9.0", "2.17", {})
    place.repo.remove("mini6-blas")
    place.repo.publish()
    drift = found(place, "--only", "debian")
    assert {each for each in drift if "6" not in each[2].partition("mini6")[2]} >= {
        ("gone", "debian", "ROCm 5.7.1"),
        ("new", "debian", "ROCm 5.9.0"),
        ("changed", "debian", "mini5-blas: 5.7.1-1 -> 5.9.0-1"),
    }
    assert any(kind == "gone" and "mini6-blas" in what for kind, _, what in drift)


def test_changed_github_releases_are_reported_as_drift(place: Mini) -> None:
    files = place.server.files
    changed = {"zluda-3-windows.zip": OTHER, "zluda-3-linux.tar.gz": "", "zluda-3-linux-arm.tar.gz": ""}
    later = release("v4", "2024-12-20T00:00:00Z", **{"zluda-4-windows.zip": ""})
    files["/github/repos/vosen/ZLUDA/releases"] = json.dumps(
        [later, release("v3", "2024-02-11T00:00:00Z", **changed)]
    ).encode()
    assert found(place, "--only", "zluda") == {
        ("changed", "zluda", f"v3/zluda-3-windows.zip: {HASH} -> {OTHER}"),
        ("gone", "zluda", "v3/zluda-3-extra.zip"),
        ("new", "zluda", "v4/zluda-4-windows.zip"),
    }
    files["/github/repos/somebody/packs/releases"] = json.dumps(
        [release("v0.6.4.2", "2025-06-01T00:00:00Z", **{"gfx1031 for 6.4.2.7z": ""})]
    ).encode()
    files["/github/repos/else/packs/contents/"] = json.dumps(
        [{"name": "new one.rar", "type": "file"}]
    ).encode()
    assert found(place, "--only", "packs") == {
        ("gone", "packs", "v0.6.2.4/gfx1031 for 6.2.4.7z"),
        ("new", "packs", "v0.6.4.2/gfx1031 for 6.4.2.7z"),
        ("gone", "packs", "old one.7z"),
        ("new", "packs", "new one.rar"),
    }


def test_changed_rocm_wheels_are_reported_as_drift(place: Mini) -> None:
    place.server.files["/wheels/torch/"] = listing("torch-2.9.1+rocm7.15.0-cp312-cp312-linux_x86_64.whl")
    place.server.files["/wheels/rocm/"] = listing("rocm-7.15.0.tar.gz")
    del place.server.files["/tarballs/"]
    assert found(place, "--only", "therock") == {
        ("gone", "therock", "rocm 7.14.0"),
        ("gone", "therock", "any torch version for Python 3.13"),
        ("new", "therock", "rocm 7.15.0"),
        ("gone", "therock", "the page"),
    }


# ---------------------------------------------------------------- unreachable pages


def reasons(document: dict[str, Any]) -> dict[str, str]:
    return {each["address"]: each["reason"] for each in document["not_reached"]}


def test_a_page_with_unexpected_content_counts_as_unreachable(place: Mini) -> None:
    files, url = place.server.files, place.server.url
    files["/whl/rocm6.2/torch/"] = b"<html><body>Please sign in.</body></html>"
    files["/github/repos/vosen/ZLUDA/releases"] = b'{"message": "API rate limit exceeded"}'
    place.server.always("/apt/", Fault(status=403))
    code, document = check(place, "--only", "pytorch", "--only", "zluda", "--only", "radeon")
    assert code == 4
    assert document["drift"] == []
    unreachable = reasons(document)
    assert "has no links" in unreachable.pop(f"{url}/whl/rocm6.2/torch/")
    assert "403" in unreachable.pop(f"{url}/apt/")
    assert "is not a JSON list" in unreachable.pop("https://github.com/vosen/ZLUDA/releases")
    assert unreachable == {}
    assert f"{url}/whl/cu118/torch/" in document["reached"]


def test_drift_determines_the_exit_code_despite_unreachable_pages(place: Mini) -> None:
    place.server.always("/apt/", Fault(status=403))
    del place.server.files["/windows/rocm-rel-7.2.1/"]
    assert check(place, "--only", "radeon")[0] == 1


def test_offline_mode_makes_no_network_connection(place: Mini) -> None:
    code, document = check(place, ROCENV_OFFLINE="1")
    assert code == 4
    assert document["drift"] == []
    assert document["reached"] == []
    assert all("ROCENV_OFFLINE is set" in reason for reason in reasons(document).values())
    assert place.server.requests == []


def test_a_page_that_never_ends_does_not_delay_the_others(place: Mini) -> None:
    place.server.always("/whl/cu118/torch/", Fault(stall_after=3))
    code, document = check(place, "--only", "pytorch", "--timeout", "4")
    assert code == 4
    assert reasons(document) == {f"{place.server.url}/whl/cu118/torch/": "no response within 4 s"}


def test_the_table_goes_to_stdout_and_progress_to_stderr(place: Mini) -> None:
    place.server.always("/apt/", Fault(status=403))
    place.server.always("/apt/6.1/dists/jammy/InRelease", Fault(status=403))
    place.server.files["/windows/"] = listing("rocm-rel-7.2.2/")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--only", "radeon"],
        env={**os.environ, **place.env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["gone", "new"]
    assert sum(line.startswith("unreachable radeon") for line in lines) == 2
    assert lines[-1] == "4 of 6 pages reached; 1 gone, 1 new, 0 changed"
    assert f"radeon: {place.server.url}/apt/" in done.stderr
