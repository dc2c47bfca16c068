"""Hide user names and passwords in URLs."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

_LOGIN = re.compile(r"(?<=://)[^/?#\s\"'`<>]*@")


def mask_logins(text: str) -> str:
    """Replace user names and passwords in URLs with `***`."""
    return _LOGIN.sub("***@", text)


def shown(url: str) -> str:
    """Remove the user name and password from a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as `http://[::1/`
        return mask_logins(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
