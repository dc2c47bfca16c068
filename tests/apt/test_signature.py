"""Signature checks: only text signed by a trusted key is accepted, whatever was tampered with."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import time
import zlib
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pysequoia
import pytest

from rocenv.core.errors import FetchError
from rocenv.sources.apt.signature import fingerprints_in, verified_text
from rocenv.system import process, programs
from tests.apt import dated
from tests.aptrepo import Key, archive_key, http_date
from tests.network import cannot_run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apt.dated import Signer

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


def test_text_signed_by_a_known_key_is_accepted() -> None:
    key = archive_key()
    assert checked(key.clear_sign(TEXT), key.keyring).rstrip("\n") == TEXT.rstrip("\n")


def test_the_key_can_be_anywhere_in_the_keyring(other: Key) -> None:
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
def test_changed_text_is_rejected(change: tuple[bytes, bytes]) -> None:
    signed = archive_key().clear_sign(TEXT)
    assert change[0] in signed
    error = refused(signed.replace(*change), archive_key().keyring)
    assert "is invalid" in error.message


def test_a_changed_signature_is_rejected() -> None:
    signed = archive_key().clear_sign(TEXT)
    head, _, tail = signed.partition(b"-----BEGIN PGP SIGNATURE-----\n\n")
    refused(head + b"-----BEGIN PGP SIGNATURE-----\n\n" + tail.swapcase(), archive_key().keyring)


def test_a_different_key_is_rejected(other: Key) -> None:
    refused(other.clear_sign(TEXT), archive_key().keyring)


def test_a_different_key_with_the_same_name_is_rejected() -> None:
    refused(Key.new("archive").clear_sign(TEXT), archive_key().keyring)


def test_a_signature_made_before_the_key_expired_is_accepted() -> None:
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
def test_unsigned_text_is_rejected(content: bytes) -> None:
    refused(content, archive_key().keyring)


@pytest.mark.parametrize("end", [0.3, 0.6, 0.9])
def test_a_truncated_signed_file_is_rejected(end: float) -> None:
    signed = archive_key().clear_sign(TEXT)
    refused(signed[: int(len(signed) * end)], archive_key().keyring)


def test_a_detached_signature_is_rejected() -> None:
    mode = pysequoia.SignatureMode.DETACHED
    signature = pysequoia.sign(archive_key().secret.signer(), TEXT.encode(), mode=mode)
    refused(bytes(signature), archive_key().keyring)


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"Suite: evil\n", b""), (b"", b"Suite: evil\n"), (b"Suite: evil\n\n", b"\nSuite: evil\n")],
)
def test_text_outside_the_signed_part_is_dropped(before: bytes, after: bytes) -> None:
    signed = before + archive_key().clear_sign(TEXT) + after
    try:
        text = checked(signed, archive_key().keyring)
    except FetchError as error:
        assert error.code == "signature"
    else:
        assert "evil" not in text


def test_text_signed_by_an_unknown_key_is_dropped(other: Key) -> None:
    evil, good = other.clear_sign("Suite: evil\n"), archive_key().clear_sign(TEXT)
    for signed in (evil + good, good + evil):
        try:
            text = checked(signed, archive_key().keyring)
        except FetchError as error:
            assert error.code == "signature"
        else:
            assert "evil" not in text


def test_one_trusted_signature_of_two_is_enough(other: Key) -> None:
    """Debian signs with an archive key and a release key, and an old machine may have only one of them."""
    signed = _signed_by_both(archive_key(), other)
    assert "trixie" in checked(signed, archive_key().keyring)
    assert "trixie" in checked(signed, other.keyring)
    refused(signed, Key.new("third").keyring)
    refused(signed.replace(b"trixie", b"forky!"), archive_key().keyring)


def test_a_missing_keyring_is_an_error() -> None:
    error = refused(archive_key().clear_sign(TEXT))
    assert "no key" in error.message


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\x99" * 40, b"<html></html>"])
def test_an_invalid_keyring_is_an_error(garbage: bytes) -> None:
    refused(archive_key().clear_sign(TEXT), garbage)
    assert fingerprints_in(garbage) == frozenset()


def test_only_the_pinned_key_is_trusted(other: Key) -> None:
    key = archive_key()
    pin = (key.fingerprint,)
    assert "trixie" in checked(key.clear_sign(TEXT), key.keyring + other.keyring, fingerprints=pin)
    refused(other.clear_sign(TEXT), key.keyring + other.keyring, fingerprints=pin)
    error = refused(other.clear_sign(TEXT), other.keyring, fingerprints=pin)
    assert "no key" in error.message


# ---------------------------------------------------------------- keys with a SHA-1 self-signature

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


def test_a_pinned_sha1_key_is_accepted() -> None:
    """AMD's key uses SHA-1."""
    if shutil.which("gpgv") is None:
        cannot_run("gpgv is not installed")
    text = checked(SHA1_KEY_SIGNED, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))
    assert text == "Suite: jammy\nSHA256:\n abc 1 main/binary-amd64/Packages\n"
    surrounded = b"Suite: evil\n\n" + SHA1_KEY_SIGNED + b"\nSuite: evil\n"
    assert "evil" not in checked(surrounded, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))


def test_an_unpinned_sha1_key_is_rejected() -> None:
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
def test_gpgv_rejects_changed_files(signed: bytes) -> None:
    refused(signed, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))


def test_gpgv_rejects_a_signature_by_an_unknown_key(other: Key) -> None:
    for signed in (other.clear_sign(TEXT), other.clear_sign(TEXT) + SHA1_KEY_SIGNED):
        refused(signed, SHA1_KEY + other.keyring, fingerprints=(SHA1_FINGERPRINT,))


def test_gpgv_rejects_signatures_after_the_keys_expiry() -> None:
    key = Key.new("old")
    past = datetime.now(timezone.utc) - timedelta(seconds=30)
    expired = bytes(key.secret.extract_certificate().set_expiration(past, key.secret.certifier()))
    refused(key.clear_sign(TEXT), expired, fingerprints=(key.fingerprint,))


def test_a_hint_suggests_installing_gpgv_if_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", (str(tmp_path),))
    error = refused(SHA1_KEY_SIGNED, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))
    assert "install `gpgv`" in error.hints[0]


def test_gpgv_is_used_only_for_sha1_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpgv is not used for a key that Sequoia accepts, even if the key is pinned."""
    monkeypatch.setattr(process, "run", lambda *_, **__: pytest.fail("gpgv was called"))
    key = archive_key()
    changed = key.clear_sign(TEXT).replace(b"trixie", b"forky!")
    refused(changed, key.keyring, fingerprints=(key.fingerprint,))
    refused(SHA1_KEY_SIGNED, key.keyring, SHA1_KEY, fingerprints=(key.fingerprint,))
    with pytest.raises(pytest.fail.Exception):
        checked(SHA1_KEY_SIGNED, key.keyring, SHA1_KEY, fingerprints=(key.fingerprint, SHA1_FINGERPRINT))


# ---------------------------------------------------------------- dates

SIGNERS = pytest.mark.parametrize(
    ("signer", "short"),
    [(dated.SOUND, dated.SOUND_SHORT), (dated.SHA1, dated.SHA1_SHORT)],
    ids=["sequoia", "gpgv"],
)


@SIGNERS
def test_a_future_signature_is_rejected(signer: Signer, short: Signer) -> None:
    pin = (signer.fingerprint,)
    assert checked(signer.signed["2024-01-01"], signer.key, fingerprints=pin).startswith("Suite: jammy")
    refused(signer.signed["2090-01-01"], signer.key, fingerprints=pin)


@SIGNERS
def test_a_signature_made_after_the_key_expired_is_rejected(signer: Signer, short: Signer) -> None:
    """Earlier signatures must stay valid, because AMD never re-signs its old releases."""
    pin = (short.fingerprint,)
    assert checked(short.signed["2024-01-01"], short.key, fingerprints=pin).startswith("Suite: jammy")
    refused(short.signed["2024-04-01"], short.key, fingerprints=pin)


def test_a_slow_clock_is_suggested_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    signed = archive_key().clear_sign(f"{TEXT}Date: {http_date(0)}\n").replace(b"abc", b"abd")
    assert not any("clock" in hint for hint in refused(signed, archive_key().keyring).hints)
    then = time.time() - 7 * 3600  # Windows keeps the hardware clock in local time
    monkeypatch.setattr(time, "time", lambda: then)
    assert refused(signed, archive_key().keyring).hints[0] == "check this machine's clock: `date`"


# ---------------------------------------------------------------- expensive input

EMPTY = base64.encodebytes(b"\xc2\x00" * 190_000)  # 190,000 empty signatures
BOMB = zlib.compress(b"\xcb\xff\x0b\xeb\xc2\x06b\x00" + bytes(200_000_004), 9)[2:-4]


def _armoured(kind: bytes, content: bytes) -> bytes:
    return b"-----BEGIN PGP %b-----\n\n%b-----END PGP %b-----\n" % (kind, content, kind)


def _hostile(name: str) -> bytes:
    signed = archive_key().clear_sign(TEXT)
    head, _, rest = signed.partition(b"-----BEGIN PGP SIGNATURE-----")
    return {
        "many signatures": head + _armoured(b"SIGNATURE", EMPTY),
        "compressed": _armoured(
            b"MESSAGE", base64.encodebytes(b"\xc8\xff" + (len(BOMB) + 1).to_bytes(4, "big") + b"\x01" + BOMB)
        ),
        "not armoured": b"\xc8\xff" + (len(BOMB) + 1).to_bytes(4, "big") + b"\x01" + BOMB,
        "long text": archive_key().clear_sign(TEXT + "a\n" * 600_000),
        "many headers": signed.replace(b"Hash: ", b"Hash: SHA512\n" * 30_000 + b"Hash: ", 1).replace(
            b"abc", b"abd"
        ),
        "many messages": signed * 1000,
        "many borders": b"-----\n" * 150_000,
        "a second signature": head
        + _armoured(b"SIGNATURE", EMPTY[:10_000])
        + b"-----BEGIN PGP SIGNATURE-----"
        + rest,
    }[name]


_CHILD = """
import sys
from rocenv.core.errors import FetchError
from rocenv.sources.apt.signature import verified_text
def peak():
    text = open("/proc/self/status").read()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024
good, key, signed = (open(name, "rb").read() for name in sys.argv[1:])
def ask(content):
    try:
        verified_text(content, [key], (), what="it", remedy="")
    except FetchError as error:
        return error.code
ask(good)
ask(good.replace(b"trixie", b"forky!"))  # the backtrace of any failure takes 50 MB, once
before = peak()
print(ask(signed), peak() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the test reads peak memory from it")
@pytest.mark.parametrize(
    "name",
    [
        "many signatures",
        "compressed",
        "not armoured",
        "long text",
        "many headers",
        "many messages",
        "many borders",
        "a second signature",
    ],
)
def test_verifying_a_small_untrusted_file_takes_little_memory(name: str, tmp_path: Path) -> None:
    good, key, signed = (tmp_path / each for each in ("good", "key", "signed"))
    good.write_bytes(archive_key().clear_sign(TEXT))
    key.write_bytes(archive_key().keyring)
    signed.write_bytes(_hostile(name))
    argv = [sys.executable, "-c", _CHILD, str(good), str(key), str(signed)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    code, grown = done.stdout.split()
    assert code == "signature"
    assert int(grown) < 24 << 20


def test_real_release_files_are_within_the_limits() -> None:
    """Ubuntu's file is 300 kB, Debian's has three signatures, and newer signature types take 5 kB."""
    text = TEXT + "".join(
        f" {number:064x} 12345 main/binary-amd64/Packages{number}\n" for number in range(6000)
    )
    assert len(text) > 500_000
    assert "trixie" in checked(archive_key().clear_sign(text), archive_key().keyring)


# ---------------------------------------------------------------- the gpgv program


# A `gpgv` that accepts every signature, even one made for a different file.
FORGER = """#!/bin/sh
PATH=/usr/bin:/bin
touch asked
while [ $# -gt 1 ]; do [ "$1" = --output ] && out=$2; shift; done
[ -n "$out" ] && sed '/^-----BEGIN PGP SIGNATURE/,$d; /^-----/d; /^Hash/d; /^$/d' "$1" > "$out"
echo "[GNUPG:] GOODSIG 1 x"
echo "[GNUPG:] VALIDSIG A 2026-11-20 1795177117 0 4 0 1 10 01 A"
"""


@pytest.mark.parametrize("path", ["", ".", ":{system}", ".:{system}", "{folder}:{system}", "bin:{system}"])
def test_a_gpgv_in_the_current_folder_is_never_used(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `.` in PATH, a `gpgv` in a cloned project's folder could pass off a forged index as valid."""
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        fake = folder / "gpgv"
        fake.write_text(FORGER)
        fake.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path.format(system=os.environ["PATH"], folder=tmp_path))
    forged = SHA1_KEY_SIGNED.replace(b"jammy", b"evil")
    refused(forged, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,))
    assert not (tmp_path / "asked").exists()
    monkeypatch.setattr(programs, "SYSTEM_FOLDERS", (str(tmp_path),))
    assert "evil" in checked(forged, SHA1_KEY, fingerprints=(SHA1_FINGERPRINT,)), (
        "gpgv would have accepted it"
    )


# ---------------------------------------------------------------- keyrings


def test_a_keyrings_fingerprints_are_listed(other: Key) -> None:
    both = fingerprints_in(archive_key().keyring + other.keyring)
    assert both == {archive_key().fingerprint, other.fingerprint}


def _signed_by_both(one: Key, two: Key) -> bytes:
    """Combine two signatures for a message into one block."""
    first, second = one.clear_sign(TEXT), two.clear_sign(TEXT)
    packets = b"".join(_signature(signed) for signed in (first, second))
    body = base64.encodebytes(packets).decode()
    head = first.partition(b"-----BEGIN PGP SIGNATURE-----")[0].decode()
    return f"{head}-----BEGIN PGP SIGNATURE-----\n\n{body}-----END PGP SIGNATURE-----\n".encode()


def _signature(signed: bytes) -> bytes:
    match = re.search(rb"-----BEGIN PGP SIGNATURE-----\n\n(.+?)(?:\n=....)?\n-----END", signed, re.DOTALL)
    assert match is not None
    return base64.b64decode(match[1])
