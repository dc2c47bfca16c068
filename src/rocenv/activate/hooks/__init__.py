"""The code of a shell's start-up file, one module for each shell or family of them.

It gives the shell a function `rocenv`, which sources the script of an env instead of starting a process;
completion; and activation on entering a folder with a `.rocenv` file. What it does is the same everywhere:

- `rocenv activate NAME` sources the env's script, if there is one for this shell in the folder of envs. With
  any other arguments, and where there is none, the program is called, whose message says why.
- `rocenv deactivate` leaves the newest env of this shell; where none is active, the program is called.
- `rocenv trust …` calls the program and has the shell look for a `.rocenv` again.
- Anything else calls the program, arguments and exit code unchanged.
- At each prompt the nearest `.rocenv`, a plain file in this folder or one above it, is looked for. Path and
  first line are compared with those that were seen last; only when they differ, `rocenv trust --check FOLDER`
  is asked for the name of the env. What the hook activated it takes back when that folder is left, if it is
  still the newest env. The exit code of the user's last command stays what it was.
- Completion asks `rocenv complete WORD…` (`commands/complete.py` says what it answers).

Loading it prints nothing, exports nothing and changes no option; loading it twice is loading it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.activate.hooks import batch, csh, elvish, fish, nu, posix, powershell, xonsh

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a hook has to know of the machine."""

    program: str  # absolute path of rocenv, or its bare name
    envs: str  # the folder of envs where ROCENV_HOME is unset or empty; else it is $ROCENV_HOME/envs


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """Where a shell reads the hook."""

    file: str  # the start-up file, as people write it
    line: str  # the one line for it


HOOKS: dict[str, Callable[[Place], str]] = {
    "bash": posix.bash,
    "cmd": batch.hook,
    "dash": posix.plain,
    "elvish": elvish.hook,
    "fish": fish.hook,
    "ksh": posix.plain,
    "nu": nu.hook,
    "powershell": powershell.hook,
    "sh": posix.plain,
    "tcsh": csh.hook,
    "xonsh": xonsh.hook,
    "zsh": posix.zsh,
}

START_UPS: dict[str, StartUp] = {
    "bash": StartUp(file="~/.bashrc", line='eval "$(rocenv hook bash)"'),
    "cmd": StartUp(
        file=r"AutoRun in HKCU\Software\Microsoft\Command Processor (`rocenv hook cmd` saved to a file)",
        line=r'"%USERPROFILE%\rocenv-hook.cmd"',
    ),
    "dash": StartUp(file="the file that ENV names", line='eval "$(rocenv hook dash)"'),
    "elvish": StartUp(file="~/.config/elvish/rc.elv", line="eval (rocenv hook elvish | slurp)"),
    "fish": StartUp(file="~/.config/fish/config.fish", line="rocenv hook fish | source"),
    "ksh": StartUp(file="~/.kshrc", line='eval "$(rocenv hook ksh)"'),
    "nu": StartUp(
        file="config.nu (`$nu.config-path`)",
        line='mkdir $"($nu.data-dir)/vendor/autoload"; '
        'rocenv hook nu | save -f $"($nu.data-dir)/vendor/autoload/rocenv.nu"',
    ),
    "powershell": StartUp(file="$PROFILE", line="rocenv hook powershell | Out-String | Invoke-Expression"),
    "sh": StartUp(file="the file that ENV names", line='eval "$(rocenv hook sh)"'),
    "tcsh": StartUp(file="~/.tcshrc", line='eval "`rocenv hook tcsh`"'),
    "xonsh": StartUp(  # the `$(…)` of 0.13 loses the output of a fast program now and then
        file="~/.xonshrc",
        line="execx(__import__('subprocess').check_output("
        "['rocenv', 'hook', 'xonsh'], env=${...}.detype()).decode())",
    ),
    "zsh": StartUp(file="~/.zshrc", line='eval "$(rocenv hook zsh)"'),
}
