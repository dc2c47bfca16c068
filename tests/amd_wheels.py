"""The wheels in AMD's indexes, built from the fakes in `shims/fakes`."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from tests import amd_binaries
from tests.amd_binaries import LINUX, WINDOWS
from tests.wheels.index import Wheel, build_wheel
from tests.wheels.pure import PURE, TORCH_REQUIRES
from tests.windows.standin_compiler import SOURCES

if TYPE_CHECKING:
    from rocenv.data.releases import RocmWheels, TorchSet

TARGETS = ("gfx1100", "gfx1151", "gfx1201")
EPOCH_S = 1_704_067_200
_LARGE = bytes((1 << 20) + 1)  # large enough for envs to share it, read-only, with uv's cache


@dataclass(frozen=True, kw_only=True)
class Release:
    """A ROCm release and the torch builds for it."""

    rocm: str
    hip: int  # the result of hipRuntimeGetVersion
    rocm_of_torch: str  # the `rocm` version that torch requires
    torch: tuple[str, ...] = ()
    vision: tuple[str, ...] = ()
    audio: str = ""
    triton: str = ""
    targets: tuple[str, ...] = TARGETS
    families: tuple[tuple[str, str], ...] = ()  # target -> family of its AOTriton kernels
    libraries: str = "rocm-sdk-libraries"  # "" if torch contains all of ROCm
    local: str = ""  # local version of the torch builds; "" for the one in AMD's indexes
    bare: bool = False  # build empty wheels, which are enough for a plan

    @property
    def build(self) -> str:
        return self.local or f"rocm{self.rocm}"

    @property
    def series(self) -> str:
        return ".".join(self.rocm.split(".")[:2])

    @property
    def hip_version(self) -> str:
        return f"{self.hip // 10_000_000}.{self.hip // 100_000 % 100}.{self.hip % 100_000}"

    @property
    def hiprtc_dll(self) -> str:
        major, minor, _ = self.hip_version.split(".")
        return f"hiprtc{int(major):02}{int(minor):02}.dll"


_FAMILIES = (("gfx1100", "gfx110x"), ("gfx1151", "gfx115x"), ("gfx1201", "gfx12-0"))
_FAMILIES_7 = (("gfx1100", "gfx11"), ("gfx1151", "gfx11"))
# The torch and ROCm pairings are AMD's. Triton versions that AMD's table does not list are made up.
LEGACY = (
    Release(
        rocm="7.14.0", hip=71426190, rocm_of_torch="==7.14.0", torch=("2.12.0", "2.13.0"),
        vision=("0.27.0", "0.28.0"), audio="2.11.0", triton="3.8.0+git4cff872c", families=_FAMILIES_7,
    ),
    Release(
        rocm="7.14.1", hip=71426205, rocm_of_torch="==7.14.1", torch=("2.12.0",),
        vision=("0.27.0",), audio="2.11.0", triton="3.8.0+git4cff872c", families=_FAMILIES_7,
    ),
)  # fmt: skip
STABLE = (
    Release(
        rocm="10.0.0", hip=71526333, rocm_of_torch="==10.0.*", torch=("2.13.0",),
        vision=("0.28.0",), audio="2.11.0.2", triton="3.8.0+git4cff872c", families=_FAMILIES,
    ),
    Release(
        rocm="10.1.0", hip=71626401, rocm_of_torch="==10.1.*", torch=("2.14.0",),
        vision=("0.29.0",), audio="2.11.0.3", triton="3.9.0+git0000000a", families=_FAMILIES,
    ),
)  # fmt: skip
_NIGHTLY = "10.2.0a20261001"
NIGHTLY = (
    Release(
        rocm=_NIGHTLY, hip=71726001, rocm_of_torch=f"=={_NIGHTLY}", torch=("2.14.0",),
        vision=("0.29.0",), audio="2.11.0.3", triton="3.9.0+git0000000a", families=_FAMILIES, bare=True,
    ),
    Release(rocm="10.2.0a20261008", hip=71726008, rocm_of_torch="", bare=True),
)  # fmt: skip
RADEON = (
    Release(
        rocm="6.4.4", hip=60443484, rocm_of_torch="", torch=("2.8.0a0",), vision=("0.23.0a0",),
        audio="2.6.0a0", targets=(), libraries="", local="gitfc14c65",
    ),
    Release(
        rocm="7.2.1", hip=70253211, rocm_of_torch="==7.2.1", torch=("2.9.1",), vision=("0.24.1",),
        audio="2.9.1", targets=(), libraries="rocm-sdk-libraries-custom", local="rocmsdk20260116",
    ),
)  # fmt: skip

Maker = Callable[[], Wheel]


# ---------------------------------------------------------------- ROCm wheels


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def _python(folder: str) -> dict[str, bytes]:
    top = SOURCES / folder
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in sorted(top.rglob("*.py"))}


def _folder_of(project: str) -> str:
    return f"_{project.replace('-', '_')}"


def _dist_info(release: Release) -> bytes:
    tail = (
        f"__version__ = {release.rocm!r}\nDEFAULT_TARGET_FAMILY = {TARGETS[-1]!r}\n"
        f"AVAILABLE_TARGET_FAMILIES = {list(release.targets)!r}\n"
        f"PACKAGES['libraries'] = {_folder_of(release.libraries)!r}\n"
    )
    return (SOURCES / "rocm_sdk" / "_dist_info.py").read_bytes() + tail.encode()


def _wheel(name: str, version: str, tag: str, files: Mapping[str, bytes], **more: object) -> Wheel:
    return build_wheel(
        name,
        version,
        tag=tag,
        files=files,
        requires_python="",
        compression=zipfile.ZIP_DEFLATED,
        **more,  # type: ignore[arg-type]  # keywords of build_wheel
    )


@cache
def core(release: Release, platform: str) -> Wheel:
    """Build the runtime wheel, including the compiler."""
    if release.bare:
        return _wheel("rocm-sdk-core", release.rocm, f"py3-none-{platform}", {})
    version = f"{release.rocm}\n".encode()
    major, minor, _ = release.hip_version.split(".")
    header = f"#define HIP_VERSION_MAJOR {major}\n#define HIP_VERSION_MINOR {minor}\n"
    runtime = {
        **amd_binaries.core(release, platform),
        "__init__.py": b"",
        ".info/version": version,
        "include/hip/hip_version.h": header.encode(),
        "lib/llvm/amdgcn/bitcode/ocml.bc": b"BC stand-in",
        "share/therock/dist_info.json": json.dumps({"dist_amdgpu_targets": ";".join(TARGETS)}).encode(),
        "share/therock/therock_manifest.json": b'{"flags": {"KPACK_SPLIT_ARTIFACTS": true}}\n',
    }
    api = {**_python("rocm_sdk_core"), "__init__.py": b"", "_dist_info.py": _dist_info(release)}
    files = _below("rocm_sdk_core", api) | _below("_rocm_sdk_core", runtime)
    script = "\n".join(f"{tool} = rocm_sdk_core._cli:main" for tool in amd_binaries.tools(platform))
    return _wheel("rocm-sdk-core", release.rocm, f"py3-none-{platform}", files, script=script)


@cache
def libraries(release: Release, platform: str) -> Wheel:
    """Build the host code of the math libraries."""
    if release.bare:
        return _wheel(release.libraries, release.rocm, f"py3-none-{platform}", {})
    binaries = amd_binaries.libraries(release, platform)
    if not release.targets:
        binaries |= _all_kernels(release, "bin")
    api = {"__init__.py": b"", "_dist_info.py": _dist_info(release)}
    folder = _folder_of(release.libraries)
    files = _below(folder[1:], api) | _below(folder, {"__init__.py": b"", **binaries})
    return _wheel(release.libraries, release.rocm, f"py3-none-{platform}", files)


@cache
def device(release: Release, target: str, platform: str) -> Wheel:
    """Build the wheel with one target's kernels, which are installed into the libraries' folder."""
    folder = "lib" if platform == LINUX else "bin"
    named = {
        **_kernels_of(release, target, folder),
        f"{folder}/rocblas/library/Kernels.so-000-{target}.hsaco": _LARGE,
        f".kpack/blas_lib_{target}.kpack": b"KPAK" + target.encode(),
    }
    up = {name: "../" * name.count("/") for name in named}
    links = [
        {"relpath": name, "target": f"{up[name]}../_rocm_sdk_libraries/{name}"}
        for name in named
        if not name.startswith(".")
    ]
    manifest = json.dumps({"version": release.rocm, "links": links}).encode()
    files = {"__init__.py": b"", **named, f".devel_links/{target}.json": manifest}
    return _wheel(
        f"rocm-sdk-device-{target}",
        release.rocm,
        f"py3-none-{platform}",
        _below("_rocm_sdk_libraries", files),
        requires=(f"rocm-sdk-libraries=={release.rocm}",),
    )


def _kernels_of(release: Release, target: str, folder: str) -> dict[str, bytes]:
    content = f"rocenv-standin-kernels {release.series}\n{target}\n".encode()
    return {
        f"{folder}/rocblas/library/TensileLibrary_lazy_{target}.dat": content,
        f"{folder}/hipblaslt/library/{target}/TensileLibrary_lazy_{target}.dat": content,
    }


def _all_kernels(release: Release, folder: str) -> dict[str, bytes]:
    """Build the kernels for a release that has no device wheels."""
    each = (_kernels_of(release, target, folder) for target in TARGETS)
    return {name: content for kernels in each for name, content in kernels.items()}


@cache
def devel(release: Release, platform: str) -> Wheel:
    """Build the wheel with headers and links to the runtime, in a tar that `rocm-sdk init` unpacks."""
    runtime = zipfile.ZipFile(io.BytesIO(core(release, platform).data)).namelist()
    runtime += zipfile.ZipFile(io.BytesIO(libraries(release, platform).data)).namelist()
    links = {}
    for name in runtime:
        package, _, path = name.partition("/")
        if package in ("_rocm_sdk_core", _folder_of(release.libraries)) and path != "__init__.py":
            links[path] = "../" * (path.count("/") + 1) + name
            if ".so." in path:
                soname = path.rpartition("/")[2]
                links[path.partition(".so.")[0] + ".so"] = soname
    if platform == LINUX:
        links["llvm"] = "lib/llvm"
        links["share/amd_smi/amdsmi/libamd_smi.so"] = "../../../lib/libamd_smi_of_nowhere.so"
    texts = {
        "__init__.py": b"",
        "include/rocblas/rocblas.h": b"/* stand-in */\n",
        "lib/rocm_static.lib": _LARGE,
        "lib/cmake/hip/hip-config.cmake": f'set(hip_VERSION "{release.rocm}")\n'.encode(),
    }
    linked = {f"_rocm_sdk_devel/{path}": target for path, target in links.items()}
    packed = _tar(_below("_rocm_sdk_devel", texts), linked)
    files = {
        "rocm_sdk_devel/__init__.py": b"",
        "rocm_sdk_devel/_dist_info.py": _dist_info(release),
        "rocm_sdk_devel/_devel.tar": packed,
    }
    return _wheel("rocm-sdk-devel", release.rocm, f"py3-none-{platform}", files)


def _tar(files: Mapping[str, bytes], links: Mapping[str, str]) -> bytes:
    """Build a tar that lists each folder's files before those in its subfolders, as `init` expects."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted([*files, *links], key=lambda name: (name.count("/"), name)):
            info = tarfile.TarInfo(name)
            info.mtime, info.mode = EPOCH_S, 0o644
            if name in links:
                info.type, info.linkname = tarfile.SYMTYPE, links[name]
            else:
                info.size = len(files[name])
            tar.addfile(info, io.BytesIO(files.get(name, b"")))
    return out.getvalue()


# Building the sdist runs code from the index, so it fails unless a test allows it.
_SETUP = """import importlib.util
import os
import sys

MARK = os.environ.get("ROCENV_STANDIN_MAY_BUILD")
if not MARK:
    sys.exit("rocenv stand-in: the sdist of rocm must not be built in this test")
with open(MARK, "a") as mark:
    mark.write(" ".join(sys.argv) + "\\n")
from setuptools import setup

spec = importlib.util.spec_from_file_location("tables", os.path.join("src", "rocm_sdk", "_dist_info.py"))
tables = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tables)
requires, extras = tables.requirements()
setup(
    name="rocm",
    version=tables.__version__,
    package_dir={"": "src"},
    packages=["rocm_sdk"],
    entry_points={"console_scripts": ["rocm-sdk = rocm_sdk.__main__:main"]},
    install_requires=requires,
    extras_require=extras,
)
"""
_BUILD = b'[build-system]\nrequires = ["setuptools>=70.2.0"]\nbuild-backend = "setuptools.build_meta"\n'


def _pkg_info(release: Release) -> bytes:
    """Render the sdist's metadata. Its requirements are dynamic, so they are only a hint."""
    extras = ["libraries", "devel", *(f"device-{target}" for target in release.targets)]
    lines = [
        *("Metadata-Version: 2.4", "Name: rocm", f"Version: {release.rocm}"),
        f"Requires-Dist: rocm-sdk-core=={release.rocm}",
    ]
    for extra in extras:
        lines.append(f"Provides-Extra: {extra}")
        lines.append(f'Requires-Dist: rocm-sdk-{extra}=={release.rocm}; extra == "{extra}"')
    # With lowercase names, as setuptools writes them, uv would not build the sdist (astral-sh/uv#18667).
    lines += ["Dynamic: Provides-Extra", "Dynamic: Requires-Dist", ""]
    return "\n".join(lines).encode()


@cache
def sdist(release: Release) -> Wheel:
    """Build the sdist of the `rocm` package. Only its setup.py computes the requirements."""
    top = f"rocm-{release.rocm}"
    metadata = _pkg_info(release)
    package = _python("rocm_sdk") | {"_dist_info.py": _dist_info(release)}
    files = {"PKG-INFO": metadata, "pyproject.toml": _BUILD, "setup.py": _SETUP.encode()}
    files |= _below("src/rocm_sdk", package)
    # setuptools adds the package metadata to every sdist.
    files["src/rocm.egg-info/entry_points.txt"] = b"[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n"
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=EPOCH_S) as packed:
        packed.write(_tar(_below(top, files), {}))
    return Wheel(f"{top}.tar.gz", out.getvalue(), metadata)


# ---------------------------------------------------------------- torch wheels


@cache
def torch(release: Release, version: str, python: str, platform: str) -> Wheel:
    """Build a torch that loads HIP and rocBLAS by name, with its kernels in separate wheels."""
    full = f"{version}+{release.build}"
    sources = {} if release.bare else _torch_sources(release, full) | amd_binaries.torch(release, platform)
    requires = [*TORCH_REQUIRES]
    if release.libraries:
        requires.append(f"rocm[libraries]{release.rocm_of_torch}")
    if release.targets:
        requires.append("rocm-bootstrap")
    if platform == LINUX:
        requires.append(f"triton=={release.triton}.rocm{release.rocm}")
    chain = {target: _chain(release, target, "torch") for target in release.targets}
    extras = {f"device-{target}": [f"{each}=={full}" for each in names] for target, names in chain.items()}
    if extras:
        extras["device-all"] = sorted({each for names in extras.values() for each in names})
    return _framework(
        "torch",
        full,
        python,
        platform,
        sources,
        requires=requires,
        extras=extras,
    )


def _torch_sources(release: Release, full: str) -> dict[str, bytes]:
    version = f"__version__ = {full!r}\nhip = {release.hip_version!r}\nrocm = {release.rocm!r}\ncuda = None\n"
    sources = {**_python("torch"), **_python("torch_rocm"), "version.py": version.encode()}
    if release.libraries:
        return sources
    own = {**_all_kernels(release, "lib"), "_rocm_init.py": b"def initialize():\n    pass\n"}
    return sources | own


def _chain(release: Release, target: str, package: str) -> list[str]:
    """Return the kernel wheels that an extra selects for the target and its family."""
    families = [family for each, family in release.families if each == target]
    return [f"amd-{package}-device-{name}" for name in (target, *families)]


def _framework(
    name: str, version: str, python: str, platform: str, files: Mapping[str, bytes], **more: object
) -> Wheel:
    tag = f"{python}-{python}-{platform}"
    return _wheel(name, version, tag, _below(name, files), hex_record=True, **more)


@cache
def kernels(release: Release, name: str, version: str, python: str, platform: str) -> Wheel:
    """Build torch's or torchvision's kernels for a target, or AOTriton's kernels for a family."""
    _, package, _, part = name.split("-", 3)
    full = f"{version}+{release.build}"
    requires = [f"{package}=={full}"]
    if part in release.targets:
        requires.append(f"rocm-sdk-device-{part}=={release.rocm}")
    place = f"{package}/.kpack/{package}_{part}.kpack"
    tag = f"{python}-{python}-{platform}"
    return _wheel(name, full, tag, {place: b"KPAK" + part.encode()}, requires=requires, hex_record=True)


@cache
def vision(release: Release, version: str, torch_version: str, python: str, platform: str) -> Wheel:
    """Build a torchvision, which does not pin its torch build."""
    full = f"{version}+{release.build}"
    extras = {f"device-{target}": [f"amd-torchvision-device-{target}=={full}"] for target in release.targets}
    requires = ["numpy", f"torch=={torch_version}", "pillow!=8.3.*,>=5.3.0"]
    files = {"__init__.py": f"__version__ = {full!r}\n".encode()}
    return _framework("torchvision", full, python, platform, files, requires=requires, extras=extras)


def plain(name: str, version: str, python: str, platform: str, requires: Sequence[str] = ()) -> Wheel:
    """Build a wheel that contains only a version, such as torchaudio or triton."""
    files = {"__init__.py": f"__version__ = {version!r}\n".encode()}
    return _framework(name, version, python, platform, files, requires=requires)


# ---------------------------------------------------------------- file name -> function that builds it


def release_files(
    releases: Iterable[Release], platforms: Sequence[str], pythons: Sequence[str]
) -> Iterator[tuple[str, Maker]]:
    """Yield the files for ROCm releases and their torch builds."""
    for release in releases:
        yield from core_files(release, platforms)
        yield from torch_files(release, platforms, pythons)


def core_files(release: Release, platforms: Sequence[str]) -> Iterator[tuple[str, Maker]]:
    """Yield ROCm's own packages."""
    version = release.rocm
    yield f"rocm-{version}.tar.gz", partial(sdist, release)
    for platform in platforms:
        end = f"{version}-py3-none-{platform}.whl"
        yield f"rocm_sdk_core-{end}", partial(core, release, platform)
        if release.libraries:
            yield f"{_folder_of(release.libraries)[1:]}-{end}", partial(libraries, release, platform)
        yield f"rocm_sdk_devel-{end}", partial(devel, release, platform)
        for target in release.targets:
            yield f"rocm_sdk_device_{target}-{end}", partial(device, release, target, platform)


def torch_files(
    release: Release, platforms: Sequence[str], pythons: Sequence[str]
) -> Iterator[tuple[str, Maker]]:
    """Yield torch and its companions for a ROCm release."""
    for platform in platforms:
        for python in pythons:
            yield from _torch_files(release, python, platform)


def _torch_files(release: Release, python: str, platform: str) -> Iterator[tuple[str, Maker]]:
    end = f"{python}-{python}-{platform}.whl"
    local = f"+{release.build}"
    for version, vision_version in zip(release.torch, release.vision, strict=True):
        yield f"torch-{version}{local}-{end}", partial(torch, release, version, python, platform)
        yield from vision_files(release, vision_version, version, python, platform)
        for package, built in (("torch", version), ("torchvision", vision_version)):
            named = {name for target in release.targets for name in _chain(release, target, package)}
            for name in sorted(named):
                if package == "torch" or name.endswith(release.targets):
                    file_name = f"{name.replace('-', '_')}-{built}{local}-{end}"
                    yield file_name, partial(kernels, release, name, built, python, platform)
    if release.torch:
        audio = release.audio + local
        yield f"torchaudio-{audio}-{end}", partial(plain, "torchaudio", audio, python, platform)
    if release.torch and platform == LINUX:
        triton = f"{release.triton}.rocm{release.rocm}"
        yield f"triton-{triton}-{end}", partial(plain, "triton", triton, python, platform)


def vision_files(
    release: Release, version: str, torch_version: str, python: str, platform: str
) -> Iterator[tuple[str, Maker]]:
    """Yield the files of one torchvision build."""
    name = f"torchvision-{version}+{release.build}-{python}-{python}-{platform}.whl"
    yield name, partial(vision, release, version, torch_version, python, platform)


def pure_files(bootstrap: str = "0.1.0") -> Iterator[tuple[str, Maker]]:
    """Yield rocm-bootstrap and the packages that AMD's index mirrors from PyPI."""
    for name, (version, requires) in {**PURE, "rocm-bootstrap": (bootstrap, ())}.items():
        file_name = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        yield file_name, partial(build_wheel, name, version, requires=requires)


def pypi_files() -> Iterator[tuple[str, Maker]]:
    """Yield the files on PyPI: the pure packages, and AMD's empty placeholders."""
    yield from pure_files("0.3.0")
    for name in ("rocm", "rocm-sdk-core", *(f"amd-torch-device-{target}" for target in TARGETS)):
        yield f"{name.replace('-', '_')}-0.1.0-py3-none-any.whl", partial(build_wheel, name, "0.1.0")


def radeon_files(release: Release) -> Iterator[tuple[str, Maker]]:
    """Yield the files for one Python in the flat folder of a Windows release that predates the index."""
    if release.libraries:
        yield from core_files(release, (WINDOWS,))
    yield from torch_files(release, (WINDOWS,), ("cp312",))


def shipped_files(row: RocmWheels, builds: Iterable[TorchSet]) -> Iterator[tuple[str, Maker]]:
    """Yield the wheels that a plan for a row needs: ROCm, and PyTorch from the rows for that release."""
    platform = LINUX if row.platform == "linux" else WINDOWS
    rocm = row.version
    if row.floating:
        rocm += ".0a20261001" if row.channel.endswith("nightly") else ".0"
    release = Release(
        rocm=rocm, hip=0, rocm_of_torch=f"=={rocm}", triton="3.8.0+git4cff872c", bare=True,
        targets=row.targets if any("{target}" in name for name in row.packages) else (), families=_FAMILIES,
        libraries=next((name for name in row.packages if name.startswith("rocm-sdk-libraries")), ""),
        local="rocmsdk20260116" if row.flat else "",
    )  # fmt: skip
    if row.packages:
        yield from core_files(release, (platform,))
    for build in builds:
        major, minor, patch = (*build.version.split("."), "0")[:3]
        # torchvision 0.29 belongs to torch 2.14, and so on.
        vision = build.companions.get("torchvision", f"0.{int(minor) + 15}.{patch}")
        audio = build.companions.get("torchaudio", "2.11.0")
        torch = f"{major}.{minor}.{patch}" + ("" if build.released else "a0")
        release = replace(release, torch=(torch,), vision=(vision,), audio=audio)
        pythons = [f"cp{python.replace('.', '')}" for python in build.python]
        yield from torch_files(release, (platform,), pythons)
