"""Values for shell completion: functions for click's `shell_complete=`."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.context import Context
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click
    from click.shell_completion import CompletionItem

_HERE = "windows" if WINDOWS else "linux"


def env_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an env's name without reading its record."""
    envs = Context().home.envs
    try:
        names = sorted(name for name in os.listdir(envs) if not name.startswith("."))
    except OSError:
        return []
    return [name for name in _matching(names, incomplete) if (envs / name / ".rocenv/record.json").exists()]


def targets(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a target, or the last one in a list, with its products as help."""
    first = incomplete[: incomplete.rfind(",") + 1]
    names = {f"{first}{name}": row.products for name, row in Context().matrix.targets.items()}
    return _with_help(names, incomplete)


def rocm_versions(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a ROCm version."""
    matrix, platform = Context().matrix, _platform(context)
    found = {row.version for row in matrix.rocm_wheels if platform in ("", row.platform)}
    found.update(row.version for row in matrix.rocm if platform != "windows")
    found.update(row.version for row in matrix.hip_sdk if platform != "linux")
    return _newest_first(found, incomplete)


def zluda_versions(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a ZLUDA build."""
    return _newest_first({row.version for row in Context().matrix.zluda}, incomplete)


def torch_versions(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a PyTorch version."""
    from rocenv.explain.selection import torch_for

    found = torch_for(Context().matrix, _platform(context))
    return _newest_first({row.version for row in found}, incomplete)


def pythons(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a Python version for which PyTorch has wheels."""
    from rocenv.explain.selection import torch_for

    matrix, platform = Context().matrix, _platform(context)
    found = {each for row in matrix.rocm_wheels if platform in ("", row.platform) for each in row.python}
    for row in torch_for(matrix, platform):
        found.update(row.python)
    return _newest_first(found, incomplete)


def channels(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a channel, with its title as help."""
    from rocenv.resolve.windows import channel_of

    matrix, platform = Context().matrix, _platform(context)
    here = {row.channel for row in matrix.rocm_wheels if platform in ("", row.platform)}
    found = {row.name: row.title for row in matrix.channels.values() if row.name in here}
    found |= {channel_of(row): "" for row in matrix.hip_sdk if platform != "linux"}
    if platform != "windows":
        found |= {row.name: row.title for row in matrix.channels.values() if row.repos}
    return _with_help(found, incomplete)


def apps(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete an app's name, with its title as the help text."""
    return _with_help({row.key: row.title for row in Context().matrix.launcher}, incomplete)


def memory_programs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a program whose GPU memory settings are known."""
    return _matching(sorted({row.program for row in Context().matrix.setting}), incomplete)


def sizes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a memory size with the sizes of real cards."""
    return _matching((f"{gib}GiB" for gib in (4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 128)), incomplete)


def contexts(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a context length for language models."""
    return _matching((str(1 << power) for power in range(11, 18)), incomplete)


def limits(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete an amount of memory, or a fraction of the free memory."""
    return [*_matching(("50%", "80%", "90%"), incomplete), *sizes(context, parameter, incomplete)]


def shells(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a shell that runs on this platform."""
    from rocenv.activate.shells import SHELLS

    return _matching((name for name, shell in SHELLS.items() if _HERE in shell.platforms), incomplete)


def things(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete `explain` topics; offer products only once the user has typed something."""
    from rocenv.explain import KINDS

    if context.params.get("thing"):
        return []
    matrix = Context().matrix
    kinds = [kind for name, kind in KINDS.items() if incomplete or name not in ("product", "unsupported")]
    return _matching((name for kind in kinds for name in kind.names(matrix)), incomplete)


def setting_keys(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a settings key: any option, or a mirror that is set."""
    from rocenv.config import DEFAULTS

    keys = ["home.shared", *(f"defaults.{name}" for name in DEFAULTS)]
    keys += ["mirrors", *(f"mirrors.{prefix}" for prefix, _ in Context().config.mirrors)]
    return _matching(keys, incomplete)


def origins(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a download source's name."""
    return _matching((row.name for row in Context().matrix.origin), incomplete)


def mirrors(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a known mirror's name."""
    return _matching((row.name for row in Context().matrix.mirror), incomplete)


def checks(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a `doctor` check for this system."""
    from rocenv.checks.table import CHECKS

    return _matching((each.name for each in CHECKS if each.platform in (_HERE, "any")), incomplete)


def _platform(context: click.Context) -> str:
    """Return the `--platform` value; the default is this machine's, or "" (both) for `matrix`."""
    named = context.params.get("platform") or ""
    return str(named) if named or context.info_name == "matrix" else _HERE


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _newest_first(versions: Iterable[str], incomplete: str) -> list[str]:
    def numbers(version: str) -> list[int]:
        return [int(number) for number in re.findall("[0-9]+", version)]

    return _matching(sorted(versions, key=numbers, reverse=True), incomplete)


def _with_help(helps: dict[str, str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=text) for name, text in helps.items() if name.startswith(incomplete)]
