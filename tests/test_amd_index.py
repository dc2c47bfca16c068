"""The fake AMD indexes, which must behave like the real ones with uv and pip."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pefile
import pytest

from tests.amd_binaries import WINDOWS
from tests.amd_index import CURRENT, AmdIndex
from tests.windows.standin_compiler import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

SDIST = "rocm-10.0.0.tar.gz"
TORCH = f"torch-2.13.0+rocm10.0.0-{CURRENT}-{CURRENT}-linux_x86_64.whl"
INSTALLED = (
    TORCH,
    f"amd_torch_device_gfx1151-2.13.0+rocm10.0.0-{CURRENT}-{CURRENT}-linux_x86_64.whl",
    *(
        f"rocm_sdk_{part}-10.0.0-py3-none-linux_x86_64.whl"
        for part in ("core", "libraries", "devel", "device_gfx1100", "device_gfx1151")
    ),
)
# Metadata of `rocm` for clients that do not build the sdist.
_SAYS = """
[[dependency-metadata]]
name = "rocm"
version = "{version}"
requires-dist = [
    "rocm-sdk-core=={version}",
    "rocm-sdk-libraries=={version} ; extra == 'libraries'",
]
provides-extra = ["libraries"]
"""


@pytest.fixture(scope="module")
def index() -> Iterator[AmdIndex]:
    with AmdIndex() as index:
        yield index


def get(url: str) -> tuple[int, str, str]:
    """Return the status, the final URL and the body."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.url, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, url, ""


def uv(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [
        sys.executable,
        "-m",
        "uv",
        f"--cache-dir={folder / 'cache'}",
        "--no-progress",
        "--color=never",
    ]
    environ = {**os.environ, "NO_PROXY": "127.0.0.1", "UV_HTTP_RETRIES": "0"}
    return subprocess.run(
        [*program, *arguments], env=environ, capture_output=True, text=True, timeout=60, check=False
    )


def select(folder: Path, index_url: str, *requirements: str, rocm: str = "10.0.0") -> dict[str, str]:
    """Return uv's selection: project -> version."""
    config, wanted = folder / "uv.toml", folder / "requirements.in"
    config.write_text(_SAYS.format(version=rocm))
    wanted.write_text("\n".join(requirements))
    done = uv(
        folder,
        *("--config-file", str(config), "pip", "compile", str(wanted), "--no-header", "--no-annotate"),
        *("--only-binary=:all:", "--no-binary=rocm", f"--default-index={index_url}"),
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("==") for line in done.stdout.splitlines())


def test_urls_redirect_and_link_as_they_do_on_amds_servers(index: AmdIndex) -> None:
    stable, legacy = (index.mirrors[f"https://{name}.amd.com/"] for name in ("stable.repo", "repo"))
    nightly = index.mirrors["https://nightly.repo.amd.com/"]
    assert '<a href="torch/">torch</a>' in get(f"{stable}rocm/whl-next/")[2]
    for project, product in (("torch", "pytorch"), ("rocm", "core"), ("numpy", "core")):
        _, final, page = get(f"{stable}rocm/whl-next/{project}/")
        assert final == f"{stable}rocm/{product}/whl-next/{project}/"
        for link in re.findall('href="([^"]+)"', page):
            assert "+" not in link
            assert get(f"{final}{link}.nothing")[0] == 403
        assert re.search(r"<!--TIMESTAMP \d+-->$", page.strip())
        assert "#sha256" not in page
    _, final, page = get(f"{legacy}rocm/whl-multi-arch/torch/")
    assert final.endswith("/whl-multi-arch/torch/")
    assert 'href="../torch-2.12.0%2Brocm7.14.1-' in page
    dates = re.findall(r">rocm-10\.2\.0a(\d+)", get(f"{nightly}rocm/whl-next/rocm/")[2])
    assert len(dates) == 2
    assert (
        re.findall(r">torch-[^+]+\+rocm10\.2\.0a(\d+)", get(f"{nightly}rocm/whl-next/torch/")[2]) == dates[:1]
    )
    assert "rocm-0.1.0-py3-none-any.whl" in get(f"{index.mirrors['pypi:']}rocm/")[2], (
        "AMD's placeholder on PyPI"
    )
    for unknown in (f"{stable}rocm/whl-next/accelerate/", f"{legacy}rocm/whl-multi-arch/gfx1151/torch/"):
        assert get(unknown)[0] == 403


def test_windows_wheels_contain_the_libraries_of_rocm_sdk() -> None:
    with AmdIndex(platforms=(WINDOWS,)) as index:
        flat = get(index.mirrors["https://repo.radeon.com/rocm/windows/"] + "rocm-rel-7.2.1/")[2]
        files: dict[tuple[str, str], bytes] = {}
        for part in ("core", "libraries"):
            wheel = index.wheel(f"rocm_sdk_{part}-10.0.0-py3-none-{WINDOWS}.whl")
            with zipfile.ZipFile(io.BytesIO(wheel.data)) as archive:
                files |= {(part, Path(name).name): archive.read(name) for name in archive.namelist()}
    assert 'href="torch-2.9.1%2Brocmsdk20260116-cp312-cp312-win_amd64.whl"' in flat
    assert 'href="rocm_sdk_libraries_custom-7.2.1-py3-none-win_amd64.whl"' in flat
    tables = runpy.run_path(str(SOURCES / "rocm_sdk" / "_dist_info.py"))
    for package, _, pattern, _ in tables["LIBRARIES"].values():
        assert not pattern or any(part == package and fnmatch(name, pattern) for part, name in files), pattern
    assert ("core", "hiprtc0715.dll") in files
    needed = {"hipblas.dll": "rocblas.dll", "rocblas.dll": "amdhip64_7.dll"}
    for name, other in needed.items():
        with pefile.PE(data=files["libraries", name]) as pe:
            assert other.encode() in [each.dll for each in pe.DIRECTORY_ENTRY_IMPORT]


@pytest.mark.parametrize(
    ("torch", "base", "family"),
    [
        ("2.13.0+rocm10.0.0", "https://stable.repo.amd.com/|rocm/whl-next/", "gfx115x"),
        ("2.12.0+rocm7.14.0", "https://repo.amd.com/|rocm/whl-multi-arch/", "gfx11"),
    ],
)
def test_an_extra_selects_kernels_for_target_and_family_without_building(
    index: AmdIndex, tmp_path: Path, torch: str, base: str, family: str
) -> None:
    prefix, _, path = base.partition("|")
    rocm = torch.partition("+rocm")[2]
    found = select(tmp_path, index.mirrors[prefix] + path, f"torch[device-gfx1151]=={torch}", rocm=rocm)
    kernels = {name: version for name, version in found.items() if name.startswith("amd-")}
    assert kernels == {f"amd-torch-device-{name}": torch for name in ("gfx1151", family)}
    assert {found[f"rocm-sdk-{name}"] for name in ("core", "libraries", "device-gfx1151")} == {rocm}
    assert not index.asked(f"rocm-{rocm}.tar.gz")


def test_an_unpinned_torchvision_resolves_to_rocm_7(index: AmdIndex, tmp_path: Path) -> None:
    url = index.mirrors["https://stable.repo.amd.com/"] + "rocm/whl-next/"
    found = select(tmp_path, url, "torch==2.13.0+rocm10.0.0", "torchvision")
    assert found["torchvision"] == "0.28.0+rocm7.14.0"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--isolated",
        "install",
        "--dry-run",
        "--no-deps",
        "--ignore-installed",
    ]
    command += ["--quiet", "--report=-", "--index-url", url, "--no-cache-dir", "torchvision==0.28.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["install"][0]["metadata"]["version"] == "0.28.0+rocm7.14.0"


def test_range_requests_save_bytes_and_uv_detects_a_wrong_hash(tmp_path: Path) -> None:
    sent = {}
    for ranges in (True, False):
        with AmdIndex(ranges=ranges) as index:
            folder = tmp_path / str(ranges)
            folder.mkdir()
            url = index.mirrors["https://stable.repo.amd.com/"] + "rocm/whl-next/"
            select(folder, url, "torch[device-gfx1151]==2.13.0+rocm10.0.0")
            sent[ranges] = index.sent
    assert sent[True] < sent[False] / 2
    with AmdIndex(hashes=True, sidecars=("rocm-sdk-core",)) as index:
        index.break_hash("rocm_sdk_core-10.0.0-py3-none-linux_x86_64.whl")
        url = index.mirrors["https://stable.repo.amd.com/"] + "rocm/core/whl-next/"
        assert "data-core-metadata" in get(f"{url}rocm-sdk-core/")[2]
        assert uv(tmp_path, "venv", str(tmp_path / "venv")).returncode == 0
        install = ("pip", "install", f"--python={tmp_path / 'venv'}", "--no-deps", f"--default-index={url}")
        done = uv(tmp_path, *install, "rocm-sdk-core==10.0.0")
        assert "Hash mismatch" in done.stderr


def test_installed_wheels_load_through_rocm_sdk_and_init_unpacks_devel(
    index: AmdIndex, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    assert uv(tmp_path, "venv", f"--python={sys.executable}", str(venv)).returncode == 0
    for name in INSTALLED:
        (tmp_path / name).write_bytes(index.wheel(name).data)
    wheels = [str(tmp_path / name) for name in INSTALLED]
    done = uv(tmp_path, "pip", "install", f"--python={venv}", "--no-deps", "--no-index", *wheels)
    assert done.returncode == 0, done.stderr
    (site,) = venv.glob("lib/python*/site-packages")
    with tarfile.open(fileobj=io.BytesIO(index.wheel(SDIST).data)) as sdist:
        for member in sdist:
            if "/src/rocm_sdk/" in member.name:
                path = site / member.name.partition("/src/")[2]
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(sdist.extractfile(member).read())  # type: ignore[union-attr]  # a file

    def run(*arguments: str) -> str:
        python = [str(venv / "bin" / "python"), *arguments]
        done = subprocess.run(python, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    show = "import torch; print(torch.version.hip, torch.cuda.is_available())"
    loaded = run("-c", f"{show}; print(open('/proc/self/maps').read())")
    assert loaded.startswith("7.15.26333 True\n")
    for package, library in (("core", "libamdhip64.so.7"), ("libraries", "librocblas.so.5")):
        assert f"{site}/_rocm_sdk_{package}/lib/{library}\n" in loaded
    assert run("-m", "rocm_sdk", "test") == "OK\n"
    assert run("-m", "rocm_sdk", "targets") == "gfx1100;gfx1151;gfx1201\n"

    run("-m", "rocm_sdk", "init")
    root = Path(run("-m", "rocm_sdk", "path", "--root").strip())
    assert root == site / "_rocm_sdk_devel"
    assert (root / "lib/libamdhip64.so").samefile(site / "_rocm_sdk_core/lib/libamdhip64.so.7")
    assert (root / "bin/amdclang").is_symlink()
    assert (root / "lib/cmake/hip/hip-config.cmake").is_file()
    assert (root / "lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat").stat().st_nlink > 1
    (record,) = site.glob("rocm_sdk_devel-*.dist-info/RECORD")
    lines = record.read_text().splitlines()
    assert f"{root.name}/include/rocblas/rocblas.h,," in lines
    missing = [name for name in (line.split(",")[0] for line in lines) if not os.path.lexists(site / name)]
    assert missing == ["rocm_sdk_devel/_devel.tar"]


def test_the_sdist_refuses_to_build_and_files_are_reproducible(index: AmdIndex, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(index.wheel(SDIST).data)) as sdist:
        setup = sdist.extractfile("rocm-10.0.0/setup.py")
        assert setup is not None
        (tmp_path / "setup.py").write_bytes(setup.read())
    done = subprocess.run(
        [sys.executable, "setup.py", "egg_info"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "the sdist of rocm must not be built" in done.stderr
    names = [SDIST, *INSTALLED]
    code = (
        "import json, sys; from tests.amd_index import AmdIndex\n"
        "with AmdIndex() as index: print(json.dumps([index.wheel(name).sha256 for name in sys.argv[1:]]))"
    )
    root = Path(__file__).parents[1]
    again = subprocess.run(
        [sys.executable, "-c", code, *names], cwd=root, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(again.stdout) == [index.wheel(name).sha256 for name in names]
