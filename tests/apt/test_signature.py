"""Nothing that is not signed by a trusted key is believed, in any way that it may come about."""

from __future__ import annotations

import base64
import re
import shutil
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pysequoia
import pytest

from rocenv.core.errors import FetchError
from rocenv.sources.apt.signature import fingerprints_in, verified_text
from tests.aptrepo import Key, archive_key
from tests.network import cannot_run

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "Suite: trixie\nSHA256:\n abc 1 main/binary-amd64/Packages\n- dashed\n"
REMEDY = "install the keyring"


@pytest.fixture(scope="module")
def other() -> Key:
    return Key.new("other")


def checked(signed: bytes, *keyrings: bytes, fingerprints: tuple[str, ...] = ()) -> str:
    return verified_text(signed, keyrings, fingerprints, what="the index of `trixie`", remedy=REMEDY)


def refused(signed: bytes, *keyrings: bytes, fingerprints: tuple[str, ...] = ()) -> FetchError:
    with pytest.raises(FetchError) as caught:
        checked(signed, *keyrings, fingerprints=fingerprints)
    assert caught.value.code == "signature"
    assert "the index of `trixie`" in caught.value.message
    assert REMEDY in caught.value.hints
    assert "\n" not in caught.value.message
    return caught.value


def test_what_a_known_key_has_signed() -> None:
    key = archive_key()
    assert checked(key.clear_sign(TEXT), key.keyring).rstrip("\n") == TEXT.rstrip("\n")


def test_the_key_may_stand_anywhere(other: Key) -> None:
    key = archive_key()
    signed = key.clear_sign(TEXT)
    for rings in (
        (key.armoured,),
        (other.keyring + key.keyring,),
        (other.keyring, key.keyring),
        (other.armoured, key.armoured),
    ):
        assert "trixie" in checked(signed, *rings)


@pytest.mark.parametrize("change", [(b"trixie", b"forky!"), (b"abc", b"abd"), (b"- - dashed", b"- dashed!")])
def test_a_changed_text(change: tuple[bytes, bytes]) -> None:
    signed = archive_key().clear_sign(TEXT)
    assert change[0] in signed
    error = refused(signed.replace(*change), archive_key().keyring)
    assert "is invalid" in error.message


def test_a_changed_signature() -> None:
    signed = archive_key().clear_sign(TEXT)
    head, _, tail = signed.partition(b"-----BEGIN PGP SIGNATURE-----\n\n")
    refused(head + b"-----BEGIN PGP SIGNATURE-----\n\n" + tail.swapcase(), archive_key().keyring)


def test_another_key(other: Key) -> None:
    refused(other.clear_sign(TEXT), archive_key().keyring)


def test_another_key_of_the_same_name() -> None:
    refused(Key.new("archive").clear_sign(TEXT), archive_key().keyring)


def test_a_key_that_has_expired() -> None:
    key = Key.new("old")
    past = datetime.now(timezone.utc) - timedelta(seconds=30)
    expired = bytes(key.secret.extract_certificate().set_expiration(past, key.secret.certifier()))
    assert "trixie" in checked(key.clear_sign(TEXT), key.keyring)
    refused(key.clear_sign(TEXT), expired)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        TEXT.encode(),
        b"<!DOCTYPE html><html><body>Please sign in.</body></html>",
        b"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + TEXT.encode(),
        bytes(range(256)),
    ],
)
def test_what_is_not_signed(content: bytes) -> None:
    refused(content, archive_key().keyring)


@pytest.mark.parametrize("end", [0.3, 0.6, 0.9])
def test_a_part_of_a_signed_file(end: float) -> None:
    signed = archive_key().clear_sign(TEXT)
    refused(signed[: int(len(signed) * end)], archive_key().keyring)


def test_a_detached_signature_is_no_signed_text() -> None:
    mode = pysequoia.SignatureMode.DETACHED
    signature = pysequoia.sign(archive_key().secret.signer(), TEXT.encode(), mode=mode)
    refused(bytes(signature), archive_key().keyring)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"Suite: evil\n", b""), (b"", b"Suite: evil\n"), (b"Suite: evil\n\n", b"\nSuite: evil\n")],
)
def test_text_outside_the_signed_part_is_not_believed(before: bytes, after: bytes) -> None:
    signed = before + archive_key().clear_sign(TEXT) + after
    try:
        text = checked(signed, archive_key().keyring)
    except FetchError as error:
        assert error.code == "signature"
    else:
        assert "evil" not in text


def test_text_signed_by_a_stranger_beside_the_trusted_one(other: Key) -> None:
    evil, good = other.clear_sign("Suite: evil\n"), archive_key().clear_sign(TEXT)
    for signed in (evil + good, good + evil):
        try:
            text = checked(signed, archive_key().keyring)
        except FetchError as error:
            assert error.code == "signature"
        else:
            assert "evil" not in text


def test_one_known_signature_of_two(other: Key) -> None:
    """As Debian signs: by the archive's key and the release's, of which an old machine knows one."""
    signed = _signed_by_both(archive_key(), other)
    assert "trixie" in checked(signed, archive_key().keyring)
    assert "trixie" in checked(signed, other.keyring)
    refused(signed, Key.new("third").keyring)
    refused(signed.replace(b"trixie", b"forky!"), archive_key().keyring)


def test_no_keyring_at_all() -> None:
    error = refused(archive_key().clear_sign(TEXT))
    assert "no key" in error.message


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\x99" * 40, b"<html></html>"])
def test_a_keyring_that_is_none(garbage: bytes) -> None:
    refused(archive_key().clear_sign(TEXT), garbage)
    assert fingerprints_in(garbage) == frozenset()


def test_a_pinned_key_is_the_only_one(other: Key) -> None:
    key = archive_key()
    pin = (key.fingerprint,)
    assert "trixie" in checked(key.clear_sign(TEXT), key.keyring + other.keyring, fingerprints=pin)
    refused(other.clear_sign(TEXT), key.keyring + other.keyring, fingerprints=pin)
    error = refused(other.clear_sign(TEXT), other.keyring, fingerprints=pin)
    assert "no key" in error.message


# ---------------------------------------------------------------- a key that vouches for itself by SHA-1

# gpg --cert-digest-algo SHA1 --quick-gen-key 'maker <maker@example.org>' ed25519 sign 0
SHA1_FINGERPRINT = "B7A760C8AA2B4D77CCDEAA55EA4D016D8E5189FF"
SHA1_KEY = b"""-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawA7GhYJKwYBBAHaRw8BAQdAMp+aLXIkpoWTgh0MmDs0hkIeU2EHE/ygYBqH
CbKXfua0GW1ha2VyIDxtYWtlckBleGFtcGxlLm9yZz6IkAQTFgIAOBYhBLenYMiq
K013zN6qVepNAW2OUYn/BQJrADsaAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheA
AAoJEOpNAW2OUYn/zuQA/iDKGVm5EdH7Y94Cm6JS+TfBg0Brc0XxkIChlMbYghCP
AP426kPtrB4CRjpGBdO3JGwv1uruz/tGONCdeHp8fruEAg==
=qTPJ
-----END PGP PUBLIC KEY BLOCK-----
"""
SHA1_KEY_SIGNED = b"""-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
SHA256:
 abc 1 main/binary-amd64/Packages
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQS3p2DIqitNd8zeqlXqTQFtjlGJ/wUCawA7GhIcbWFrZXJAZXhh
bXBsZS5vcmcACgkQ6k0BbY5Rif8sbwD/R4A9GLXbpMINUqHxCwqOfrAsYdmZKFj9
f15Ks7hyAsEA/0huqPkh79jZW/LUSJAxek9RcFiORoqkfa4uBTE2rC0N
=hGyB
-----END PGP SIGNATURE-----
"""
SHA1_KEY_SIGNED_BY_SHA1 = b"""-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA1

Suite: jammy
SHA256:
 abc 1 main/binary-amd64/Packages
-----BEGIN PGP SIGNATURE-----

iIgEARYCADAWIQS3p2DIqitNd8zeqlXqTQFtjlGJ/wUCawA7GhIcbWFrZXJAZXhh
bXBsZS5vcmcACgkQ6k0BbY5Rif8vLwEA3LyxC1ENlOjDoiSApTM1eS+2S0YixEAh
0n4VKyjajToA/1owgWRJNlpBiHR55hMlSb3H6L/ieq2pAzh82qR6qr4H
=Adal
-----END PGP SIGNATURE-----
"""


def test_it_is_used_where_it_is_pinned() -> None:
    """AMD's key is one of these."""
    if shutil.which("gpgv") is None:
        cannot_run("gpgv is not installed")
    text = checked(SHA1_KEY_SIGNED, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))
    assert text == "Suite: jammy\nSHA256:\n abc 1 main/binary-amd64/Packages\n"
    surrounded = b"Suite: evil\n\n" + SHA1_KEY_SIGNED + b"\nSuite: evil\n"
    assert "evil" not in checked(surrounded, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))


def test_it_is_not_used_where_it_is_not() -> None:
    refused(SHA1_KEY_SIGNED, SHA1_KEY)


@pytest.mark.parametrize(
    "signed",
    [
        SHA1_KEY_SIGNED.replace(b"jammy", b"noble"),
        SHA1_KEY_SIGNED_BY_SHA1,
        SHA1_KEY_SIGNED * 2,
        SHA1_KEY_SIGNED[:300],
        b"Suite: jammy\n",
        b"",
    ],
    ids=["changed", "signed by SHA-1", "twice", "cut off", "not signed", "empty"],
)
def test_gpgv_believes_no_more_than_that(signed: bytes) -> None:
    refused(signed, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))


def test_a_stranger_and_gpgv(other: Key) -> None:
    for signed in (other.clear_sign(TEXT), other.clear_sign(TEXT) + SHA1_KEY_SIGNED):
        refused(signed, SHA1_KEY + other.keyring, fingerprints=(SHA1_FINGERPRINT,))


def test_a_pinned_key_that_has_expired() -> None:
    key = Key.new("old")
    past = datetime.now(timezone.utc) - timedelta(seconds=30)
    expired = bytes(key.secret.extract_certificate().set_expiration(past, key.secret.certifier()))
    refused(key.clear_sign(TEXT), expired, fingerprints=(key.fingerprint,))


def test_without_gpgv_the_remedy_is_gpgv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused(SHA1_KEY_SIGNED, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))
    assert "install `gpgv`" in error.hints[0]


# ---------------------------------------------------------------- keyrings


def test_the_fingerprints_of_a_keyring(other: Key) -> None:
    both = fingerprints_in(archive_key().keyring + other.keyring)
    assert both == {archive_key().fingerprint, other.fingerprint}


def _signed_by_both(one: Key, two: Key) -> bytes:
    """Return a text with two signatures in one block."""
    first, second = one.clear_sign(TEXT), two.clear_sign(TEXT)
    packets = b"".join(_signature(signed) for signed in (first, second))
    body = base64.encodebytes(packets).decode()
    head = first.partition(b"-----BEGIN PGP SIGNATURE-----")[0].decode()
    return f"{head}-----BEGIN PGP SIGNATURE-----\n\n{body}-----END PGP SIGNATURE-----\n".encode()


def _signature(signed: bytes) -> bytes:
    match = re.search(rb"-----BEGIN PGP SIGNATURE-----\n\n(.+?)(?:\n=....)?\n-----END", signed, re.DOTALL)
    assert match is not None
    return base64.b64decode(match[1])
