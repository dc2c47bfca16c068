"""The command that makes a set which works, for what a log says about the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.model import Machine, Request
from rocenv.resolve import options, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.matrix.rows import Matrix

_NAME = "demo"  # of an env that has none yet


def create_command(facts: Mapping[str, tuple[str, ...]], matrix: Matrix) -> str:
    """Return the command for the best set for the GPU of a log, "" where that is not known or there is none.

    A log of Windows that mentions ZLUDA gets a set with ZLUDA; every other one gets one with torch.
    """
    targets = [target for target in facts.get("gfx", ()) if target in matrix.targets]
    if not targets:
        return ""
    cards = [target for target in targets if matrix.targets[target].kind != "apu"]
    platform = "windows" if "windows" in facts.get("platform", ()) else "linux"
    request = Request(
        platform=platform,
        target=(cards or targets)[0],
        torch="*",
        zluda="*" if platform == "windows" and facts.get("zluda") else "",
    )
    driver = facts.get("driver", ("",))[0] if platform == "windows" else ""
    try:
        next(resolve(request, matrix, Machine(platform=platform, driver=driver)))
    except (RocenvError, StopIteration):
        return ""
    told = options(request, here=platform)
    return f"rocenv create {_NAME} {told.replace(' --torch', '') if request.zluda else told}"
