"""Parsers of untrusted input, each as a function that takes bytes, with seeds.

A target may raise only RocenvError. The seeds come from the builders of other tests; targets must accept all
of them, so that mutations get past the first checks.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv import config
from rocenv.checks import bundle
from rocenv.commands import trust
from rocenv.core.foreign import parse_json
from rocenv.core.language import LANGUAGES
from rocenv.core.lock import lock_text, read_lock
from rocenv.core.model import Artifact
from rocenv.data.load import load
from rocenv.diagnose import diagnose_bytes
from rocenv.diagnose.report import report
from rocenv.fleet.compare import commands, findings, to_drain
from rocenv.fleet.results import read_results
from rocenv.home import Home
from rocenv.host.windows import found_on_windows
from rocenv.install.archive import unpack_archive
from rocenv.install.bundle import open_bundle
from rocenv.install.deb import data_chunks, unpack_tar
from rocenv.install.installer import archive_start
from rocenv.install.python_package import require_package, wheel_of
from rocenv.install.tree import Tree
from rocenv.install.xz import Bounded, xz_chunks
from rocenv.kernels.compile import check
from rocenv.memory.gguf import read_model
from rocenv.memory.model_layout import layout_of
from rocenv.net import Network, Response
from rocenv.sources.apt.control import Lists
from rocenv.sources.apt.index import Place, refresh
from rocenv.sources.apt.mirrors import Settings
from rocenv.sources.apt.signature import fingerprints_in, verified_text
from rocenv.sources.simple_index import SimpleIndex
from rocenv.system import pe
from tests import debs, sets
from tests.aptrepo import Repo, archive_key
from tests.bundles import bundle_of
from tests.install.test_archive import FILES, by_store, sevenzipped, with_header_sums, zipped
from tests.kernels.code import code_object, kernels
from tests.test_fleet_report import answer as node_result
from tests.wheels.index import build_wheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CASES = Path(__file__).parents[1] / "cases" / "diagnose"
INDEX = "https://index.example/simple/"


@dataclass(frozen=True)
class Target:
    """A parser of untrusted input.

    Attributes:
        run: Parses the bytes; the folder that it gets is empty.
        seeds: Valid inputs.
        short_runs: The number of inputs that `scripts/test` runs; lower for slow parsers.
    """

    run: Callable[[bytes, Path], object]
    seeds: Callable[[], Sequence[bytes]]
    short_runs: int = 300


def put(folder: Path, data: bytes, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@cache
def matrix() -> Any:
    return load()


@cache
def pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


# ---------------------------------------------------------------- packages and archives


def tree_in(folder: Path, *, for_windows: bool) -> Tree:
    (folder / "around" / "tree").mkdir(parents=True)
    return Tree(folder / "around" / "tree", lambda _size: None, for_windows=for_windows)


def require_inside(tree: Tree) -> None:
    """Raise AssertionError if a file is outside the tree or if a link in the tree points outside."""
    assert [each.name for each in tree.folder.parent.iterdir()] == ["tree"]
    top = os.path.realpath(tree.folder)
    for here, folders, files in os.walk(top):
        for name in (*folders, *files):
            assert os.path.realpath(os.path.join(here, name)).startswith(top + os.sep)


def read_deb(data: bytes, folder: Path) -> None:
    unpacking(folder, lambda tree: unpack_tar(data_chunks(io.BytesIO(data), pool(), 2), tree))


def read_tar(data: bytes, folder: Path) -> None:
    unpacking(folder, lambda tree: unpack_tar(iter([data]), tree))


def unpacking(folder: Path, unpack: Callable[[Tree], None], *, for_windows: bool = False) -> None:
    tree = tree_in(folder, for_windows=for_windows)
    try:
        unpack(tree)
    finally:
        require_inside(tree)


def read_archive(data: bytes, folder: Path) -> None:
    archive = put(folder, data)
    work = folder / "work"
    unpacking(folder, lambda tree: unpack_archive(archive, tree, work), for_windows=True)


def read_7z(data: bytes, folder: Path) -> None:
    """Parse an archive after fixing its checksums, so that mutations get past them."""
    if len(data) >= 32 and int.from_bytes(data[12:20], "little") <= len(data):
        data = with_header_sums(data)
    read_archive(data, folder)


def read_xz(data: bytes, _folder: Path) -> None:
    for _chunk in xz_chunks(Bounded(io.BytesIO(data), len(data)), pool(), 2):
        pass


def tree_of_files() -> list[debs.Entry]:
    return [
        debs.folder("./opt"),
        debs.folder("./opt/lib"),
        debs.file("./opt/lib/libdemo.so.1", b"code" * 50),
        debs.symlink("./opt/lib/libdemo.so", "libdemo.so.1"),
        debs.hardlink("./opt/lib/other.so", "./opt/lib/libdemo.so.1"),
        debs.file("./opt/" + "long/" * 30 + "name", b"x"),
    ]


def deb_seeds() -> list[bytes]:
    return [
        debs.deb(tree_of_files(), compression=compression)
        for compression in ("none", "gz", "xz", "xz-blocks", "zst")
    ]


def tar_seeds() -> list[bytes]:
    pax = io.BytesIO()
    with tarfile.open(fileobj=pax, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("ü" * 120)
        info.pax_headers = {"comment": "x"}
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    return [debs.tar(tree_of_files()), pax.getvalue()]


def xz_seeds() -> list[bytes]:
    data = b"words of a text " * 300
    return [debs.compress(data, "xz"), debs.compress(data, "xz-blocks", block_bytes=1024), lzma.compress(b"")]


SMALL = {"zluda/nvcuda.dll": b"MZ driver", "zluda/ümlaut.txt": b"name" * 20, "empty": b""}


def zip_seeds() -> list[bytes]:
    return [zipped(SMALL), zipped(SMALL, 0), zipped(SMALL, 12), zipped(SMALL, 14)]


def sevenzip_seeds() -> list[bytes]:
    return [
        sevenzipped(SMALL),
        by_store(b"content of a file"),
        sevenzipped({"a/b": FILES["zluda/empty.txt"]}),
    ]


SDIST = Artifact(
    kind="sdist", name="demo", version="1.0", url=f"{INDEX}demo-1.0.tar.gz", sha256="", size_bytes=1
)
WHEEL = Artifact(kind="wheel", name="demo", version="1.0", url=f"{INDEX}demo.whl", sha256="", size_bytes=1)


def read_wheel(data: bytes, folder: Path) -> None:
    require_package(WHEEL, put(folder, data))


def read_sdist(data: bytes, folder: Path) -> None:
    """Parse an sdist whose inner tar is mutated."""
    path = put(folder, data if data.startswith(b"\x1f\x8b") else gzip.compress(data, 1))
    require_package(SDIST, path)
    wheel_of(path, SDIST, [])


def sdist_seeds() -> list[bytes]:
    members = [
        debs.file("demo-1.0/PKG-INFO", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"),
        debs.file("demo-1.0/src/demo/__init__.py", "x = 1\n"),
        debs.file("demo-1.0/src/demo.egg-info/entry_points.txt", "[console_scripts]\ndemo = demo:main\n"),
    ]
    return [debs.tar(members), gzip.compress(debs.tar(members))]


# ---------------------------------------------------------------- programs, libraries, models


def read_pe(data: bytes, folder: Path) -> None:
    path = put(folder, data, "a.dll")
    pe.overlay(path)
    pe.explain_not_loading(str(path), [str(folder)], [])
    pe.export_names(path)
    pe.read(path)


def read_installer(data: bytes, folder: Path) -> None:
    archive_start(put(folder, data))


def pe_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        from tests.dlls import dll

        needed = dll(Path(folder, "needed.dll"))
        return [
            dll(Path(folder, "a.dll"), needs=[needed], numbers="5,7,1,0", delayed="late.dll").read_bytes()
        ]


def installer_seeds() -> list[bytes]:
    (program,) = pe_seeds()
    return [program + sevenzipped(SMALL)]


def read_kernels(data: bytes, _folder: Path) -> None:
    check(data, "gfx1100", matrix().code_objects)


def read_gguf(data: bytes, folder: Path) -> None:
    model = read_model(put(folder, data, "model.gguf"))
    layout_of(model)


def gguf_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        from tests.memory.models import Writer, llama

        small = Writer(Path(folder, "small.gguf"))
        small.keys.add_token_list(["a", "b"])
        small.keys.add_block_count(1)
        small.tensor("output_norm.weight", (32,)).close()
        # A header without the weights suffices, because missing tensor data is counted but is not an error.
        header = llama(Path(folder, "llama.gguf"), layers=1, embedding=64, heads=2, kv_heads=1).read_bytes()
        return [small.path.read_bytes(), header[:8192], zipped({"model.gguf": small.path.read_bytes()}, 0)]


# ---------------------------------------------------------------- texts


def read_lock_file(data: bytes, folder: Path) -> None:
    lock = read_lock(put(folder, data))
    lock_text(lock)


def lock_seeds() -> list[bytes]:
    wheel = "https://example.invalid/torch-1-cp311-cp311-win_amd64.whl"
    text = lock_text(sets.zluda_lock()).replace("https://example.invalid/torch", wheel)
    return [text.encode(), json.dumps(json.loads(text)).encode()]


def read_env_bundle(data: bytes, folder: Path) -> None:
    bundle = open_bundle(put(folder, data))
    for name in bundle.manifest.envs:
        bundle.artifacts(bundle.lock(name))
    for member in bundle.extras:
        assert ".." not in member


def env_bundle_seeds() -> list[bytes]:
    lock = lock_seeds()[0]
    member = f"locks/{hashlib.sha256(lock).hexdigest()}.lock"
    contents = {f"artifacts/{each.sha256}": bytes(each.size_bytes) for each in sets.zluda_lock().artifacts}
    contents |= {"data.json": b"{}", member: lock, "pythons/cpython-3.12.16-linux-x86_64-gnu.tar.gz": b""}
    return [bundle_of(contents, {"lab": member})]


def read_page(data: bytes, folder: Path) -> None:
    index = SimpleIndex(
        url=INDEX,
        network=Network(offline=True),
        kept=folder,
        key_file=folder / "key",
        rank=len,
        archives=("demo",),
        pages={f"{INDEX}demo/": (data.decode("utf-8", "replace"), f"{INDEX}demo/")},
    )
    index.versions("demo")
    index.newest("demo", lambda _version: True)


def page_seeds() -> list[bytes]:
    wheel = build_wheel("demo", "1.0")
    links = [
        f'<a href="../{wheel.filename}#sha256={wheel.sha256}">x</a><br/>',
        '<a href="demo-2.0.tar.gz">y</a>',
    ]
    return ["\n".join(["<!DOCTYPE html><html><body>", *links, "</body></html>"]).encode()]


class Answers(Network):
    """A network that serves one file at every URL."""

    __slots__ = ()

    def get(self, url: str, *, etag: str = "", limit_bytes: int = 0, hashed: bool = False) -> Response:
        name = "InRelease" if url.endswith("/InRelease") else ""
        return Response(url=url, body=FILES_OF_MIRROR[name], final_url=url)


FILES_OF_MIRROR: dict[str, bytes] = {}


def read_release(data: bytes, folder: Path) -> None:
    """Parse an invalid message with a valid signature."""
    text = data.decode("utf-8", "replace")
    FILES_OF_MIRROR.update({"": b"", "InRelease": archive_key().clear_sign(text)})
    refresh(place(), folder, Answers(), Settings(), max_age_s=0, key_file=folder / "key")


def place() -> Place:
    key = archive_key()
    return Place(
        base="https://mirror.example/",
        suite="mini",
        components=("main",),
        keyrings=(key.keyring,),
        fingerprints=(key.fingerprint,),
        remedy="none",
        other_mirror="none",
    )


def release_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        text = Repo(Path(folder)).publish(forms=[""], fields={"Valid-Until": "Sat, 01 Jan 2095 00:00:00 UTC"})
    return [text.encode()]


@cache
def signed() -> bytes:
    return archive_key().clear_sign("Suite: mini\n")


def read_signed(data: bytes, _folder: Path) -> None:
    verified_text(data, [archive_key().keyring], [], what="it", remedy="none")


def read_keyring(data: bytes, _folder: Path) -> None:
    fingerprints_in(data)
    verified_text(signed(), [data], [], what="it", remedy="none")


def read_packages(data: bytes, folder: Path) -> None:
    kinds = {b"\xfd7zXZ": "Packages.xz", b"\x1f\x8b": "Packages.gz"}
    name = next((name for head, name in kinds.items() if data.startswith(head)), "Packages")
    path = put(folder, data, hashlib.sha256(data).hexdigest())
    lists = Lists("mini", [(path, name)])
    lists.providing("virtual")
    for each in ("demo", "other"):
        lists.named(each)


def packages_seeds() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        repo = Repo(Path(folder))
        repo.add(
            "demo",
            "1:2.0~rc1-1",
            depends="libc6 (>= 2.31), a | b [amd64] <!nocheck>",
            provides="virtual (= 1)",
        )
        repo.add("other", "1", conflicts="demo (<< 1)", pre_depends="x:any")
        repo.publish(forms=["", ".xz", ".gz"])
        names = ("Packages", "Packages.xz", "Packages.gz")
        return [repo.read(f"main/binary-amd64/{name}") for name in names]


def read_folder_file(data: bytes, folder: Path) -> None:
    put(folder, data, trust.FILE)
    trust._read(str(folder), Home(folder / "home"))


def read_log(data: bytes, _folder: Path) -> None:
    for finding in diagnose_bytes(data, matrix()).findings:
        assert all(each.text.isprintable() for each in finding.evidence)
        for language in LANGUAGES:
            report(finding, matrix(), language)


def log_seeds() -> list[bytes]:
    logs = [path.read_bytes() for path in sorted(CASES.glob("*/known-*.log"))]
    small = [log for log in logs if len(log) < 3000][::4]
    return [*small, gzip.compress(small[0]), small[1].decode("utf-8", "replace").encode("utf-16")]


def read_config(data: bytes, folder: Path) -> None:
    path = put(folder, data, "config.toml")
    config.load(path)
    config.assign(path, ("defaults", "rocm"), "6.4")
    config.unset(path, ("defaults", "rocm"))


def read_json(data: bytes, _folder: Path) -> None:
    parse_json(data, "it")


def read_bundle(data: bytes, folder: Path) -> None:
    bundle.read(put(folder, data))


def bundle_seeds() -> list[bytes]:
    plain = {
        "schema": bundle.SCHEMA,
        "rocenv": "0.1.0",
        "platform": "linux",
        "files": {"/proc/version": "Linux version 6.8"},
        "folders": {"/dev": ["kfd"]},
        "opened": {"/dev/kfd": "EACCES"},
        "observed": [{"check": "no_gpu", "row": "no_gpu", "values": {"a": "b"}, "evidence": ["c"]}],
    }
    return [json.dumps(plain).encode()]


def read_hipinfo(data: bytes, _folder: Path) -> None:
    adapters, _, text = data.decode("utf-8", "replace").partition("\f")
    found_on_windows(adapters, text, matrix())


def hipinfo_seeds() -> list[bytes]:
    controllers = [{"Name": "AMD Radeon RX 6800", "DriverVersion": "32.0.12033.1030"}]
    controllers[0]["PNPDeviceID"] = r"PCI\VEN_1002&DEV_73BF&SUBSYS_17141043&REV_C1\6&1"
    device = "device# 0\nName: AMD Radeon RX 6800\ngcnArchName: gfx1030\nisIntegrated: 0\n"
    return [(json.dumps(controllers) + "\f" + device + "totalGlobalMem: 15.98 GB\n").encode()]


def read_node_result(data: bytes, folder: Path) -> None:
    put(folder, data, "n2.json")
    put(folder, json.dumps(node_result("n1")).encode(), "n1.json")
    commands(to_drain(findings(read_results(folder), {}, {})))


TARGETS: dict[str, Target] = {
    "deb": Target(read_deb, deb_seeds),
    "tar": Target(read_tar, tar_seeds),
    "xz": Target(read_xz, xz_seeds),
    "zip": Target(read_archive, zip_seeds),
    "7z": Target(read_7z, sevenzip_seeds),
    "wheel": Target(read_wheel, lambda: [build_wheel("demo", "1.0").data]),
    "sdist": Target(read_sdist, sdist_seeds),
    "pe": Target(read_pe, pe_seeds, short_runs=30),
    "installer": Target(read_installer, installer_seeds, short_runs=100),
    "kernels": Target(read_kernels, lambda: [kernels("gfx1100", 3), code_object(["a.kd"], 0x41)]),
    "gguf": Target(read_gguf, gguf_seeds),
    "node-result": Target(
        read_node_result, lambda: [json.dumps(node_result("n2", gpus=gpus)).encode() for gpus in (0, 2)]
    ),
    "lock": Target(read_lock_file, lock_seeds),
    "page": Target(read_page, page_seeds),
    "release": Target(read_release, release_seeds),
    "signed": Target(read_signed, lambda: [signed()]),
    "keyring": Target(read_keyring, lambda: [archive_key().keyring, archive_key().armoured]),
    "packages": Target(read_packages, packages_seeds),
    "folder-file": Target(read_folder_file, lambda: [b"torch\n", b"\xef\xbb\xbfmy env \r\n\n"]),
    "log": Target(read_log, log_seeds),
    "config": Target(
        read_config, lambda: [b'[defaults]\nrocm = "6.2"\n[mirrors]\n"https://a/" = ["https://b/"]\n']
    ),
    "json": Target(
        read_json, lambda: [b'{"a": [1, 2.5e3, "\\u00e9", null, {"b": "[["}]}', '["ä"]'.encode("utf-16")]
    ),
    "bundle": Target(read_bundle, bundle_seeds),
    "env-bundle": Target(read_env_bundle, env_bundle_seeds),
    "hipinfo": Target(read_hipinfo, hipinfo_seeds),
}
