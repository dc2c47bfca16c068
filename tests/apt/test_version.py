"""Versions that dpkg accepts are ordered as dpkg orders them."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.sources.apt.version import satisfies, upstream, version_key
from tests.network import cannot_run

OPERATORS = ("<<", "<=", "=", ">=", ">>")
# Each version is older than the next.
ASCENDING = [
    "0~~",
    "0~~a",
    "0~",
    "0",
    "0a",
    "0+",
    "0.",
    "1.0~rc1-1",
    "1.0-0~bpo12+1",
    "1.0",
    "1.0-0+b1",
    "1.0-1~deb12u1",
    "1.0-1",
    "1.0-1ubuntu1",
    "1.0-1+b1",
    "1.0-1.1",
    "1.0+dfsg-1",
    "1.0.1-1",
    "1.2-9",
    "1.09-1",
    "1.10-1",
    "2.38-0ubuntu1",
    "2.38-1",
    "5.7.1+dfsg-7",
    "5.7.1.50701-98~22.04",
    "20240101-1",
    "1:0.1-1",
    "1:5.7.1-6+deb13u1",
    "2:0",
]


@pytest.fixture(scope="module")
def dpkg() -> str:
    return shutil.which("dpkg") or cannot_run("dpkg is not installed")


def by_dpkg(dpkg: str, left: str, right: str) -> int:
    """Compare two versions with dpkg, using as few calls as possible."""
    for operator, answer in (("lt", -1), ("gt", 1)):
        command = [dpkg, "--compare-versions", left, operator, right]
        if subprocess.run(command, stderr=subprocess.DEVNULL, timeout=10).returncode == 0:
            return answer
    return 0


def compare(left: str, right: str) -> int:
    one, other = version_key(left), version_key(right)
    return (one > other) - (one < other)


def test_the_table_is_in_ascending_order() -> None:
    mixed = sorted(ASCENDING)
    assert mixed != ASCENDING
    assert sorted(mixed, key=version_key) == ASCENDING


@pytest.mark.parametrize(("left", "right"), list(pairwise(ASCENDING)))
def test_dpkg_agrees_with_the_table(dpkg: str, left: str, right: str) -> None:
    assert by_dpkg(dpkg, left, right) == -1
    assert compare(left, right) < 0 < compare(right, left)


@pytest.mark.parametrize(
    ("left", "right"), [("1.0", "1.0-0"), ("0:1.0", "1.0"), ("1.00", "1.0"), ("1.a0", "1.a")]
)
def test_different_spellings_of_a_version_are_equal(dpkg: str, left: str, right: str) -> None:
    assert by_dpkg(dpkg, left, right) == 0
    assert compare(left, right) == 0


PART = st.text(alphabet="019azA~+.", min_size=0, max_size=6).map(lambda text: "1" + text)
VERSION = st.builds(
    lambda epoch, plain, revision: epoch + plain + revision,
    st.sampled_from(["", "", "0:", "1:"]),
    st.one_of(PART, PART.map(lambda text: text + "-1a")),
    st.one_of(st.just(""), PART.map(lambda text: f"-{text}")),
)


@settings(max_examples=120, deadline=None)
@given(left=VERSION, right=VERSION)
def test_the_order_of_any_two_versions_matches_dpkg(dpkg: str, left: str, right: str) -> None:
    assert compare(left, right) == by_dpkg(dpkg, left, right)


@given(left=VERSION, right=VERSION, operator=st.sampled_from(OPERATORS))
def test_operators_match_the_order(left: str, right: str, operator: str) -> None:
    difference = compare(left, right)
    expected = {
        "<<": difference < 0,
        "<=": difference <= 0,
        "=": difference == 0,
        ">=": difference >= 0,
        ">>": difference > 0,
    }
    assert satisfies(left, operator, right) == expected[operator]
    assert satisfies(left, "", "")


@pytest.mark.parametrize(
    ("version", "plain"),
    [
        ("5.7.1-6", "5.7.1"),
        ("1:5.7.1-6+deb13u1", "5.7.1"),
        ("6.4.3+dfsg-1", "6.4.3"),
        ("6.4.3.dfsg1-1", "6.4.3"),
        ("6.4.3~rc1-1", "6.4.3"),
        ("2.41", "2.41"),
        ("2.41-12+deb13u1", "2.41"),
    ],
)
def test_the_upstream_version_has_no_packaging_suffixes(version: str, plain: str) -> None:
    assert upstream(version) == plain
