"""Whether a repository's `InRelease` was signed by whom it must be: an error where that cannot be shown.

Sequoia decides. It refuses a key that vouches for itself by SHA-1, as AMD's does. Where such a key is pinned
by its fingerprint, no vouching is needed, and `gpgv` decides if it is installed; it is asked about such keys
only. Neither accepts a signature from the future, or of a key that had expired when it signed.

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

# Of files that nothing vouches for yet: a verifier takes a thousand times the memory of a hostile signature.
RELEASE_BYTES = 1 << 20  # Debian's have 0.2 MB, Ubuntu's 0.3 MB
KEY_BYTES = 1 << 16  # Debian's whole keyring has 56 kB, AMD's key 3 kB
_SIGNATURE_BYTES = 1 << 14  # Debian's two have 2 kB
# A line of the text itself that begins with a dash is escaped. Source: RFC 9580 7.1
_BORDER = re.compile(rb"^-----.*$", re.MULTILINE)
_BORDERS = [
    b"-----%s-----" % each
    for each in (b"BEGIN PGP SIGNED MESSAGE", b"BEGIN PGP SIGNATURE", b"END PGP SIGNATURE")
]

CLOCK_SKEW_S = 30 * 60  # how far clocks may be apart; Sequoia's own tolerance
_SOUND_HASHES = {b"8", b"9", b"10"}  # SHA-256, SHA-384, SHA-512. Source: RFC 4880 9.4


def verified_text(
    signed: bytes, keyrings: Sequence[bytes], fingerprints: Sequence[str], *, what: str, remedy: str
) -> str:
    """Extract the text of a clear-signed file that one of the trusted keys has signed.

    Only what the signature covers is returned: text before or after the signed part is dropped.

    Args:
        signed: The file.
        keyrings: OpenPGP certificates, armoured or not, many in one or not.
        fingerprints: Of the only certificates to trust, in capitals; empty = every one of the keyrings.
        what: Names the file in the error.
        remedy: What the user can do about a missing key.

    Raises:
        FetchError: There is no valid signature by a trusted key.
    """
    import pysequoia

    again = "a mirror or proxy may have changed the file; try again, or another mirror"
    try:
        message = _message_in(signed)
    except ValueError as error:
        raise _refused(f"{what} {error}", again, remedy) from error
    certificates = []
    for keyring in keyrings:
        try:
            certificates += _certificates(keyring)
        except Exception as error:  # pysequoia has kinds of its own for every damage
            raise _refused(f"the keyring for {what} cannot be read: {_first_line(error)}", remedy) from error
    trusted = [cert for cert in certificates if not fingerprints or cert.fingerprint.upper() in fingerprints]
    if not trusted:
        raise _refused(f"no key to check the signature of {what} with", remedy)
    try:
        result = pysequoia.verify(bytes=message, store=lambda _ids: trusted)
    except Exception as error:  # for damage and bad signatures alike
        unjudged = [cert for cert in trusted if fingerprints and _vouches_by_sha1(cert)]
        text = _text_by_gpgv(message, unjudged) if unjudged else None
        if text is not None:
            return text
        hints = [again, remedy]
        if unjudged and system_program("gpgv") is None:
            hints.insert(0, "install `gpgv`: it accepts keys that are refused for their own SHA-1 signature")
        if _is_of_the_future(message):
            hints.insert(0, "check this machine's clock: `date`")
        raise _refused(f"the signature of {what} is invalid: {_first_line(error)}", *hints) from error
    if not result.valid_sigs or result.bytes is None:
        raise _refused(f"{what} is not signed", remedy)
    return bytes(result.bytes).decode("utf-8", "replace")


def _refused(text: str, *hints: str) -> FetchError:
    return FetchError(text, hints=hints, code="signature")


def _message_in(signed: bytes) -> bytes:
    """Cut out the one clear-signed message; raise ValueError with what is wrong, as a predicate."""
    borders = list(islice(_BORDER.finditer(signed), len(_BORDERS) + 1))
    if len(signed) > RELEASE_BYTES:
        raise ValueError(f"has more than {RELEASE_BYTES >> 10} KiB")
    if [border[0].rstrip() for border in borders] != _BORDERS:
        raise ValueError("is not exactly one clear-signed message")
    begin, signature, end = borders
    if end.end() - signature.start() > _SIGNATURE_BYTES:
        raise ValueError(f"has more than {_SIGNATURE_BYTES >> 10} KiB of signatures")
    return signed[begin.start() : end.end()] + b"\n"


def _is_of_the_future(message: bytes) -> bool:
    """Whether it says so itself; it may not be true."""
    date = re.search(rb"^Date:(.*)$", message, re.MULTILINE)
    try:
        return date is not None and seconds_of(date[1].decode("ascii", "replace")) > time.time()
    except ValueError:
        return False


def _vouches_by_sha1(certificate: Any) -> bool:
    """Whether Sequoia cannot judge a certificate, since its own signature is made with SHA-1."""
    try:
        certificate.expiration  # noqa: B018 -- it looks for a signature that it accepts
    except Exception as error:  # pysequoia has kinds of its own for every damage
        return "SHA1 is not considered secure" in str(error)
    return False


def _text_by_gpgv(message: bytes, trusted: Sequence[Any]) -> str | None:
    """Extract the text with gpgv; None if it cannot prove the signature, or is not installed."""
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
    """Whether gpgv reports only good signatures, each made before now and before its key expired.

    Source: GnuPG, doc/DETAILS
    """
    # EXPKEYSIG: the key has expired by now. Of a key that was revoked there is neither.
    good = re.findall(rb"^\[GNUPG:\] (?:GOODSIG|EXPKEYSIG) ", status, re.MULTILINE)
    # [GNUPG:] VALIDSIG CA8B... 2026-11-20 1795177117 0 4 0 1 10 01 CA8B...: when, and the hash
    valid = re.findall(rb"^\[GNUPG:\] VALIDSIG \S+ \S+ (\d+) (?:\S+ ){4}(\d+) ", status, re.MULTILINE)
    expired = map(int, re.findall(rb"^\[GNUPG:\] KEYEXPIRED (\d+)", status, re.MULTILINE))
    before = min([time.time() + CLOCK_SKEW_S, *expired])
    return 0 < len(good) == len(valid) and all(
        int(made) < before and digest in _SOUND_HASHES for made, digest in valid
    )


def fingerprints_in(keyring: bytes) -> frozenset[str]:
    """List the fingerprints of a keyring's certificates, in capitals; none where it cannot be read."""
    try:
        return frozenset(certificate.fingerprint.upper() for certificate in _certificates(keyring))
    except Exception:  # pysequoia has kinds of its own for every damage
        return frozenset()


def _certificates(keyring: bytes) -> list[Any]:
    import pysequoia

    return list(pysequoia.Cert.split_bytes(keyring))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unknown"])[0].strip().rstrip(".")
