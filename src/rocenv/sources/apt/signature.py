"""Whether a repository's `InRelease` was signed by whom it must be: an error where that cannot be shown.

Sequoia decides. It refuses a key that vouches for itself by SHA-1, as AMD's does. Where such a key is pinned
by its fingerprint, no vouching is needed, and `gpgv` decides if it is installed.

Source: https://github.com/ROCm/legacy-rocm-build/issues/5619
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError
from rocenv.system import process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

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
        result = pysequoia.verify(bytes=signed, store=lambda _ids: trusted)
    except Exception as error:  # for damage and bad signatures alike
        text = _text_by_gpgv(signed, trusted) if fingerprints else None
        if text is not None:
            return text
        hints = ["a mirror or proxy may have changed the file; try again, or another mirror", remedy]
        if fingerprints and shutil.which("gpgv") is None:
            hints.insert(0, "install `gpgv`: it accepts keys that are refused for their own SHA-1 signature")
        raise _refused(f"the signature of {what} is invalid: {_first_line(error)}", *hints) from error
    if not result.valid_sigs or result.bytes is None:
        raise _refused(f"{what} is not signed", remedy)
    return bytes(result.bytes).decode("utf-8", "replace")


def _refused(text: str, *hints: str) -> FetchError:
    return FetchError(text, hints=hints, code="signature")


def _text_by_gpgv(signed: bytes, trusted: Sequence[Any]) -> str | None:
    """Extract the text with gpgv; None if it cannot prove the signature, or is not installed."""
    program = shutil.which("gpgv")
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="rocenv-") as folder:
        keyring, file, text = (f"{folder}/{name}" for name in ("keyring", "signed", "text"))
        Path(keyring).write_bytes(b"".join(map(bytes, trusted)))
        Path(file).write_bytes(signed)
        options = ("--homedir", folder, "--keyring", keyring, "--status-fd", "1", "--output", text)
        done = process.run([program, *options, file], timeout_s=60)
        # Good also means that the key has neither expired nor been revoked. Source: GnuPG, doc/DETAILS
        good = re.findall(rb"^\[GNUPG:\] GOODSIG ", done.stdout, re.MULTILINE)
        # [GNUPG:] VALIDSIG CA8B... 2026-11-20 1795177117 0 4 0 1 10 01 CA8B...: the eighth word is the hash
        hashes = re.findall(rb"^\[GNUPG:\] VALIDSIG (?:\S+ ){7}(\d+) ", done.stdout, re.MULTILINE)
        if not done.ok or not good or len(good) != len(hashes) or not set(hashes) <= _SOUND_HASHES:
            return None
        return Path(text).read_text(encoding="utf-8", errors="replace")


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
