"""Whose HIP runtime is used where no env is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.prefix import active_env, all_prefixes, prefix_of
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.home import Home
    from rocenv.prefix import Prefix

_SHOWN = 3


def env_for(home: Home, environ: Mapping[str, str], name: str = "") -> Prefix:
    """Return the env `name`, else the one that is active, else the only one with a HIP runtime.

    Raises:
        PrefixError: `name` cannot be a name.
        RocenvError: There is no env with a HIP runtime, or there are several.
    """
    if name:
        return prefix_of(home, name)
    if active := active_env(home, environ):
        return active
    envs = [prefix for prefix in all_prefixes(home) if prefix.state == "complete" and _has_hip(prefix)]
    if len(envs) == 1:
        return envs[0]
    if not envs:
        raise RocenvError(
            "there is no env whose HIP runtime could ask the GPU",
            hints=("`rocenv create NAME --rocm VERSION` makes one",),
            code="no-env",
        )
    raise RocenvError(
        f"there are {len(envs)} envs with a HIP runtime, and none is active: which one's is to ask the GPU?",
        hints=tuple(f"`rocenv mem {shell_join(each.name)} --probe`" for each in envs[:_SHOWN]),
        code="env-not-named",
    )


def _has_hip(prefix: Prefix) -> bool:
    try:
        components = prefix.record_wherever_made().lock.components
    except RocenvError:
        return False
    libraries = [component.layout.libraries for component in components if component.layout is not None]
    return any("hip" in names or "nvcuda" in names for names in libraries)
