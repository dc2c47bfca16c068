"""The shell that called, as far as it can be told, and what people type there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.shells import SHELLS
from rocenv.system.machine import parent_name

if TYPE_CHECKING:
    from collections.abc import Collection

# What programs are called beside their names in `SHELLS`.
_ALSO = {"csh": "tcsh", "ksh93": "ksh", "mksh": "ksh", "pwsh": "powershell"}


def calling_shell(platform: str) -> str:
    """Return the name in `SHELLS` of the shell that called; where that is unknown, the usual one."""
    serving = [name for name, shell in SHELLS.items() if platform in shell.platforms]
    return _known(serving) or ("cmd" if platform == "windows" else "sh")


def hook_advice(command: str) -> str:
    """Return how a command of rocenv works by itself in the shell that called."""
    from rocenv.activate.shells import HOOKS

    name = _known(HOOKS)
    if not name:
        return f"to have `rocenv {command}` work by itself, see `rocenv hook --help`"
    start_up = HOOKS[name]
    return f"to have `rocenv {command}` work by itself, put this line into {start_up.file}:  {start_up.line}"


def _known(names: Collection[str]) -> str:
    """Return what the calling shell is called among these names, "" if it is none of them."""
    called = parent_name().lstrip("-")  # a login shell may call itself so
    return next((name for name in (called, _ALSO.get(called, "")) if name and name in names), "")
