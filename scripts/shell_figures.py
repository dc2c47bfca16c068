"""Times of activation in real shells, in milliseconds; JSON on stdout. Takes the prefix of an env.

What is compared runs by turns, each as a process of its own without start-up files; the median counts. What
sourcing costs is a difference: a shell that sources a script against one that sources an empty file.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rocenv.activate.hooks import HOOKS, Place
from rocenv.activate.shells import SHELLS

ROUNDS = 300
CALLS = 2000
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
SHELL_ARGV = {
    "bash": ("bash", "--norc"),
    "zsh": ("zsh", "-f"),
    "dash": ("dash",),
    "ksh": ("ksh",),
    "fish": ("fish", "--no-config"),
    "tcsh": ("tcsh", "-f"),
}
# The same of others: shell -> script below the `bin` of a venv.
PEERS = {
    "bash": "activate",
    "zsh": "activate",
    "dash": "activate",
    "ksh": "activate",
    "fish": "activate.fish",
    "tcsh": "activate.csh",
}
# How a shell is made to look for a `.rocenv` many times, as before so many prompts.
LOOKS = {
    "bash": "for ((i = 0; i < {calls}; i++)); do _rocenv_look; done",
    "zsh": "for ((i = 0; i < {calls}; i++)); do _rocenv_look; done",
    "fish": "for i in (seq {calls}); emit fish_prompt; end",
}


def main() -> int:
    """Measure and print."""
    prefix = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", here / "venv"], check=True)
        found = {
            shell: sourcing(shell, prefix, here)
            for shell in SHELL_ARGV
            if shell in SHELLS and shutil.which(shell)
        }
        print(
            json.dumps(
                {
                    "sourcing_ms": found,
                    "look_ms": {shell: look(shell, here) for shell in LOOKS if shell in found},
                    "direnv_ms": direnv(here),
                    **function(prefix, here),
                }
            )
        )
    return 0


def sourcing(shell: str, prefix: Path, here: Path) -> dict[str, float]:
    """Return the time of a bare shell, and what our script, a venv's, or PATH alone adds to it."""
    scripts = {
        "bare": here / "empty",
        "ours": prefix / SHELLS[shell].file_name,
        "venv": here / "venv/bin" / PEERS[shell],
    }
    scripts["bare"].touch()
    argvs = {}
    for name, script in scripts.items():
        file = here / f"{shell}.{name}"
        first = "set prompt='> '\n" if shell == "tcsh" else ""  # a venv's script fails without
        file.write_text(f"{first}{'source' if shell in ('fish', 'tcsh') else '.'} {script}\n")
        argvs[name] = (*SHELL_ARGV[shell], str(file))
    if shell == "tcsh":  # each change of PATH makes it read all folders of it
        argvs["path"] = (*SHELL_ARGV[shell], str(here / "tcsh.path"))
        (here / "tcsh.path").write_text(f"{first}setenv PATH {prefix}/bin:${{PATH}}\n")
    times = by_turns(argvs, here)
    return {name: value if name == "bare" else value - times["bare"] for name, value in times.items()}


def look(shell: str, here: Path) -> float:
    """Return what looking for a `.rocenv` takes where nothing has changed, five folders deep."""
    deep = here.joinpath("a", "b", "c", "d")
    deep.mkdir(parents=True, exist_ok=True)
    hook = here / f"hook.{shell}"
    hook.write_text(HOOKS[shell](Place(program="rocenv", envs=str(here))))
    argvs = {}
    for name, calls in (("none", 1), ("many", CALLS)):
        file = here / f"{shell}.{name}"
        loop = LOOKS[shell].format(calls=calls)
        file.write_text(f"{'source' if shell == 'fish' else '.'} {hook}\ncd {deep}\n{loop}\n")
        argvs[name] = (*SHELL_ARGV[shell], str(file))
    times = by_turns(argvs, here, rounds=9)
    return (times["many"] - times["none"]) / (CALLS - 1)


def direnv(here: Path) -> float | None:
    """Return what direnv takes at a prompt where nothing has changed; None = it is not here."""
    if shutil.which("direnv") is None:
        return None
    return by_turns({"direnv": ("direnv", "export", "bash")}, here, rounds=60)["direnv"]


def function(prefix: Path, here: Path) -> dict[str, float]:
    """Return what `rocenv activate` takes as the hook's function, and what the least Python process does."""
    hook, bare, active = here / "hook", here / "bare", here / "active"
    hook.write_text(HOOKS["bash"](Place(program="rocenv", envs=str(prefix.parent))))
    bare.write_text(f". {hook}\n")
    active.write_text(f". {hook}\nrocenv activate {prefix.name}\n")
    times = by_turns(
        {
            "bare": ("bash", "--norc", str(bare)),
            "active": ("bash", "--norc", str(active)),
            "python": (sys.executable, "-c", "pass"),
        },
        here,
    )
    return {"function_ms": times["active"] - times["bare"], "python_ms": times["python"]}


def by_turns(argvs: dict[str, tuple[str, ...]], folder: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the median time of each command, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in argvs}
    programs = {name: shutil.which(argv[0]) or argv[0] for name, argv in argvs.items()}
    environ = {**ENVIRON, "HOME": str(folder)}
    for round_number in range(rounds + 3):
        for name, argv in argvs.items():
            start = time.perf_counter()
            pid = os.posix_spawn(programs[name], argv, environ)
            _, status = os.waitpid(pid, 0)
            seconds = time.perf_counter() - start
            if status:
                raise SystemExit(f"{argv} ended with {status}")
            if round_number >= 3:
                times[name].append(1000 * seconds)
    return {name: statistics.median(row) for name, row in times.items()}


if __name__ == "__main__":
    sys.exit(main())
