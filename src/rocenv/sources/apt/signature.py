"""Verify the signature of a repository's `InRelease`.

Sequoia verifies signatures. It rejects keys whose self-signature uses SHA-1, such as AMD's. If such a key is
pinned by its fingerprint, the self-signature does not matter, so `gpgv`, if installed, verifies the signature
instead; it is used only for such keys. Neither program accepts a signature that is dated in the future or was
made after the key expired.

Source: https://github.com/ROCm/legacy-rocm-build/issues/5619
"""

from __future__ import annotations

import re
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError
from rocenv.sources.apt.control import seconds_of
from rocenv.system import process
from rocenv.system.programs import system_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# Limits for unverified files: verifying a malicious signature can take a thousand times its size in memory.
RELEASE_BYTES = 1 << 20  # Debian's is 0.2 MB, Ubuntu's 0.3 MB
KEY_BYTES = 1 << 16  # Debian's complete keyring is 56 kB, AMD's key 3 kB
_SIGNATURE_BYTES = 1 << 14  # Debian's two signatures total 2 kB
# Lines of the text that start with a dash are escaped. Source: RFC 9580 7.1
_BORDER = re.compile(rb"^-----.*$", re.MULTILINE)
_BORDERS = [
    b"-----%s-----" % each
    for each in (b"BEGIN PGP SIGNED MESSAGE", b"BEGIN PGP SIGNATURE", b"END PGP SIGNATURE")
]

CLOCK_SKEW_S = 30 * 60  # allowed clock difference, as in Sequoia
_SOUND_HASHES = {b"8", b"9", b"10"}  # SHA-256, SHA-384, SHA-512. Source: RFC 4880 9.4


def verified_text(
    signed: bytes, keyrings: Sequence[bytes], fingerprints: Sequence[str], *, what: str, remedy: str
) -> str:
    """Return the text of a clear-signed file that a trusted key has signed.

    Only the signed part is returned; text before or after it is dropped.

    Args:
        signed: The file.
        keyrings: OpenPGP certificates, armored or not, one or more per item.
        fingerprints: The trusted certificates, in uppercase, or empty to trust all in the keyrings.
        what: The name of the file in errors.
        remedy: A hint for a missing key.

    Raises:
        FetchError: There is no valid signature from a trusted key.
    """
    import pysequoia

    again = "a mirror or proxy may have changed the file; try again, or use a different mirror"
    try:
        message = _message_in(signed)
    except ValueError as error:
        raise _refused(f"{what} {error}", again, remedy) from error
    certificates = []
    for keyring in keyrings:
        try:
            certificates += _certificates(keyring)
        except Exception as error:  # pysequoia raises a different type for each kind of damage
            raise _refused(f"cannot read the keyring for {what}: {_first_line(error)}", remedy) from error
    trusted = [cert for cert in certificates if not fingerprints or cert.fingerprint.upper() in fingerprints]
    if not trusted:
        raise _refused(f"there is no key to verify {what}", remedy)
    try:
        result = pysequoia.verify(bytes=message, store=lambda _ids: trusted)
    except Exception as error:  # for damage and bad signatures alike
        unjudged = [cert for cert in trusted if fingerprints and _vouches_by_sha1(cert)]
        text = _text_by_gpgv(message, unjudged) if unjudged else None
        if text is not None:
            return text
        hints = [again, remedy]
        if unjudged and system_program("gpgv") is None:
            hints.insert(0, "install `gpgv`, which accepts keys whose self-signature uses SHA-1")
        if _is_of_the_future(message):
            hints.insert(0, "check this machine's clock: `date`")
        raise _refused(f"the signature of {what} is invalid: {_first_line(error)}", *hints) from error
    if not result.valid_sigs or result.bytes is None:
        raise _refused(f"{what} is not signed", remedy)
    return bytes(result.bytes).decode("utf-8", "replace")


def _refused(text: str, *hints: str) -> FetchError:
    return FetchError(text, hints=hints, code="signature")


def _message_in(signed: bytes) -> bytes:
    """Extract a file's single clear-signed message; raise ValueError("is ...") if that fails."""
    borders = list(islice(_BORDER.finditer(signed), len(_BORDERS) + 1))
    if len(signed) > RELEASE_BYTES:
        raise ValueError(f"is larger than {RELEASE_BYTES >> 10} KiB")
    if [border[0].rstrip() for border in borders] != _BORDERS:
        raise ValueError("is not exactly one clear-signed message")
    begin, signature, end = borders
    if end.end() - signature.start() > _SIGNATURE_BYTES:
        raise ValueError(f"has more than {_SIGNATURE_BYTES >> 10} KiB of signatures")
    return signed[begin.start() : end.end()] + b"\n"


def _is_of_the_future(message: bytes) -> bool:
    """Whether the message is dated in the future; the date may be forged."""
    date = re.search(rb"^Date:(.*)$", message, re.MULTILINE)
    try:
        return date is not None and seconds_of(date[1].decode("ascii", "replace")) > time.time()
    except ValueError:
        return False


def _vouches_by_sha1(certificate: Any) -> bool:
    """Whether Sequoia rejects a certificate because its self-signature uses SHA-1."""
    try:
        certificate.expiration  # noqa: B018 -- this looks for an accepted self-signature
    except Exception as error:  # pysequoia raises a different type for each kind of damage
        return "SHA1 is not considered secure" in str(error)
    return False


def _text_by_gpgv(message: bytes, trusted: Sequence[Any]) -> str | None:
    """Return the text that gpgv verified, or None if it rejects the signature or is not installed."""
    program = system_program("gpgv")
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        keyring, file, text = (f"{folder}/{name}" for name in ("keyring", "signed", "text"))
        Path(keyring).write_bytes(b"".join(map(bytes, trusted)))
        Path(file).write_bytes(message)
        options = ("--homedir", folder, "--keyring", keyring, "--status-fd", "1", "--output", text)
        done = process.run([program, *options, file], timeout_s=60)
        if not done.ok or not _is_proof(done.stdout):
            return None
        return Path(text).read_text(encoding="utf-8", errors="replace")


def _is_proof(status: bytes) -> bool:
    """Whether gpgv reports only good signatures, made in the past and before their keys expired.

    Source: GnuPG, doc/DETAILS
    """
    # EXPKEYSIG: the key has since expired. A revoked key yields neither GOODSIG nor EXPKEYSIG.
    good = re.findall(rb"^\[GNUPG:\] (?:GOODSIG|EXPKEYSIG) ", status, re.MULTILINE)
    # [GNUPG:] VALIDSIG CA8B... 2026-11-20 1795177117 0 4 0 1 10 01 CA8B...: time and hash
    valid = re.findall(rb"^\[GNUPG:\] VALIDSIG \S+ \S+ (\d+) (?:\S+ ){4}(\d+) ", status, re.MULTILINE)
    expired = map(int, re.findall(rb"^\[GNUPG:\] KEYEXPIRED (\d+)", status, re.MULTILINE))
    before = min([time.time() + CLOCK_SKEW_S, *expired])
    return 0 < len(good) == len(valid) and all(
        int(made) < before and digest in _SOUND_HASHES for made, digest in valid
    )


def fingerprints_in(keyring: bytes) -> frozenset[str]:
    """Return the fingerprints of a keyring's certificates, in uppercase, or an empty set if unreadable."""
    try:
        return frozenset(certificate.fingerprint.upper() for certificate in _certificates(keyring))
    except Exception:  # pysequoia raises a different type for each kind of damage
        return frozenset()


def _certificates(keyring: bytes) -> list[Any]:
    import pysequoia

    return list(pysequoia.Cert.split_bytes(keyring))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unknown"])[0].strip().rstrip(".")
