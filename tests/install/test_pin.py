"""Pinned hashes: the hash of a first download is recorded, and later downloads must match it."""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from msgspec.structs import replace

from rocenv.context import Context
from rocenv.core.errors import ArchiveError, FetchError, RocenvError
from rocenv.core.model import Artifact, Lock
from rocenv.core.progress import Progress
from rocenv.data.windows import HipSdk
from rocenv.home import Home
from rocenv.host.hip_sdk import InstalledSdk
from rocenv.install import store
from rocenv.install.fetch import ensure_available
from rocenv.install.pin import read_pins, record_pin, with_installed_sdk
from rocenv.net import Network
from tests.hip_installer import installer, msiextract
from tests.loopback import HTML, Fault, Loopback
from tests.sets import zluda_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def archive(content: bytes = b"MZ" * 1000) -> bytes:
    """Return a ZIP file."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        zipped.writestr("zluda/nvcuda.dll", content)
    return data.getvalue()


DATA = archive()


@pytest.fixture(autouse=True)
def _without_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocenv.install.installer.unpack_msi", msiextract)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback({"/zluda.zip": DATA}) as server:
        yield server


def context(tmp_path: Path, network: Network | None = None) -> Context:
    return Context(home=Home(tmp_path), network=network or Network(pause_s=0.01), progress=Progress())


def pinned(lock: Lock, work: Context, installed: Sequence[InstalledSdk] = ()) -> Lock:
    """Download the files that a lock lists, as `create` does before it changes the prefix."""
    return ensure_available(with_installed_sdk(lock, work, installed), work)[0]


def unpinned(url: str) -> Lock:
    lock = zluda_lock()
    [part] = [each for each in lock.components if each.kind == "zluda"]
    unknown = Artifact(kind="archive", name="zluda.zip", version="3.9.5", url=url, sha256="", size_bytes=0)
    return replace(lock, components=(replace(part, artifacts=(unknown,)),))


def test_the_hash_of_a_first_download_is_recorded_with_a_note(
    tmp_path: Path, server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{server.url}/zluda.zip"
    lock = pinned(unpinned(url), context(tmp_path))
    [found] = lock.components[0].artifacts
    digest = hashlib.sha256(DATA).hexdigest()
    assert (found.sha256, found.size_bytes) == (digest, len(DATA))
    assert read_pins(Home(tmp_path))[url]["sha256"] == digest
    assert "recorded the sha256 of the first download" in capsys.readouterr().err
    assert pinned(unpinned(url), context(tmp_path)).components == lock.components
    assert "first download" not in capsys.readouterr().err
    assert len([each for each in server.seen("/zluda.zip") if each.method == "GET"]) == 1


def test_the_hashes_of_all_files_in_a_set_are_recorded_in_any_order(tmp_path: Path, server: Loopback) -> None:
    addresses = [f"/{number}.zip" for number in range(6)]
    for address in addresses:
        server.files[address] = archive(address.encode())
    lock = unpinned("")
    [unknown] = lock.components[0].artifacts
    each = tuple(replace(unknown, url=f"{server.url}{address}") for address in addresses)
    lock = replace(lock, components=(replace(lock.components[0], artifacts=each),))
    found = pinned(lock, context(tmp_path)).components[0].artifacts
    hashes = [hashlib.sha256(server.files[address]).hexdigest() for address in addresses]
    assert [artifact.sha256 for artifact in found] == hashes
    assert {pin["sha256"] for pin in read_pins(Home(tmp_path)).values()} == set(hashes)


def test_a_file_that_differs_from_a_concurrent_download_is_an_error(tmp_path: Path) -> None:
    work = context(tmp_path)
    [unknown] = unpinned("https://example.invalid/zluda.zip").components[0].artifacts
    record_pin(replace(unknown, sha256="a" * 64, size_bytes=1), work)
    with pytest.raises(FetchError, match="served a different file moments ago") as caught:
        record_pin(replace(unknown, sha256="b" * 64, size_bytes=1), work)
    assert caught.value.code == "hash-mismatch"
    assert read_pins(work.home)[unknown.url]["sha256"] == "a" * 64


def test_the_hash_of_a_web_page_is_not_recorded(tmp_path: Path, server: Loopback) -> None:
    server.files["/zluda.zip"] = HTML
    with pytest.raises(FetchError, match="sent a web page"):
        pinned(unpinned(f"{server.url}/zluda.zip"), context(tmp_path))
    assert read_pins(Home(tmp_path)) == {}


def test_the_hashes_of_files_of_the_wrong_type_are_not_recorded(tmp_path: Path, server: Loopback) -> None:
    """Later downloads must not be compared with an error page that was served with status 200."""
    server.files["/zluda.zip"] = b'{"error": "rate limited"}'
    with pytest.raises(ArchiveError):
        pinned(unpinned(f"{server.url}/zluda.zip"), context(tmp_path))
    server.files["/zluda.zip"] = DATA
    [found] = pinned(unpinned(f"{server.url}/zluda.zip"), context(tmp_path)).components[0].artifacts
    assert found.sha256 == hashlib.sha256(DATA).hexdigest()


def test_a_first_download_over_plain_http_is_refused(tmp_path: Path) -> None:
    mirrors = (("https://example.invalid/", ("http://192.0.2.1/",)),)
    work = context(tmp_path, network=Network(mirrors=mirrors, pause_s=0.01))
    with pytest.raises(FetchError, match="the connection is not encrypted"):
        pinned(unpinned("https://example.invalid/zluda.zip"), work)


def test_an_interrupted_first_download_does_not_mix_two_files(tmp_path: Path, server: Loopback) -> None:
    server.validators = False
    server.fail("/zluda.zip", Fault(), Fault(cut_after=100))
    lock = pinned(unpinned(f"{server.url}/zluda.zip"), context(tmp_path))
    assert lock.components[0].artifacts[0].sha256 == hashlib.sha256(DATA).hexdigest()
    assert all("Range" not in each.headers for each in server.seen("/zluda.zip"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pins": {"u": {}}}', '{"pins": {"u": 3}}', '{"pins": []}'])
def test_damaged_pins_are_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "pins.json").write_text(text)
    with pytest.raises(RocenvError, match="is damaged"):
        read_pins(Home(tmp_path))


def made_installer(tmp_path: Path) -> bytes:
    """An installer that rocenv can unpack."""
    path = tmp_path / "made.exe"
    installer(path, "5.7", {"SDKCore/ROCm_SDK_Core.msi": {"bin/amdhip64.dll": b"MZ"}})
    return path.read_bytes()


class TestInstalledSdk:
    ROW = HipSdk(
        version="5.7.1",
        installer="sdk.exe",
        url="https://example.invalid/sdk.exe",
        os="Windows",
        install_dir=r"C:\x",
        variables=(),
        status="tested",
        source="here",
        checked="2026-11-21",
    )

    def lock(self) -> Lock:
        lock = zluda_lock()
        sdk = lock.components[0]
        unknown = replace(sdk.artifacts[0], sha256="", size_bytes=0)
        return replace(lock, components=(replace(sdk, artifacts=(unknown,)),))

    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "Program Files" / "5.7"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "amdhip64.dll").write_bytes(b"MZ")
        return folder

    def test_an_installed_sdk_replaces_the_installer(self, tmp_path: Path) -> None:
        work = context(tmp_path / "home")
        folder = self.folder(tmp_path)
        installed = InstalledSdk(folder=folder, found_by="HIP_PATH_57", row=self.ROW)
        lock = pinned(self.lock(), work, (installed,))
        [artifact] = lock.components[0].artifacts
        assert (artifact.kind, artifact.path) == ("folder", str(folder))
        assert artifact.url == "https://example.invalid/sdk.exe", "other machines download the SDK from there"
        assert set(store.manifest_of(work.home, artifact)) == {"bin/amdhip64.dll"}
        copy = store.tree_of(work.home, artifact) / "bin/amdhip64.dll"
        assert not copy.samefile(folder / "bin/amdhip64.dll"), "a link would point into Program Files"
        (folder / "bin/amdhip64.dll").unlink()
        assert pinned(lock, work).components == lock.components, "the SDK was uninstalled; the copy stays"

    def test_an_installed_sdk_that_is_broken_or_another_release_is_ignored(
        self, tmp_path: Path, server: Loopback, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.files["/sdk.exe"] = made_installer(tmp_path)
        work = context(tmp_path / "home")
        sdk = self.lock().components[0]
        here = replace(sdk.artifacts[0], url=f"{server.url}/sdk.exe")
        lock = replace(self.lock(), components=(replace(sdk, artifacts=(here,)),))
        others = (
            InstalledSdk(
                folder=tmp_path, found_by="HIP_PATH", row=structs.replace(self.ROW, version="6.1.2")
            ),
            InstalledSdk(folder=tmp_path, found_by="x", row=self.ROW, why_not="`rocblas.dll` is missing"),
        )
        found = pinned(lock, work, others)
        assert found.components[0].artifacts[0].kind == "installer"
        assert "`rocblas.dll` is missing" in capsys.readouterr().err

    def test_a_lock_with_an_sdk_copied_on_another_machine_downloads_it_from_amd(
        self, tmp_path: Path, server: Loopback
    ) -> None:
        server.files["/AMD.exe"] = data = made_installer(tmp_path)
        work = context(tmp_path / "home")
        sdk = self.lock().components[0]
        there = replace(
            sdk.artifacts[0], kind="folder", sha256="a" * 64, path=r"C:\there", url=f"{server.url}/AMD.exe"
        )
        lock = replace(self.lock(), components=(replace(sdk, artifacts=(there,)),))
        [artifact] = pinned(lock, work).components[0].artifacts
        assert (artifact.kind, artifact.name, artifact.path) == ("installer", "AMD.exe", "")
        assert artifact.sha256 == hashlib.sha256(data).hexdigest()
