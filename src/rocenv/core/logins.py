"""Names and passwords in addresses, which no text shows."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

_LOGIN = re.compile(r"(?<=://)[^/?#\s\"'`<>]*@")


def mask_logins(text: str) -> str:
    """Put `***` in place of the names and passwords that addresses in a text contain."""
    return _LOGIN.sub("***@", text)


def shown(url: str) -> str:
    """Remove the name and password from an address."""
    try:
        parts = urlsplit(url)
    except ValueError:  # `http://[::1/`
        return mask_logins(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
