"""Whether a repository's `InRelease` was signed by whom it must be: an error where that cannot be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def verified_text(
    signed: bytes, keyrings: Sequence[bytes], fingerprints: Sequence[str], *, what: str, remedy: str
) -> str:
    """Return the text inside a clear-signed file that one of the trusted keys has signed.

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
        except Exception as error:  # see below
            raise FetchError(
                f"the keyring for {what} cannot be read: {_first_line(error)}",
                hints=(remedy,),
                code="signature",
            ) from error
    trusted = [cert for cert in certificates if not fingerprints or cert.fingerprint.upper() in fingerprints]
    if not trusted:
        raise FetchError(f"no key to check the signature of {what} with", hints=(remedy,), code="signature")
    try:
        result = pysequoia.verify(bytes=signed, store=lambda _ids: trusted)
    except Exception as error:  # it has kinds of its own, for damage and bad signatures alike
        raise FetchError(
            f"the signature of {what} does not hold: {_first_line(error)}",
            hints=("a mirror or proxy may have changed the file; try again, or another mirror", remedy),
            code="signature",
        ) from error
    if not result.valid_sigs or result.bytes is None:
        raise FetchError(f"{what} is not signed", hints=(remedy,), code="signature")
    return bytes(result.bytes).decode("utf-8", "replace")


def fingerprints_in(keyring: bytes) -> frozenset[str]:
    """Return the fingerprints of a keyring's certificates, in capitals; none where it cannot be read."""
    try:
        return frozenset(certificate.fingerprint.upper() for certificate in _certificates(keyring))
    except Exception:  # pysequoia has kinds of its own for every damage
        return frozenset()


def _certificates(keyring: bytes) -> list[Any]:
    import pysequoia

    return list(pysequoia.Cert.split_bytes(keyring))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unknown"])[0].strip().rstrip(".")
