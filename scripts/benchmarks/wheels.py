"""The cost of creating envs with ROCm wheels, compared with uv plus one SHA-256 pass over the same files."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import random
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import at_most, middle, progress, ratio, remove, run, settle

if TYPE_CHECKING:
    from benchmarks.measure import Bench, Figure, Run

WHEELS = 12
FILES = 1000  # per wheel
LARGE, LARGE_BYTES = 10, 32 << 20  # number and size of the libraries in each wheel
SMALL_BYTES = 20_000
_DATE = (1980, 1, 1, 0, 0, 0)


def figures(bench: Bench) -> list[Figure]:
    """Compare a first and a second env (12 wheels, 4 GB, 12,000 files) with uv plus a SHA-256 pass."""
    wheels = [_wheel(bench.folder / "wheels", number) for number in range(WHEELS)]
    lock = _lock(bench, wheels)
    create = (bench.rocenv, "create", "--from", str(lock), "--offline", "--no-verify", "--yes")
    runs: dict[str, list[Run]] = {
        name: [] for name in ("first", "second", "uv", "uv again", "sha256", "look")
    }
    for _ in range(bench.repetitions):
        for part in ("envs", "store", "cache/uv"):
            remove(bench.home / part)
        remove(bench.folder / "uv")
        settle(wheels)
        runs["first"].append(bench.run(*create, "w1"))
        runs["second"].append(bench.run(*create, "w2"))
        settle(wheels)
        runs["uv"].append(_uv_install(bench, wheels, "v1"))
        runs["sha256"].append(_sha256(bench, "v1"))
        runs["uv again"].append(_uv_install(bench, wheels, "v2"))
        runs["look"].append(_sha256(bench, "v2"))
    progress(runs)
    for part in ("envs", "cache/uv"):
        remove(bench.home / part)
    remove(bench.folder / "uv")
    seconds = {name: middle(each).seconds for name, each in runs.items()}
    return [
        ratio(
            "create from 12 downloaded wheels, 4 GB, 12,000 files",
            seconds["first"],
            "s",
            "uv pip install with a cold cache, and one pass of sha256sum over the files",
            seconds["uv"] + seconds["sha256"],
            1.3,
        ),
        ratio(
            "a second env with the same wheels",
            seconds["second"],
            "s",
            "uv pip install with a warm cache, and one pass of sha256sum over the files",
            seconds["uv again"] + seconds["look"],
            1.5,
        ),
        at_most("plan of 12 wheels with 1,000 files each, without .metadata", _plan(bench) / 1e6, "MB", 2),
    ]


def _plan(bench: Bench) -> int:
    """Plan ROCm and PyTorch from an index without hashes or metadata, and return the number of bytes served.

    rocenv reads only the list of files at the end of each wheel, so the test wheels can be small.
    """
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from tests.amd_index import AmdIndex, project_of
    from tests.wheels.pure import PURE
    from tests.wheels.test_rocm_wheels import write_settings

    class Index(AmdIndex):
        def content(self, path: str) -> bytes | None:
            data = super().content(path)
            is_large = path.endswith(".whl") and project_of(path.rpartition("/")[2]) not in PURE
            return _with_more_files(data) if data and is_large else data

    home = bench.folder / "planning"
    with Index() as index:
        write_settings(home, index)
        environ = {**bench.environ, "ROCENV_HOME": str(home), "UV_PYTHON_DOWNLOADS": "never"}
        asked = (bench.rocenv, "resolve", "--rocm", "10.0", "--torch", "--target", "gfx1151")
        run(asked, environ)
        return index.sent


@functools.cache
def _with_more_files(wheel: bytes) -> bytes:
    data = io.BytesIO(wheel)
    with zipfile.ZipFile(data, "a") as archive:
        for each in range(FILES):
            archive.writestr(f"torch/lib/rocblas/library/Kernels.so-000-gfx1151-{each}.hsaco", b"")
    return data.getvalue()


def _wheel(folder: Path, number: int) -> Path:
    """Write a wheel with libraries and small files; half of each file is highly compressible."""
    folder.mkdir(parents=True, exist_ok=True)
    name, chance = f"rocm_bench_{number}", random.Random(number)
    path = folder / f"{name}-10.0.0-py3-none-any.whl"
    block = chance.randbytes(1 << 19) + bytes(1 << 19)
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for each in range(FILES):
            seed = each.to_bytes(4, "big")
            content = seed + (block * (LARGE_BYTES >> 20) if each < LARGE else block[-SMALL_BYTES:])
            member = f"{name}/{each // 100}/lib{each}.so"
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{member},sha256={digest},{len(content)}\n")
            wheel.writestr(zipfile.ZipInfo(member, _DATE), content, zipfile.ZIP_DEFLATED, 1)
        info = f"{name}-10.0.0.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 10.0.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "".join(record))
    return path


def _lock(bench: Bench, wheels: list[Path]) -> Path:
    """Add the wheels to the download cache, and write a lock for them."""
    import platform

    from rocenv.core.lock import lock_text
    from rocenv.core.model import VENV, Artifact, Component, Lock, Request, venv_layout
    from rocenv.system.files import sha256_of

    fetched = bench.home / "cache" / "artifacts"
    fetched.mkdir(parents=True, exist_ok=True)
    artifacts = []
    for path in wheels:
        sha256 = sha256_of(path)
        target = fetched / sha256
        target.hardlink_to(path)
        artifacts.append(
            Artifact(
                kind="wheel",
                name=path.name.split("-")[0].replace("_", "-"),
                version="10.0.0",
                url=f"https://stable.repo.amd.com/rocm/whl-next/{path.name}",
                sha256=sha256,
                size_bytes=path.stat().st_size,
            )
        )
    version = platform.python_version()
    part = Component(
        kind="rocm",
        name="ROCm wheels",
        version="10.0.0",
        channel="therock",
        why="benchmark",
        artifacts=tuple(artifacts),
        python=version,
        layout=venv_layout(version, "linux"),
        into=VENV,
    )
    lock = Lock(
        request=Request(target="gfx1100"),
        platform="linux",
        target="gfx1100",
        components=(part,),
        environment=(),
    )
    place = bench.folder / "wheels.lock"
    place.write_text(lock_text(lock))
    assert json.loads(place.read_text())["components"]
    return place


def _uv_install(bench: Bench, wheels: list[Path], name: str) -> Run:
    from uv import find_uv_bin

    uv, venv = find_uv_bin(), bench.folder / "uv" / name
    cache = f"--cache-dir={bench.folder / 'uv' / 'cache'}"
    script = f'"{uv}" venv -q "{cache}" "{venv}" && exec "$@"'
    install = (uv, "pip", "install", "-q", "--offline", "--no-deps", cache, f"--python={venv}")
    return bench.run("sh", "-c", script, "sh", *install, *map(str, wheels))


def _sha256(bench: Bench, name: str) -> Run:
    venv = bench.folder / "uv" / name
    return bench.run("sh", "-c", f'find "{venv}/lib" -type f -print0 | xargs -0 -n 64 -P 2 sha256sum')
