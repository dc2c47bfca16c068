"""Who called: the program that started this one."""

from __future__ import annotations

import os

from rocenv.system.machine import read_text


def parent_name() -> str:
    """Return the name of the program that started this one, "" where it cannot be told.

    The kernel keeps its first 15 bytes, and a program may change it.
    """
    return (read_text(f"/proc/{os.getppid()}/comm") or "").rstrip("\n")
