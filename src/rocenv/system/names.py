"""Names that Windows gives a meaning of its own."""

from __future__ import annotations

import re

# Source: learn.microsoft.com, "Naming Files, Paths, and Namespaces"
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\..*)?", re.I)


def is_device(name: str) -> bool:
    """Tell whether Windows takes the name of a file, in any folder, for a device."""
    return _DEVICE.fullmatch(name) is not None
