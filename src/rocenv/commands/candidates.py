"""What the parameters of the verbs may be, for completion: as click's `shell_complete=` wants it."""

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

    from rocenv.data.releases import TorchSet
    from rocenv.data.rows import Matrix

_HERE = "windows" if WINDOWS else "linux"


def env_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the complete envs, without reading what they consist of."""
    envs = Context().home.envs
    try:
        names = sorted(name for name in os.listdir(envs) if not name.startswith("."))
    except OSError:
        return []
    return [name for name in _starting(names, incomplete) if (envs / name / ".rocenv/record.json").exists()]


def targets(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a target, or the last of several, with the products that each one is."""
    first = incomplete[: incomplete.rfind(",") + 1]
    names = {f"{first}{name}": row.products for name, row in Context().matrix.targets.items()}
    return _told(names, incomplete)


def rocm_versions(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the releases that sets are made of."""
    matrix, platform = Context().matrix, _platform(context)
    found = {row.version for row in matrix.rocm_wheels if platform in ("", row.platform)}
    found.update(row.version for row in matrix.rocm if platform != "windows")
    found.update(row.version for row in matrix.hip_sdk if platform != "linux")
    return _newest_first(found, incomplete)


def zluda_versions(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the builds of ZLUDA."""
    return _newest_first({row.version for row in Context().matrix.zluda}, incomplete)


def torch_versions(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the releases of torch that go with some set."""
    matrix, platform = Context().matrix, _platform(context)
    return _newest_first({row.version for row in _torch_rows(matrix, platform)}, incomplete)


def _torch_rows(matrix: Matrix, platform: str) -> list[TorchSet]:
    """Return the rows of torch for a platform; those that use ROCm's wheels are where these are."""
    places = {(row.channel, row.platform) for row in matrix.rocm_wheels}
    return [
        row
        for row in matrix.torch
        if not platform
        or (row.channel, platform) in places
        or (not row.channel and platform == ("linux" if row.rocm else "windows"))
    ]


def pythons(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the Pythons that wheels of torch are made for."""
    matrix, platform = Context().matrix, _platform(context)
    found = {each for row in matrix.rocm_wheels if platform in ("", row.platform) for each in row.python}
    for row in _torch_rows(matrix, platform):
        found.update(row.python)
    return _newest_first(found, incomplete)


def channels(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the channels of sets, with their titles."""
    from rocenv.resolve.windows import channel_of

    matrix, platform = Context().matrix, _platform(context)
    here = {row.channel for row in matrix.rocm_wheels if platform in ("", row.platform)}
    found = {row.name: row.title for row in matrix.channels.values() if row.name in here}
    found |= {channel_of(row): "" for row in matrix.hip_sdk if platform != "linux"}
    if platform != "windows":
        found |= {row.name: row.title for row in matrix.channels.values() if row.repos}
    return _told(found, incomplete)


def apps(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the apps that `launch` knows, with their titles."""
    return _told({row.key: row.title for row in Context().matrix.launcher}, incomplete)


def memory_programs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the programs whose settings for GPU memory are known."""
    return _starting(sorted({row.program for row in Context().matrix.setting}), incomplete)


def sizes(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return amounts of memory that cards are sold with."""
    return _starting((f"{gib}GiB" for gib in (4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 128)), incomplete)


def contexts(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return lengths of context that models are run with."""
    return _starting((str(1 << power) for power in range(11, 18)), incomplete)


def limits(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return amounts of memory, and shares of what is free."""
    return [*_starting(("50%", "80%", "90%"), incomplete), *sizes(context, parameter, incomplete)]


def shells(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the shells that can activate envs of this machine."""
    from rocenv.activate.shells import SHELLS

    return _starting((name for name, shell in SHELLS.items() if _HERE in shell.platforms), incomplete)


def things(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return what `explain` can be asked for: the words that stand alone, and products once one is begun."""
    from rocenv.explain import KINDS

    if context.params.get("thing"):
        return []
    matrix = Context().matrix
    kinds = [kind for name, kind in KINDS.items() if incomplete or name != "product"]
    return _starting((name for kind in kinds for name in kind.names(matrix)), incomplete)


def setting_keys(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of settings: those there can be, and the mirrors that there are."""
    from rocenv.commands.resolve import DEFAULTS

    keys = ["home.shared", *(f"defaults.{name}" for name in DEFAULTS)]
    keys += ["mirrors", *(f"mirrors.{prefix}" for prefix, _ in Context().config.mirrors)]
    return _starting(keys, incomplete)


def checks(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the checks of `doctor` for this system."""
    from rocenv.checks.table import CHECKS

    return _starting((each.name for each in CHECKS if each.platform in (_HERE, "any")), incomplete)


def _platform(context: click.Context) -> str:
    """Return the platform that is asked for, else this machine's; "" where rows of both are shown."""
    asked = context.params.get("platform") or ""
    return str(asked) if asked or context.info_name == "matrix" else _HERE


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _newest_first(versions: Iterable[str], incomplete: str) -> list[str]:
    def numbers(version: str) -> list[int]:
        return [int(number) for number in re.findall("[0-9]+", version)]

    return _starting(sorted(versions, key=numbers, reverse=True), incomplete)


def _told(helps: dict[str, str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=text) for name, text in helps.items() if name.startswith(incomplete)]
