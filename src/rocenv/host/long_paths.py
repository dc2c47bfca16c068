r"""Whether Windows holds programs to 260 characters for a path.

Source: learn.microsoft.com, "Maximum Path Length Limitation": `LongPathsEnabled` lifts it from Windows 10
1607 on, for programs that say they can take it.
"""

from __future__ import annotations

from rocenv.host.registry import values

_FILE_SYSTEM = r"SYSTEM\CurrentControlSet\Control\FileSystem"


def limited() -> bool | None:
    """Whether the limit holds; None where that is not known."""
    found = values(_FILE_SYSTEM)
    return None if found is None else found.get("LongPathsEnabled") != 1
