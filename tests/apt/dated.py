"""Premade GnuPG keys and clear-signed messages with dates that tests cannot set themselves.

They were made with `gpg --faked-system-time DATE`: keys with `--quick-gen-key NAME ed25519 sign EXPIRY`, and
keys with a SHA-1 self-signature with `--cert-digest-algo SHA1`. Signatures dated after a key's expiry were
made with a copy of the key that expires later.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signer:
    """A key whose self-signature uses a particular hash algorithm, and messages signed with it."""

    fingerprint: str
    key: bytes
    signed: dict[str, bytes]


SOUND = Signer(  # made in 2024, never expires
    fingerprint="6510B357EE1D210187DB6B7CEB0F6BE373D4A40C",
    key=b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdA3nr/ar1XpATsYvOwtfuPtWxg8uVBFG6YSQqt
oqMJhhm0F2dvb2QgPGdvb2RAZXhhbXBsZS5vcmc+iJAEExYIADgWIQRlELNX7h0h
AYfba3zrD2vjc9SkDAUCZZIAgAIbAwULCQgHAgYVCgkICwIEFgIDAQIeAQIXgAAK
CRDrD2vjc9SkDGIwAQCL5U7xHR7ULVEiW3n1IHnIHxj60wr6S2EokItmQNuQhAD/
SSZa18kU5/s0+ZVmNup9oaSm4UDvz/HPgU1NcXI/XQQ=
=mch5
-----END PGP PUBLIC KEY BLOCK-----
""",
    signed={
        "2024-01-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIcEARYKAC8WIQRlELNX7h0hAYfba3zrD2vjc9SkDAUCZZIOkBEcZ29vZEBleGFt
cGxlLm9yZwAKCRDrD2vjc9SkDGHsAQCm0ISqsj/cb34W7J6lMytijqNXLctMZ01V
RyVuFF7QXgEAw4Hgg2j3L3pUbJ3J9WHJdaP298J4L1rRXFzHAf6JTAE=
=LELa
-----END PGP SIGNATURE-----
""",
        "2090-01-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIcEARYKAC8WIQRlELNX7h0hAYfba3zrD2vjc9SkDAUC4be/EBEcZ29vZEBleGFt
cGxlLm9yZwAKCRDrD2vjc9SkDJd+AQChOTN2G5g93we0N69Ojm1VCaFCf/YxcW1A
z7iDhxRSVQD+ND8DyquNGkW9nFAA5iEWjO4ZkryTNi/mbYF7mumE4wg=
=8u8X
-----END PGP SIGNATURE-----
""",
    },
)
SOUND_SHORT = Signer(  # made on 2024-01-01, valid for one day
    fingerprint="6CCACBBFBC822900E4D21902A587CCDF202371F3",
    key=b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdARI1XYCI9E0r3nZuHNUnuK2rWH8ssncQZjsXr
9umV1sW0GXNob3J0IDxzaG9ydEBleGFtcGxlLm9yZz6IlgQTFggAPhYhBGzKy7+8
gikA5NIZAqWHzN8gI3HzBQJlkgCAAhsDBQkAAVGABQsJCAcCBhUKCQgLAgQWAgMB
Ah4BAheAAAoJEKWHzN8gI3HzQa4A+gLWhCuM1UpGHYMT+DzdIXzDoi+yYUQkMlL1
7w0JzvYAAP9dndjkTffI7ifVGD3Zj2K07AkziuUcwOC86fsl9uaHBA==
=mllx
-----END PGP PUBLIC KEY BLOCK-----
""",
    signed={
        "2024-01-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQRsysu/vIIpAOTSGQKlh8zfICNx8wUCZZIOkBIcc2hvcnRAZXhh
bXBsZS5vcmcACgkQpYfM3yAjcfPGZgD9HKly8K9QwcCIMPK/0zJm33iaJRnqnN8x
uinIyjbdMBYBAMJve1pdhXYz5GFjxdDlyml1dQyFUu77fcLUnmVDM2AM
=W/2j
-----END PGP SIGNATURE-----
""",
        "2024-04-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQRsysu/vIIpAOTSGQKlh8zfICNx8wUCZgoHEBIcc2hvcnRAZXhh
bXBsZS5vcmcACgkQpYfM3yAjcfMFdgD+LnURBiOdUxPM8QtS0CkdkvaxtUe4uok/
8aOXj5INP6oBANeitipLKo487ICxHsfJwQaDfdTZb6ZQKqTpB0BD7e0B
=woYl
-----END PGP SIGNATURE-----
""",
    },
)
SHA1 = Signer(  # made in 2024, never expires
    fingerprint="1EECC5BF8EEF17F8C4D7C8C56492932CDA44011A",
    key=b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdAN+CiI8Jkpewi1eBebDRrXn50/dVzHys2hBhP
GbnJiDO0GW1ha2VyIDxtYWtlckBleGFtcGxlLm9yZz6IkAQTFgIAOBYhBB7sxb+O
7xf4xNfIxWSSkyzaRAEaBQJlkgCAAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheA
AAoJEGSSkyzaRAEawm0BAIg3LJbK51v1BuEGkCINyY6NnbRRZFpMQtWyffON5g40
AQCkuVNeiHRO07sLQRBJtQfIeeSA+u6ecIjqRwYmnfE4CA==
=ZOGa
-----END PGP PUBLIC KEY BLOCK-----
""",
    signed={
        "2024-01-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQQe7MW/ju8X+MTXyMVkkpMs2kQBGgUCZZIOkBIcbWFrZXJAZXhh
bXBsZS5vcmcACgkQZJKTLNpEARorawD+LydN89VlUxx3Hf2XS5HExNu0UY4k0Kf2
KNH+mkMxKxcBAOQ3aPOdr3EYYxz+2FFRznHAo5KSXTcWOJk++2YgNRQG
=cqRM
-----END PGP SIGNATURE-----
""",
        "2090-01-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQQe7MW/ju8X+MTXyMVkkpMs2kQBGgUC4be/EBIcbWFrZXJAZXhh
bXBsZS5vcmcACgkQZJKTLNpEARqPegD/TNL2Otbe1qkB7RCynAraYR4OSc+fMO4R
YjIl24Mm+KAA/Rsdh1mzxDNNAnqv9qaKgIztHM5VXXZA3YJHEsCrNOoP
=hxEO
-----END PGP SIGNATURE-----
""",
    },
)
SHA1_SHORT = Signer(  # made on 2024-01-01, valid for one day
    fingerprint="70196D584F3732B370753F9E634F03301D21261A",
    key=b"""\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdATnzyCiborCdNVtGTxulXFY4FvXVI4daTGx+4
K4OouwG0GWJyaWVmIDxicmllZkBleGFtcGxlLm9yZz6IlgQTFgIAPhYhBHAZbVhP
NzKzcHU/nmNPAzAdISYaBQJlkgCAAhsDBQkAAVGABQsJCAcCBhUKCQgLAgQWAgMB
Ah4BAheAAAoJEGNPAzAdISYa6dwA/RB7cNll8LzTFbPeORH3WCSW1lrJouvFKbQZ
/EPFZObeAQCbl87ATKYzOCLFu69Ukk5kwS0NwR8Wv0evwXmKJfQYCg==
=bpIP
-----END PGP PUBLIC KEY BLOCK-----
""",
    signed={
        "2024-01-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQRwGW1YTzcys3B1P55jTwMwHSEmGgUCZZIOkBIcYnJpZWZAZXhh
bXBsZS5vcmcACgkQY08DMB0hJhp6lwD+LRJMhn9RDb0gg+ZSThR1m3UOwfDgLZo7
cDZDVIlSTd4BAKwr4VqW+l85zBkdBOD7Gb60FN50GVc++Zo6J69FZUsH
=Q+0q
-----END PGP SIGNATURE-----
""",
        "2024-04-01": b"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA512

Suite: jammy
-----BEGIN PGP SIGNATURE-----

iIgEARYKADAWIQRwGW1YTzcys3B1P55jTwMwHSEmGgUCZgoHEBIcYnJpZWZAZXhh
bXBsZS5vcmcACgkQY08DMB0hJhpFCAEAgrRaO58QwKcDHE+ROJ0HtaCPzuRY67yp
GDiiZyt9ATIA/2OqYmwSORZaOhdWjP8RwPMS594dN6QqWhPfJ4fmbPcH
=fa+B
-----END PGP SIGNATURE-----
""",
    },
)
