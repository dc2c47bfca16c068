"""Completeness of the shipped data: traceable rows, and tables that do not contradict each other."""

from __future__ import annotations

import datetime
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import pytest

from rocenv.core.versions import allows, series
from rocenv.data.apps import DeviceList
from rocenv.data.load import TABLES, data_files, load
from rocenv.data.mirrors import Mirror
from rocenv.data.recipes import BuiltWith
from rocenv.data.rules import Extractor, Pattern
from rocenv.net.errors import is_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.known import Known
    from rocenv.data.releases import RocmSet
    from rocenv.data.rows import Matrix

PROFILES = Path(__file__).parents[2] / "profiles"
TARGET = re.compile(r"gfx[0-9a-f]{3,4}")
# Fields that contain fragments of log lines or code, in which spaces matter.
PARTS: dict[type, tuple[str, ...]] = {
    Pattern: ("text", "regex", "near", "not_near"),
    Extractor: ("text", "pattern", "near", "not_near"),
    DeviceList: ("pattern", "other"),
    BuiltWith: ("text",),
}
URL = re.compile(r"https?://[^\s\"',;)]+")

# Hosts that rows may refer to: vendors, projects and bug reports.
_REPOSITORY = r"[A-Za-z0-9][\w-]*/[\w.-]+"
# Each entry may end with a comment.
SOURCE = re.compile(
    rf"(https?://[^\s;]+|{_REPOSITORY}#\d+|{_REPOSITORY}(:[^\s;@]+)?@[\w./~-]+|rocenv:(?P<own>[\w./-]+))"
    r"( \([^()]+\))?"
)
HOSTS = (
    "amd.com",
    "radeon.com",
    "github.com",
    "pytorch.org",
    "debian.org",
    "man7.org",
    "pip.pypa.io",  # pip's and uv's manuals, for variables set in envs with wheels
    "docs.astral.sh",
    "s3.amazonaws.com",  # TheRock's nightly archives
    "lykos.ai",  # StabilityMatrix
    "drive.google.com",  # an unofficial addition to the HIP SDK
    "mediafire.com",
    "learn.microsoft.com",
    "numpy.org",
    "blender.org",
    "llvm.org",
    "maxon.net",
    "otoy.com",
)


@cache
def shipped() -> Matrix:
    return load(PROFILES)


def tables() -> dict[str, list[Known]]:
    return {table: list(getattr(shipped(), table)) for table in TABLES}


def every_row() -> list[Known]:
    return [row for rows in tables().values() for row in rows]


def texts(value: Any) -> Iterator[str]:
    """Yield every string in a value, recursively."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            if name not in PARTS.get(type(value), ()):
                yield from texts(getattr(value, name))
    elif isinstance(value, dict):
        yield from texts(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts(each)


# ---------------------------------------------------------------- every row


class TestEveryRow:
    def test_every_row_has_a_valid_check_date(self) -> None:
        assert all(tables().values()), [table for table, rows in tables().items() if not rows]
        for row in every_row():
            day = datetime.date.fromisoformat(row.checked)
            assert datetime.date(2024, 1, 1) < day <= datetime.date.today(), row

    def test_every_row_has_a_traceable_source(self) -> None:
        for row in every_row():
            assert row.source == row.source.strip(), row
            assert " ;" not in row.source, row
            for word in re.split(r"[\s;,]+", row.source):
                assert not re.match(r"/\w|~|[A-Za-z]:\\|file:", word), f"a path of a machine: {row}"

    def test_rows_use_only_allowed_hosts(self) -> None:
        for row in every_row():
            if isinstance(row, Mirror):
                continue
            for url in (url for text in texts(row) for url in URL.findall(text)):
                host = urlsplit(url).hostname or ""
                if host == "127.0.0.1":  # a program that the user runs; in commands only
                    continue
                assert any(host == each or host.endswith(f".{each}") for each in HOSTS), row
                assert urlsplit(url).scheme == "https", row
                assert urlsplit(url).port is None, row

    def test_rows_have_sources_that_readers_can_open(self) -> None:
        """A URL, an issue, a file at a tag or commit, a tag or commit, or a file in this repository."""
        for row in every_row():
            for entry in row.source.split("; "):
                found = SOURCE.fullmatch(entry)
                assert found, f"`{entry}` in {row}"
                assert not found["own"] or (PROFILES.parent / found["own"]).is_file(), row

    def test_no_row_has_leftover_placeholders(self) -> None:
        """Values such as a dash, `same` or `as above` are not allowed."""
        for row in every_row():
            for text in texts(row):
                assert text not in ("-", "same", "as above", "unknown", "n/a", "TODO"), row
                assert text.strip("\n") == text.strip(), row


def test_every_sha256_is_valid() -> None:
    found = [
        *(row.sha256 for row in shipped().pack),
        *(asset.sha256 for row in shipped().zluda for asset in row.assets),
    ]
    named = [sha256 for sha256 in found if sha256]
    assert named
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in named)


def test_python_versions_are_well_formed() -> None:
    for rows in tables().values():
        for row in rows:
            versions: tuple[str, ...] = getattr(row, "python", ())
            assert all(re.fullmatch(r"3\.\d+(\.\d+)?", version) for version in versions), row
            by_age = sorted(versions, key=lambda version: [int(part) for part in version.split(".")])
            assert list(versions) == by_age, row


def test_distribution_mirrors_are_not_mentioned() -> None:
    for path in data_files(PROFILES):
        if path.name != "mirrors.toml":
            assert not re.search(r"\b(deb|ftp|security|archive|mirrors?)\.[a-z]+\.", path.read_text())


def test_every_download_has_an_origin() -> None:
    """`config mirrors` lists everything that a user may want to replace."""
    matrix = shipped()
    prefixes = [prefix for origin in matrix.origin for prefix in origin.prefixes]
    fields = {"repo": ("base", "key_url"), "rocm_wheels": ("index",), "torch": ("index",)}
    fields |= dict.fromkeys(("zluda", "pack", "hip_sdk"), ("url",))
    found = {
        getattr(row, name) for table, names in fields.items() for row in tables()[table] for name in names
    }
    assert len(found) > 30
    for url in found - {""}:
        assert any(is_below(url, prefix) for prefix in prefixes), url


def test_mirrors_use_https_and_are_named_after_their_origin() -> None:
    for row in shipped().mirror:
        assert row.name.startswith(f"{row.of}-"), row
        for address in (row.address, *row.also.values()):
            assert urlsplit(address).scheme == "https", row
            assert urlsplit(address).port is None, row


def test_the_mirror_that_errors_suggest_serves_signed_files() -> None:
    """Error messages say that any mirror works, because rocenv checks signatures."""
    assert {row.name for row in shipped().origin if row.usual} == {"debian"}


# ---------------------------------------------------------------- GPUs


def test_kernel_numbers_match_target_names() -> None:
    """The number has two decimal digits each for minor and stepping; the name uses hexadecimal."""
    for target in shipped().targets.values():
        assert TARGET.fullmatch(target.name)
        if target.kfd:
            major, minor, step = target.kfd // 10000, target.kfd // 100 % 100, target.kfd % 100
            # The kernel treats Raven2 as Raven. Source: torvalds/linux, kfd_device.c
            name = target.name.replace("gfx909", "gfx902")
            assert name == f"gfx{major}{minor:x}{step:x}"


def test_generic_targets_and_members_refer_to_each_other() -> None:
    members = {row.name: set(row.members) for row in shipped().generic_target}
    for target in shipped().targets.values():
        if target.generic:
            assert target.name in members[target.generic]
    for name, found in members.items():
        assert all(shipped().targets[member].generic == name for member in found)


def test_device_ids_have_one_format() -> None:
    for row in shipped().pci:
        assert re.fullmatch("[0-9a-f]{4}", row.device), row
        assert re.fullmatch("([0-9a-f]{2})?", row.revision), row


def test_gpu_name_patterns_are_valid() -> None:
    assert all(re.compile(row.pattern, re.IGNORECASE) for row in shipped().gpu_name)


# ---------------------------------------------------------------- Linux sets


def name_of(row: RocmSet) -> str:
    return f"{row.channel}-{row.version}"


@pytest.mark.parametrize("row", shipped().rocm, ids=name_of)
def test_a_linux_set_is_consistent(row: RocmSet) -> None:
    for targets in (row.compiles, row.blas, row.official):
        assert len(set(targets)) == len(targets)
    assert set(row.official) <= set(row.compiles), "the compiler must support all supported targets"
    assert set(row.blas) <= set(row.compiles), "the compiler must support all targets with kernels"
    layout = row.layout
    assert set(layout.libraries) == {"hip", "hiprtc", "rocblas"}
    assert all(re.fullmatch(r"lib\w+\.so\.\d+", name) for name in layout.libraries.values())
    places = [layout.root, *layout.library_dirs, *filter(None, [layout.bin, layout.device_libs])]
    assert not any(place.startswith("/") or place.endswith("/") or ".." in place for place in places)
    inside = [place for place in (layout.bin, layout.device_libs, layout.library_dirs[0]) if place]
    assert all(place.startswith(f"{layout.root}/") for place in inside)


# `support` has one row per series; these targets were added or removed within a series. Source: ROCm docs
# system-requirements 6.4.1
LATER = {
    "6.4.0": {"gfx1101", "gfx1200", "gfx1201"},
    "7.0.0": {"gfx1150", "gfx1151"},
    "7.0.1": {"gfx1150", "gfx1151"},
    # Releases that are only for Radeon cards.
    "6.1.3": {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030"},
    "6.2.3": {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030"},
    "6.3.4": {"gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030"},
    "6.4.4": {"gfx908", "gfx90a", "gfx942", "gfx1030"},
}


@pytest.mark.parametrize("row", [row for row in shipped().rocm if row.channel == "amd"], ids=name_of)
class TestAmdsSets:
    def test_amds_sets_use_the_repository_folder_for_their_version(self, row: RocmSet) -> None:
        assert row.layout.root == f"opt/rocm-{row.version}"
        assert row.version.startswith(row.apt_dir)
        assert row.suite

    def test_amds_sets_have_release_rows(self, row: RocmSet) -> None:
        (release,) = (each for each in shipped().release if each.version == row.version)
        assert release.apt_dir == row.apt_dir

    def test_amds_sets_agree_with_the_support_rows(self, row: RocmSet) -> None:
        by_level: dict[str, set[str]] = {}
        for each in shipped().support:
            if (each.platform, each.rocm) == ("linux", series(row.version)):
                by_level.setdefault(each.level, set()).update(each.targets)
        promised = by_level["official"] | by_level.get("deprecated", set())
        assert set(row.official) == promised - LATER.get(row.version, set())
        # Where the list of shipped files is known, it lacks some of the targets that were built.
        lists = [
            set(each.targets)
            for each in shipped().kernels
            if (each.rocm, each.kind) == (series(row.version), "shipped")
        ]
        built = promised | by_level["libraries"]
        assert set(row.blas) == (built & lists[0] if lists else built)


def test_debians_rocblas_targets_match_its_package() -> None:
    (said,) = (row for row in shipped().kernels if row.rocm.startswith("debian-"))
    (row,) = (row for row in shipped().rocm if row.channel == "debian-forky")
    assert series(row.version) == series(said.rocm.removeprefix("debian-"))
    assert set(row.blas) == set(said.targets)


def test_every_channel_has_sets_and_every_repository_a_channel() -> None:
    matrix = shipped()
    packages, wheels = ({row.channel for row in rows} for rows in (matrix.rocm, matrix.rocm_wheels))
    assert packages | wheels == set(matrix.channels)
    assert not packages & wheels
    assert {repo for channel in matrix.channels.values() for repo in channel.repos} == set(matrix.repos)


def test_debian_channels_include_their_c_library() -> None:
    (library,) = shipped().c_library
    assert library.loader in library.files
    assert not any(row.pattern == library.package for row in shipped().keep_out)


# ---------------------------------------------------------------- wheels


def test_each_torch_build_is_in_the_index_for_its_rocm() -> None:
    for row in shipped().torch:
        if row.channel:
            continue
        last = f"rocm{row.rocm}" if row.rocm else f"cu{row.cuda.replace('.', '')}"
        assert row.index.endswith(f"/{last}"), row
        assert not row.compiled or set(row.targets) < set(row.compiled), row
        assert bool(row.targets) is bool(row.rocm), row


def test_the_kernels_listed_for_a_torch_build_match_its_rocblas() -> None:
    blas: dict[str, set[str]] = {}
    for each in shipped().rocm:
        if each.channel == "amd":
            blas.setdefault(series(each.version), set()).update(each.blas)
    for row in shipped().torch:
        inside = blas.get(series(row.rocm))
        assert inside is None or set(row.targets) <= inside, row


def test_each_torch_build_for_rocm_wheels_is_in_their_index() -> None:
    """One row covers both platforms, so a wheel release has PyTorch for both or for neither."""
    indices = {(row.version, row.channel): row.index for row in shipped().rocm_wheels}
    for row in shipped().torch:
        if row.channel:
            assert row.index == indices[row.rocm, row.channel], row
            assert not row.targets, "the release determines its targets"


def test_instinct_wheels_are_only_for_linux() -> None:
    """Source: SUPPORTED_GPUS.md in ROCm/TheRock."""
    instinct = {"gfx908", "gfx90a", "gfx942", "gfx950"}
    for row in shipped().rocm_wheels:
        assert bool(instinct & set(row.targets)) is (row.platform == "linux"), row


def test_linux_wheels_support_at_least_the_windows_targets() -> None:
    rows = {(row.version, row.channel, row.platform): row for row in shipped().rocm_wheels}
    for (version, channel, platform), row in rows.items():
        if platform == "windows" and (there := rows.get((version, channel, "linux"))):
            assert set(row.targets) <= set(there.targets), row
            assert set(row.official) <= set(there.official), row


def test_known_hashes_belong_to_files_that_rows_list() -> None:
    releases = {row.version for row in shipped().rocm_wheels}
    for row in shipped().file_hash:
        assert re.search(r"\.(whl|tar\.gz)$", row.file), row
        assert row.file.startswith("rocm_bootstrap-") or any(each in row.file for each in releases), row


# ---------------------------------------------------------------- Windows


def test_each_zluda_archive_has_a_url() -> None:
    for row in shipped().zluda:
        if row.assets:
            assert row.tag, row
            assert "{tag}" in row.url, row
            assert "{asset}" in row.url, row
        for asset in row.assets:
            assert asset.platform == ("linux" if "linux" in asset.name else "windows"), row
            assert bool(asset.rocm) is (asset.platform == "windows"), row
            # An archive's name may contain the commit it was built from.
            commit = re.search(r"-([0-9a-f]{7})\.", asset.name)
            assert commit is None or row.commit.startswith(commit[1]), row


# Reports that archives for HIP 5 worked with HIP SDK 6, although no row lists that combination.
ODD = {
    "https://github.com/likelovewant/ROCmLibs-for-gfx1103-AMD780M-APU/issues/57",
    "https://github.com/lshqqytiger/ZLUDA/issues/115",
}


def test_working_combinations_use_archives_for_their_sdk() -> None:
    from packaging.specifiers import SpecifierSet

    sdks = [row.version for row in shipped().hip_sdk]
    for row in shipped().verdict:
        if row.verdict == "broken" or row.project != "lshqqytiger" or not row.rocm or row.source in ODD:
            continue
        fits = [
            asset.name
            for build in shipped().zluda
            if build.project == row.project and SpecifierSet(row.zluda).contains(build.version, True)
            for asset in build.assets
            if not row.flavour or asset.flavour in row.flavour
            for sdk in sdks
            if series(sdk) in asset.rocm and SpecifierSet(row.rocm).contains(sdk)
        ]
        assert fits, row


def test_exactly_one_zluda_build_is_preferred() -> None:
    assert [row.project for row in shipped().zluda if row.preferred] == ["lshqqytiger"]


def test_a_library_packs_url_ends_with_its_name() -> None:
    for row in shipped().pack:
        assert not (row.absent and (row.asset or row.url)), row
        assert bool(row.asset) is bool(row.url), row
        assert row.url.replace("%20", " ").endswith(row.asset), row
        if row.tag and row.url:
            assert f"/{row.tag}/" in row.url, row


def test_every_hip_sdk_has_support_rows() -> None:
    said = {row.rocm for row in shipped().support if row.platform == "windows"}
    # AMD's lists for 5.5 have not been entered.
    assert {series(row.version) for row in shipped().hip_sdk} - said == {"5.5"}


def test_recommended_sets_refer_to_builds_and_releases_that_exist() -> None:
    from packaging.specifiers import SpecifierSet

    def any_in(specifier: str, versions: list[str]) -> bool:
        return any(SpecifierSet(specifier).contains(version, prereleases=True) for version in versions)

    builds = [row.version for row in shipped().zluda]
    torches = [f"{row.version}.0" if row.rocm else row.version for row in shipped().torch]
    for row in shipped().good_set:
        assert not row.zluda or any_in(row.zluda, builds), row
        # PyTorch's wheels fail on one Linux target; AMD's own index has a torch for it.
        assert not row.torch or any_in(row.torch, torches) or row.targets == ("gfx1151",), row


def test_each_rocm_release_has_one_wsl_row() -> None:
    matrix = shipped()
    versions = {row.version for row in matrix.rocm} | {row.version for row in matrix.rocm_wheels}
    rows = {version: [row.rocm for row in matrix.wsl if allows(row.rocm, version)] for version in versions}
    assert {version: found for version, found in rows.items() if len(found) != 1} == {}
