"""The versions that a SPEC on the command line or a range in the data includes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rocenv.core.errors import RocenvError
from rocenv.core.model import Request
from rocenv.core.versions import allows, lowest, meets, meets_whole, newest_first, specifier, version_fits
from rocenv.resolve import resolve
from rocenv.resolve.drivers import kernel_driver
from tests.resolve.oracle import is_requested
from tests.resolve.test_cases import matrix

if TYPE_CHECKING:
    from tests.mini import Mini


@pytest.mark.parametrize(
    ("text", "version", "fits"),
    [
        ("5.7", "5.7", True),
        ("5.7", "5.7.1", True),
        ("5.7", "5.70", False),
        ("5", "5.7.1", True),
        ("5.7.1", "5.7", False),
        ("6.4.*", "6.4.3", True),
        (" 5.7 ", "5.7.1", True),
        (">=6.1,<6.3", "6.2.4", True),
        (">=6.1,<6.3", "6.3.0", False),
        ("!=6.2.0", "6.2.0", False),
        ("~=6.1", "6.4", True),
        ("~=6.1.0", "6.2", False),
        (">=7", "7.0.0rc1", False),
        ("<7.0", "7.0.0rc1", False),
        ("*", "0.1", True),
        ("", "0.1", True),
        # Some ZLUDA builds have such versions.
        ("3.8.4", "3.8.4.post1", True),
        ("3.8.4.post1", "3.8.4.post1", True),
        ("3.8.4.post1", "3.8.4", False),
        ("6rc60", "6rc60", True),
        ("6rc60", "6", False),
        ("6", "6rc60", True),
        ("7.0.dev0", "7.0.dev0", True),
        ("2.7.1+cu118", "2.7.1+cu118", True),
        ("2.7.1+cu118", "2.7.1+cu121", False),
    ],
)
def test_a_spec_includes_the_expected_versions(text: str, version: str, fits: bool) -> None:
    assert version_fits(specifier(text, "--rocm"), version, floating=False) is fits
    assert meets(text, version, "--rocm") is fits


@pytest.mark.parametrize(
    ("text", "fits"), [("6.4", True), ("6.4.3", True), (">=6.4.2", True), ("6.3", False), (">6.4,<6.5", True)]
)
def test_a_series_matches_if_any_of_its_releases_might_match(text: str, fits: bool) -> None:
    assert meets(text, "6.4", "--rocm", floating=True) is fits


@pytest.mark.parametrize(
    ("text", "fits"),
    [("6.4", True), (">=6.3", True), ("", True), ("6.4.3", False), (">=6.4.2", False), ("!=6.4.1", False)],
)
def test_a_mixed_set_matches_only_specs_for_the_whole_series(text: str, fits: bool) -> None:
    assert meets_whole(text, "6.4", "--rocm") is fits


@pytest.mark.parametrize("text", ["latest", "v5.7", "=5.7", ">=", "5.7 6.1", "5.7,<6", "\u0665"])
@pytest.mark.parametrize("name", ["rocm", "zluda", "torch", "python"])
def test_an_invalid_spec_is_an_error(text: str, name: str) -> None:
    """A typo is reported even if the result does not depend on it."""
    platform = "windows" if name == "zluda" else "linux"
    with pytest.raises(RocenvError) as caught:
        wrong: dict[str, Any] = {"target": "gfx1100", "platform": platform, name: text}
        resolve(Request(**wrong), matrix())
    assert caught.value.exit_code == 2
    assert text in caught.value.message
    assert f"--{name} 5.7" in caught.value.hints[0]


def test_the_driver_option_must_be_a_version() -> None:
    with pytest.raises(RocenvError) as caught:
        resolve(Request(target="gfx1100", platform="windows", zluda="*", driver="<25.5.1"), matrix())
    assert caught.value.exit_code == 2
    assert "--driver" in caught.value.message


@pytest.mark.parametrize("option", ["--rocm", "--torch", "--python"])
def test_a_bad_spec_on_the_command_line_is_a_usage_error(mini: Mini, option: str) -> None:
    wishes = {"--python": ["--torch", "--python", "latest"]}
    done = mini.run("resolve", "--target", "gfx1100", *wishes.get(option, [option, "latest"]))
    assert done.returncode == 2
    assert f"is not a valid version for `{option}`" in done.stderr
    assert "Traceback" not in done.stderr


# ---------------------------------------------------------------- comparison with packaging

numbers = st.integers(0, 12).map(str)
suffixes = st.sampled_from(["", "", "", ".post1", "rc2", "a20260311", "b1", ".dev0"])
versions = st.builds(
    lambda parts, suffix: ".".join(parts) + suffix, st.lists(numbers, min_size=1, max_size=3), suffixes
)
bounds = st.builds(
    lambda operator, parts, suffix: operator + ".".join(parts) + (suffix if operator != "~=" else ""),
    st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~="]),
    st.lists(numbers, min_size=2, max_size=3),
    suffixes,
)
prefixes = st.builds(
    lambda operator, parts: operator + ".".join(parts) + ".*",
    st.sampled_from(["==", "!="]),
    st.lists(numbers, min_size=1, max_size=3),
)
ranges = st.lists(bounds | prefixes, min_size=1, max_size=2).map(",".join)
often = settings(max_examples=150, deadline=None)


@often
@given(text=ranges, found=st.lists(versions, max_size=8))
def test_a_range_agrees_with_a_pep_440_specifier(text: str, found: list[str]) -> None:
    allowed = [version for version in found if SpecifierSet(text, prereleases=True).contains(version)]
    assert [version for version in found if allows(text, version)] == allowed


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (">=4.4,<5.0", "4.4"),
        ("<3.0", ""),
        (">=3.0,!=4.3.*", "3.0"),
        ("==4.2.*", "4.2"),
        ("~=2.1,>=2.2", "2.2"),
    ],
)
def test_lowest_returns_the_lower_bound_of_a_range(text: str, start: str) -> None:
    assert lowest(text) == start


@often
@given(
    text=ranges | versions,
    version=versions,
    floating=st.booleans(),
    local=st.sampled_from(["", "+rocm6.2"]),
)
def test_a_spec_agrees_with_a_pep_440_specifier(text: str, version: str, floating: bool, local: str) -> None:
    if floating:
        version = ".".join(map(str, (*Version(version).release, 0)[:2]))
    expected = is_requested(text, version, floating=floating, local=local)
    assert meets(text, version, "--rocm", floating=floating, local=local) is expected


@often
@given(found=st.lists(versions, max_size=6))
def test_versions_are_sorted_newest_first(found: list[str]) -> None:
    newest = sorted(map(Version, found), reverse=True)
    assert [Version(text) for text in sorted(found, key=newest_first)] == newest


@pytest.mark.parametrize(
    ("driver", "release"),
    [
        ("6.2", "6.2"),
        ("6.1.60101", "6.1"),  # package version
        ("6.3.2", "6.3"),
        ("22.20.50200", "5.2"),  # old package version scheme
        ("30.10.1", "30.10"),
        ("5.16.9.22.20", "5.2"),  # module version that ends with the package version
        ("6.10.5", ""),  # module version without a package version
        ("5.18.13", ""),
        ("6.8.0-45-generic", ""),
        ("6", ""),
    ],
)
def test_a_kernel_driver_version_determines_its_rocm_release(driver: str, release: str) -> None:
    assert kernel_driver(driver, matrix()) == release
