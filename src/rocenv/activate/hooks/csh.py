"""The hook of tcsh.

Aliases are all that tcsh has, and what is in backquotes becomes one line: what the aliases do stands in the
files of the folder `tcsh`, which they source. What the hook remembers is not named `_rocenv_`, as in the
scripts, for that goes when a script ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.activate.shells.csh import typed

if TYPE_CHECKING:
    from rocenv.activate.hooks import Place

_FILES = Path(__file__).with_name("tcsh")


def hook(place: Place) -> str:
    """Return the line for `~/.tcshrc`."""
    words = (str(_FILES / "load.csh"), str(_FILES), place.program, place.envs)
    return " ".join(["''source", *map(typed, words)]) + "\n"
