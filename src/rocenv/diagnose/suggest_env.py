"""The command that makes an env that works on the machine of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.core.model import Machine, Request
from rocenv.resolve.suggest import resolved_command

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix
    from rocenv.diagnose.facts import Facts

_NAME = "demo"  # of an env that has none yet


def target_of(own: Facts, facts: Facts, matrix: Matrix) -> str:
    """Return the target that a log is about: what the failing lines name, or a card before an APU."""
    for known in (own.get("gfx", ()), facts.get("gfx", ())):
        targets = [target for target in known if target in matrix.targets]
        if known:
            cards = [target for target in targets if matrix.targets[target].kind != "apu"]
            return next(iter([*cards, *targets, *known]))
    return ""


def suggest_env(facts: Facts, matrix: Matrix) -> str:
    """Return the command for the best set for the GPU of a log; "" if that is unknown or there is no set.

    Args:
        facts: Of a log; the first target counts.
        matrix: Which sets there are.
    """
    target = facts.get("gfx", ("",))[0]
    if target not in matrix.targets:
        return ""
    platform = facts.get("platform", ("linux",))[0]
    # On Windows a log that mentions ZLUDA gets a set with it; any other one gets torch for ROCm.
    zluda = "*" if platform == "windows" and facts.get("zluda") else ""
    request = Request(platform=platform, target=target, torch="*", zluda=zluda)
    driver = facts.get("driver", ("",))[0] if platform == "windows" else ""
    return resolved_command(_NAME, request, matrix, Machine(platform=platform, driver=driver))
