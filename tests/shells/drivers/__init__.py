"""The shells in which the checklist runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.shells.drivers import csh, elvish, fish, nu, posix, xonsh

if TYPE_CHECKING:
    from tests.shells.driver import Driver

DRIVERS: dict[str, Driver] = {
    "bash": posix.Bash(),
    "zsh": posix.Zsh(),
    "dash": posix.Dash(),
    "ksh": posix.Ksh(),
    "fish": fish.Fish(),
    "tcsh": csh.Tcsh(),
    "nu": nu.Nu(),
    "elvish": elvish.Elvish(),
    "xonsh": xonsh.Xonsh(),
}
