"""Shells that can activate an env; each family has a module and its resource files.

Sourcing a script has the same effect as `changes.apply` and is reversible. A script does not start any
process, and does not detect anything at run time: it contains the prefix, and refuses to run if the env no
longer exists there. (cmd is an exception; see `batch.py`.) A script defines `rocenv_deactivate`, and also
`deactivate` unless another tool uses that name; other tools' functions are never replaced.

A hook adds the function `rocenv`, completion, and activation upon entering a folder with a `.rocenv` file:

- `rocenv activate NAME` sources the env's script, if the folder of envs has one for this shell. Otherwise, or
  with other arguments, it calls the program, which reports the reason.
- `rocenv deactivate` deactivates this shell's most recently activated env, or calls the program if none is
  active.
- `rocenv trust ...` calls the program and makes the shell look for a `.rocenv` again.
- Anything else calls the program with the same arguments, and preserves its exit code.
- At each prompt, the hook finds the nearest `.rocenv`, a regular file in the current folder or a parent, and
  compares its path and first line with the previous ones. If they differ, it runs `rocenv trust --check` to
  get the env's name. When the user leaves the folder with that file, the hook deactivates the env that it
  activated, unless another env has been activated since then. The exit code of the user's last command is
  preserved.
- Completion calls `rocenv complete WORD...` (`commands/complete.py` documents the output).

Loading a hook does not print or export anything, and does not change options; loading it again has no effect.
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
    "dash": _plain("dash", "the file named by ENV"),
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
    "sh": _plain("sh", "the file named by ENV"),
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
        hook=Hook(  # in 0.13, `$(...)` sometimes loses the output of a fast program
            file="~/.xonshrc",
            line="execx(__import__('subprocess').check_output("
            "['rocenv', 'hook', 'xonsh'], env=${...}.detype()).decode())",
            render=xonsh.hook,
        ),
    ),
    "zsh": _posix(Hook(file="~/.zshrc", line='eval "$(rocenv hook zsh)"', render=posix.zsh_hook)),
}
HOOKS = {name: shell.hook for name, shell in SHELLS.items() if shell.hook is not None}
