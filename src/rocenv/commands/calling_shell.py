"""The shell that called rocenv, and its syntax for setting variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.activate.shells import HOOKS, SHELLS
from rocenv.core.template import fill
from rocenv.system import WINDOWS
from rocenv.system.machine import parent_name

if TYPE_CHECKING:
    from collections.abc import Collection

# Program names that differ from the names in `SHELLS`.
_ALIASES = {"csh": "tcsh", "ksh93": "ksh", "mksh": "ksh", "pwsh": "powershell"}
# The commands that set and unset a variable; {value} is quoted. Other shells use sh syntax.
_SET = {
    "cmd": 'set "{name}={value}"',
    "elvish": "set-env {name} {value}",
    "fish": "set -gx {name} {value}",
    "nu": "$env.{name} = {value}",
    "powershell": "$env:{name} = {value}",
    "tcsh": "setenv {name} {value}",
    "xonsh": "${name} = {value}",
}
_UNSET = {
    "cmd": 'set "{name}="',
    "elvish": "unset-env {name}",
    "fish": "set -e {name}",
    "nu": "hide-env {name}",
    "powershell": "Remove-Item Env:{name}",
    "tcsh": "unsetenv {name}",
    "xonsh": "del ${name}",
}


def calling_shell(platform: str = "windows" if WINDOWS else "linux") -> str:
    """Return the calling shell's name in `SHELLS`, or the platform's default shell if it is unknown."""
    names = [name for name, shell in SHELLS.items() if platform in shell.platforms]
    return _detect(names) or ("cmd" if platform == "windows" else "sh")


def hook_advice(command: str) -> str:
    """Return advice on how to make a rocenv command change the calling shell directly."""
    name = _detect(HOOKS)
    if not name:
        return f"to make `rocenv {command}` work directly, see `rocenv hook --help`"
    hook = HOOKS[name]
    return f"to make `rocenv {command}` work directly, add this line to {hook.file}:  {hook.line}"


def _detect(names: Collection[str]) -> str:
    """Return the calling shell if it is in `names`, otherwise ""."""
    called = parent_name().lstrip("-")  # the name of a login shell may start with a dash
    return next((name for name in (called, _ALIASES.get(called, "")) if name and name in names), "")


def set_variable(shell: str, name: str, value: str) -> str:
    """Return the command that exports a variable."""
    quoted = value if shell == "cmd" else SHELLS[shell].quote(value)
    return fill(_SET.get(shell, "export {name}={value}"), {"name": name, "value": quoted})


def unset_variable(shell: str, name: str) -> str:
    """Return the command that unsets a variable."""
    return fill(_UNSET.get(shell, "unset {name}"), {"name": name})
