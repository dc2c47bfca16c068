"""The cost of activation and the hook in real shells, in milliseconds.

Each shell runs in its own process without startup files. The cost of sourcing is the difference between a
shell that sources the script and one that sources an empty file.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, NotMeasured, ratio
from rocenv.activate.env import Place
from rocenv.activate.shells import HOOKS, SHELLS

if TYPE_CHECKING:
    from benchmarks.measure import Bench

SOURCING_MS = {"bash": 0.5, "zsh": 0.5, "dash": 0.5, "fish": 0.8, "tcsh": 0}  # limits; 0 means no limit
LMOD = Path("/usr/share/lmod/lmod/init/bash")
ROUNDS = 300
CALLS = 2000
ENVIRON = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
SHELL_ARGV = {
    "bash": ("bash", "--norc"),
    "zsh": ("zsh", "-f"),
    "dash": ("dash",),
    "fish": ("fish", "--no-config"),
    "tcsh": ("tcsh", "-f"),
}
# For comparison: shell -> activation script in a venv's `bin`.
PEERS = {
    "bash": "activate",
    "zsh": "activate",
    "dash": "activate",
    "fish": "activate.fish",
    "tcsh": "activate.csh",
}
# Code that repeats the hook's check for a `.rocenv` file, which runs before each prompt.
LOOKS = {
    "bash": "for ((i = 0; i < {calls}; i++)); do _rocenv_look; done",
    "zsh": "for ((i = 0; i < {calls}; i++)); do _rocenv_look; done",
    "fish": "for i in (seq {calls}); emit fish_prompt; end",
}


def figures(bench: Bench) -> list[Figure]:
    """Measure the installed shells with the env `first`."""
    prefix, here = bench.home / "envs" / "first", bench.folder / "shells"
    here.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", here / "venv"], check=True)
    shells = [each for each in SOURCING_MS if shutil.which(each)]
    return [
        *(sourcing_figure(shell, sourcing(shell, prefix, here)) for shell in shells),
        *look_figures([each for each in LOOKS if each in shells], here),
        function_figure(prefix, here),
        *module_figure(prefix, here),
    ]


def sourcing_figure(shell: str, times: dict[str, float]) -> Figure:
    limit = SOURCING_MS[shell]
    return Figure(
        what=f"sourcing the script in {shell}, in addition to {times['bare']:.2f} ms for the shell",
        ours=times["ours"],
        unit="ms",
        reference="setting PATH alone" if "path" in times else "a venv's script",
        reference_value=times.get("path", times["venv"]),
        goal=f"<= {limit} ms" if limit else "",
        limit=limit,
    )


def look_figures(shells: list[str], here: Path) -> list[Figure]:
    direnv = (
        by_turns({"direnv": ("direnv", "export", "bash")}, here, rounds=60)["direnv"]
        if shutil.which("direnv")
        else 0
    )
    return [
        Figure(
            what=f"{shell}'s prompt hook, nothing changed",
            ours=look(shell, here),
            unit="ms",
            reference="direnv export" if direnv else "",
            reference_value=direnv,
            goal="<= 0.1 ms",
            limit=0.1,
        )
        for shell in shells
    ]


def sourcing(shell: str, prefix: Path, here: Path) -> dict[str, float]:
    """Return a shell's startup time, and the time added by our script, a venv's script, or setting PATH."""
    scripts = {
        "bare": here / "empty",
        "ours": prefix / SHELLS[shell].file_name,
        "venv": here / "venv/bin" / PEERS[shell],
    }
    scripts["bare"].touch()
    argvs = {}
    for name, script in scripts.items():
        file = here / f"{shell}.{name}"
        first = "set prompt='> '\n" if shell == "tcsh" else ""  # required by a venv's script
        file.write_text(f"{first}{'source' if shell in ('fish', 'tcsh') else '.'} {script}\n")
        argvs[name] = (*SHELL_ARGV[shell], str(file))
    if shell == "tcsh":  # tcsh reads all folders whenever PATH changes
        argvs["path"] = (*SHELL_ARGV[shell], str(here / "tcsh.path"))
        (here / "tcsh.path").write_text(f"{first}setenv PATH {prefix}/bin:${{PATH}}\n")
    times = by_turns(argvs, here)
    return {name: value if name == "bare" else value - times["bare"] for name, value in times.items()}


def look(shell: str, here: Path) -> float:
    """Return how long a check for `.rocenv` takes, five folders deep, if nothing has changed."""
    deep = here.joinpath("a", "b", "c", "d")
    deep.mkdir(parents=True, exist_ok=True)
    hook = here / f"hook.{shell}"
    hook.write_text(HOOKS[shell].render(Place(program="rocenv", envs=str(here))))
    argvs = {}
    for name, calls in (("none", 1), ("many", CALLS)):
        file = here / f"{shell}.{name}"
        loop = LOOKS[shell].format(calls=calls)
        file.write_text(f"{'source' if shell == 'fish' else '.'} {hook}\ncd {deep}\n{loop}\n")
        argvs[name] = (*SHELL_ARGV[shell], str(file))
    times = by_turns(argvs, here, rounds=9)
    return (times["many"] - times["none"]) / (CALLS - 1)


def function_figure(prefix: Path, here: Path) -> Figure:
    """Compare the hook's `rocenv activate` function with starting a Python process."""
    hook, bare, active = here / "hook", here / "bare", here / "active"
    hook.write_text(HOOKS["bash"].render(Place(program="rocenv", envs=str(prefix.parent))))
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
    took = times["active"] - times["bare"]
    return ratio(
        "`rocenv activate` in bash, the hook's function", took, "ms", "python -c pass", times["python"], 1
    )


def by_turns(argvs: dict[str, tuple[str, ...]], folder: Path, rounds: int = ROUNDS) -> dict[str, float]:
    """Run the commands in turn, and return the median time of each in milliseconds."""
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
                raise NotMeasured(f"{argv} exited with status {status}")
            if round_number >= 3:
                times[name].append(1000 * seconds)
    return {name: statistics.median(row) for name, row in times.items()}


def module_figure(prefix: Path, here: Path) -> list[Figure]:
    """Compare loading an env's module with loading an empty one, in bash with Lmod."""
    if not LMOD.exists():
        return []
    (here / "modules").mkdir(exist_ok=True)
    module = here / "modules" / "ours.lua"
    export = (sys.executable, "-m", "rocenv", "export", prefix.name, "--to", "lmod", "--at", str(prefix))
    home = {**os.environ, "ROCENV_HOME": str(prefix.parents[1])}
    subprocess.run([*export, "-o", str(module)], env=home, check=True, capture_output=True)
    module.with_name("empty.lua").write_text("")
    argvs: dict[str, tuple[str, ...]] = {}
    for name in ("ours", "empty"):
        file = here / f"module.{name}"
        file.write_text(f". {LMOD}\nmodule use {module.parent}\nmodule load {name}\n")
        argvs[name] = ("bash", "--norc", str(file))
    times = by_turns(argvs, here, rounds=30)
    return [ratio("a module load", times["ours"], "ms", "an empty module", times["empty"], 1.3)]
