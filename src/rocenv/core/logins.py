"""Names and passwords in addresses, which texts must not show."""

from __future__ import annotations

import re

_LOGIN = re.compile(r"(?<=://)[^/?#\s\"'`<>]*@")


def mask_logins(text: str) -> str:
    """Put `***` in place of the names and passwords that addresses in a text contain."""
    return _LOGIN.sub("***@", text)
