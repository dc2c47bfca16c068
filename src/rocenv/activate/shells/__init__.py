"""The shells that can activate an env, one module and its resource files for each family of them.

A script has the effect of `changes.apply` when it is sourced, and provides a way back. It starts no process.
It finds nothing out when it runs: the prefix is written into it, and it refuses when the env does not exist
there any more. (One exception, for cmd: see `batch.py`.) It defines `rocenv_deactivate`, and `deactivate`
where no other tool has that name; a tool's own function is never replaced.

A hook gives a shell a function `rocenv`, completion, and activation on entering a folder with a `.rocenv`:

- `rocenv activate NAME` sources the env's script, if there is one for this shell in the folder of envs. With
  any other arguments, and where there is none, it calls the program, whose message says why.
- `rocenv deactivate` leaves the newest env of this shell; where none is active, it calls the program.
- `rocenv trust ...` calls the program and has the shell look for a `.rocenv` again.
- Anything else calls the program, arguments and exit code unchanged.
- At each prompt it looks for the nearest `.rocenv`, a plain file in this folder or one above it, and compares
  path and first line with those that it saw last; only when they differ, it asks `rocenv trust --check` for
  the name of the env. What the hook activated it takes back when that folder is left, if it is still the
  newest env. The exit code of the user's last command stays what it was.
- Completion asks `rocenv complete WORD...` (`commands/complete.py` says what it answers).

Loading a hook prints nothing, exports nothing and changes no option; loading it twice is loading it once.
"""

from __future__ import annotations

from rocenv.activate.env import Hook, Shell
from rocenv.activate.shells import batch, csh, elvish, fish, nu, posix, powershell, xonsh

_LINUX, _WINDOWS = ("linux",), ("windows",)


def _posix(hook: Hook) -> Shell:
    return Shell(
        file_name="activate",
        platforms=_LINUX,
        quote=posix.quote,
        source=posix.source,
        files=posix.files,
        hook=hook,
    )


def _plain(name: str, file: str) -> Shell:
    return _posix(Hook(file=file, line=f'eval "$(rocenv hook {name})"', render=posix.plain_hook))


SHELLS: dict[str, Shell] = {
    "bash": _posix(Hook(file="~/.bashrc", line='eval "$(rocenv hook bash)"', render=posix.bash_hook)),
    "cmd": Shell(
        file_name=batch.FILE,
        platforms=_WINDOWS,
        quote=batch.quote,
        source=batch.source,
        files=batch.files,
        encode=batch.encode,
        hook=Hook(
            file=r"AutoRun in HKCU\Software\Microsoft\Command Processor (`rocenv hook cmd` saved to a file)",
            line=r'"%USERPROFILE%\rocenv-hook.cmd"',
            render=batch.hook,
        ),
    ),
    "dash": _plain("dash", "the file that ENV names"),
    "elvish": Shell(
        file_name=elvish.FILE,
        platforms=_LINUX,
        quote=elvish.quote,
        source=elvish.source,
        files=elvish.files,
        encode=str.encode,
        hook=Hook(
            file="~/.config/elvish/rc.elv", line="eval (rocenv hook elvish | slurp)", render=elvish.hook
        ),
    ),
    "fish": Shell(
        file_name=fish.FILE,
        platforms=_LINUX,
        quote=fish.quote,
        source=fish.source,
        files=fish.files,
        hook=Hook(file="~/.config/fish/config.fish", line="rocenv hook fish | source", render=fish.hook),
    ),
    "ksh": _plain("ksh", "~/.kshrc"),
    "msys": Shell(
        file_name="activate",
        platforms=_WINDOWS,
        quote=posix.quote,
        source=posix.windows_source,
        files=posix.windows_files,
    ),
    "nu": Shell(
        file_name=nu.FILE,
        platforms=_LINUX,
        quote=nu.quote,
        source=nu.source,
        files=nu.files,
        hook=Hook(
            file="config.nu (`$nu.config-path`)",
            line='mkdir $"($nu.data-dir)/vendor/autoload"; '
            'rocenv hook nu | save -f $"($nu.data-dir)/vendor/autoload/rocenv.nu"',
            render=nu.hook,
        ),
    ),
    "powershell": Shell(
        file_name=powershell.FILE,
        platforms=(*_LINUX, *_WINDOWS),
        quote=powershell.quote,
        source=powershell.source,
        files=powershell.files,
        encode=powershell.encode,
        hook=Hook(
            file="$PROFILE",
            line="rocenv hook powershell | Out-String | Invoke-Expression",
            render=powershell.hook,
        ),
    ),
    "sh": _plain("sh", "the file that ENV names"),
    "tcsh": Shell(
        file_name=csh.FILE,
        platforms=_LINUX,
        quote=csh.quote,
        source=csh.source,
        files=csh.files,
        hook=Hook(file="~/.tcshrc", line='eval "`rocenv hook tcsh`"', render=csh.hook),
    ),
    "xonsh": Shell(
        file_name=xonsh.FILE,
        platforms=_LINUX,
        quote=xonsh.quote,
        source=xonsh.source,
        files=xonsh.files,
        encode=xonsh.encode,
        hook=Hook(  # the `$(...)` of 0.13 loses the output of a fast program now and then
            file="~/.xonshrc",
            line="execx(__import__('subprocess').check_output("
            "['rocenv', 'hook', 'xonsh'], env=${...}.detype()).decode())",
            render=xonsh.hook,
        ),
    ),
    "zsh": _posix(Hook(file="~/.zshrc", line='eval "$(rocenv hook zsh)"', render=posix.zsh_hook)),
}
HOOKS = {name: shell.hook for name, shell in SHELLS.items() if shell.hook is not None}
