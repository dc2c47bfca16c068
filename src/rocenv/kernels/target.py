"""The target that kernels are for: the one that the GPU runs as where the app runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.core.variables import OVERRIDE
from rocenv.host import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocenv.data.rows import Matrix
    from rocenv.prefix import Prefix


def target_for(named: str, envs: Sequence[Prefix], matrix: Matrix, tell: Callable[[str], None]) -> str:
    """Return the target to compile for.

    Args:
        named: By the user; "" = the first of the envs that has one says it, else the GPU in use.
        envs: That the app may run in.
        matrix: The data.
        tell: Takes a line for the user.

    Raises:
        RocenvError: Nothing tells it.
    """
    locks = [(env.name, env.record().lock) for env in envs if env.state == "complete"]
    if named:
        for name, lock in locks[:1]:
            if lock.runs_as and named == lock.target != lock.runs_as:
                tell(
                    f"in the env `{name}` {OVERRIDE} makes the GPU run as {lock.runs_as}: kernels for "
                    f"{named} are not loaded there, those of `--target {lock.runs_as}` are"
                )
        return named
    if found := next((lock.code_target for _, lock in locks if lock.code_target), ""):
        return found
    host = detect(matrix)
    if host.gpu is None:
        raise RocenvError(
            f"no target is named, and no GPU is used here: {host.why}",
            hints=("add `--target gfx1201`, with the target of the GPU that the kernel is for",),
            code="no-gpu",
        )
    return host.gpu.target
