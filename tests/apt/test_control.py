"""Parsing of index stanzas according to deb-control(5)."""

from __future__ import annotations

import pytest

from rocenv.sources.apt.control import Relation, parse_clauses, parse_fields, parse_package

STANZA = """\
Package: libamdhip64-5
Version: 5.7.1-6
Installed-Size: 20123
Pre-Depends: dpkg (>= 1.17)
Depends: libc6 (>= 2.38), libgcc-s1 (>= 3.0) | libgcc1,
 libnuma1(>=2.0.11),
\tzlib1g ( >= 1:1.2.0 )
Breaks: libold (<< 2)
Conflicts: other
Provides: hip-runtime, libhip (= 5.7.1), libhip-any
Description: HIP
 Package: not a field
 .
 Depends: nothing
Filename: pool/main/h/hip/libamdhip64-5_5.7.1-6_amd64.deb
Size: 4711
SHA256: ABCDEF
"""


def test_a_stanza() -> None:
    package = parse_package(STANZA, "debian")
    assert (package.name, package.version, package.repo) == ("libamdhip64-5", "5.7.1-6", "debian")
    assert package.depends == (
        (Relation("dpkg", ">=", "1.17"),),
        (Relation("libc6", ">=", "2.38"),),
        (Relation("libgcc-s1", ">=", "3.0"), Relation("libgcc1")),
        (Relation("libnuma1", ">=", "2.0.11"),),
        (Relation("zlib1g", ">=", "1:1.2.0"),),
    )
    assert package.conflicts == (Relation("other"), Relation("libold", "<<", "2"))
    assert package.provides == (
        Relation("hip-runtime"),
        Relation("libhip", "=", "5.7.1"),
        Relation("libhip-any"),
    )
    assert (package.size_bytes, package.installed_bytes) == (4711, 20123 * 1024)
    assert package.sha256 == "abcdef", "hashes are compared in lowercase"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a (< 2)", ((Relation("a", "<=", "2"),),)),  # the old operators have meant <= and >= since 1996
        ("a (> 2)", ((Relation("a", ">=", "2"),),)),
        ("python3:any (>= 3.9~)", ((Relation("python3", ">=", "3.9~"),),)),
        ("a:amd64", ((Relation("a"),),)),
        ("a:i386 | b", ((Relation("a:i386"), Relation("b")),)),
        (
            "a [amd64], b [!amd64], c [arm64 any-amd64], d [linux-any]",
            ((Relation("a"),), (Relation("c"),), (Relation("d"),)),
        ),
        ("a <!nocheck> <cross>", ((Relation("a"),),)),
        ("g++-12, lib3.0-x", ((Relation("g++-12"),), (Relation("lib3.0-x"),))),
        (" , a,, ", ((Relation("a"),),)),
        ("", ()),
    ],
)
def test_relations(text: str, expected: object) -> None:
    assert parse_clauses(text) == expected


@pytest.mark.parametrize("text", ["a (>= )", "a (2)", "a b", "(>= 2)", "a (>= 2", "a |", "ä"])
def test_an_invalid_relation_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="relation"):
        parse_clauses(text)


@pytest.mark.parametrize(
    "stanza", ["Version: 1\n", "Package: a\n", "", "Package: a\nVersion: 1\nSize: big\n"]
)
def test_an_invalid_stanza_is_an_error(stanza: str) -> None:
    with pytest.raises(ValueError, match=r"lacks a name or version|invalid literal"):
        parse_package(stanza, "debian")


def test_field_names_are_case_insensitive_and_values_can_span_lines() -> None:
    assert parse_fields("SHA256:\n one\n two\nsuite:  x \nno field\n") == {
        "sha256": "\none\ntwo",
        "suite": "x",
    }
