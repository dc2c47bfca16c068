"""How variables are set and taken away in the shell that called, as people type it."""

from __future__ import annotations

from rocenv.activate.shells import SHELLS
from rocenv.core.template import fill

# {name} and {value}, which comes quoted; what is not here is as in sh.
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


def setting(shell: str, name: str, value: str) -> str:
    """Return what sets a variable for this shell and what it starts."""
    quoted = value if shell == "cmd" else SHELLS[shell].quote(value)
    words = _SET.get(shell, "export {name}={value}")
    return fill(words, {"name": name, "value": quoted})


def unsetting(shell: str, name: str) -> str:
    """Return what takes a variable away."""
    return fill(_UNSET.get(shell, "unset {name}"), {"name": name})
