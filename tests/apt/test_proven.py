"""Verification of a bundle's packages against its signed indexes."""

from __future__ import annotations

import gzip
import hashlib
from typing import TYPE_CHECKING

import pytest

from rocenv.core.errors import FetchError
from rocenv.data.releases import Repo
from rocenv.sources.apt.signed import proven
from tests.aptrepo import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY = Key.new()
REPO = Repo(
    name="lab",
    base="https://example.org/apt",
    suite="lab",
    key_url="https://example.org/key",
    fingerprints=(KEY.fingerprint,),
    status="tested",
    source="tests",
    checked="2026-11-20",
)
PACKAGE = "ab" * 32
LIST = gzip.compress(f"Package: x\nSHA256: {PACKAGE}\n".encode(), mtime=0)


def index(name: str, signer: Key = KEY) -> dict[str, bytes]:
    release = f"Suite: lab\nSHA256:\n {hashlib.sha256(LIST).hexdigest()} {len(LIST):>16} {name}\n"
    return {"InRelease": signer.clear_sign(release), "key": signer.keyring, "0": LIST}


def found(files: Mapping[str, bytes]) -> frozenset[str]:
    return proven(REPO, files, lambda name, most_bytes: files[name][: most_bytes + 1], {PACKAGE})


def test_a_signed_package_list_verifies_the_packages_in_it() -> None:
    assert found(index("main/binary-amd64/Packages.gz")) == {PACKAGE}
    assert found({**index("Packages.gz"), "0": LIST + b"!"}) == set()


def test_other_signed_files_do_not_verify_packages() -> None:
    """Files other than package lists may contain any hash, and may unpack to a much larger size."""
    assert found(index("main/Contents-amd64.gz")) == set()
    assert found(index("main/NotPackages.gz")) == set()


def test_a_key_from_the_bundle_must_be_pinned() -> None:
    with pytest.raises(FetchError, match="no key"):
        found(index("Packages.gz", Key.new("evil")))
