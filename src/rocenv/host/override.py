"""What `HSA_OVERRIDE_GFX_VERSION`, left in the environment, does to the GPUs of a machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.core.model import OVERRIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rocenv.data.knowledge import Override
    from rocenv.host.gpu import Gpu
    from rocenv.host.ranking import Support


def override_notes(
    value: str, gpus: Sequence[Gpu], support: Mapping[str, Support], known: Iterable[Override]
) -> tuple[str, ...]:
    """What to say of an override that does nothing, or harm; it acts on all GPUs alike."""
    stands_for = _target(value)
    if not stands_for:
        return (f"{OVERRIDE}={value} is no version like 10.3.0, and programs refuse it: `unset {OVERRIDE}`",)
    targets = dict.fromkeys(gpu.target for gpu in gpus if gpu.target and gpu.state != "unable")
    rows = [row for row in known if row.target in targets and row.value in (value.strip(), "*")]
    blocked = {row.target: row.note for row in rows if row.verdict == "block"}
    served = {row.target for row in rows if row.verdict in ("ok", "caution")}
    notes = []
    for target in targets:
        if target == stands_for:
            if not served:
                notes.append(f"{OVERRIDE}={value} repeats what {target} is")
        elif target in blocked:
            notes.append(f"{OVERRIDE}={value} is known to go wrong on {target}: {blocked[target]}")
        elif target in support and target not in served:
            notes.append(
                f"{OVERRIDE}={value} passes {target} off as {stands_for}, and {target} needs no override"
            )
    return tuple(f"{note}: `unset {OVERRIDE}`" for note in notes)


def _target(value: str) -> str:
    version = re.fullmatch(r"([0-9]{1,2})\.([0-9]{1,3})\.([0-9]{1,3})", value.strip())
    if not version:
        return ""
    major, minor, step = map(int, version.groups())
    return f"gfx{major}{minor:x}{step:x}"
