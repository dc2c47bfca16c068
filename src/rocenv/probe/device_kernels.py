"""Which package has the kernels for a GPU that an env of ROCm wheels lacks.

AMD's wheels keep the kernels of each target in packages of their own, and a program without them fails with
nothing but `hipErrorInvalidImage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rocenv.core.versions import joined
from rocenv.resolve.request import create_command
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.core.model import ComponentKind, Lock
    from rocenv.prefix import Prefix

# Rung -> the parts whose kernels it uses: the kind, how their packages are called, and the files in them.
# Source: ROCm/TheRock:build_tools/_therock_utils/py_packaging.py; torch wheels of ROCm 7.14 and 10.0
_BLAS: tuple[ComponentKind, str, str] = (
    "rocm",
    "rocm-sdk-device-",
    "_rocm_sdk_libraries/.kpack/*_{target}.kpack",
)
_TORCH: tuple[ComponentKind, str, str] = (
    "torch",
    "amd-torch-device-",
    "torch/.kpack/torch_{target}.kpack",
)
_USES = {"blas": (_BLAS,), "torch": (_BLAS, _TORCH)}


def lacking_kernels(prefix: Prefix, lock: Lock, target: str, rung: str) -> str:
    """Say which kernels for a target a failed rung lacks, who provides them, and the next command; or ""."""
    found = list(_lacking(prefix, lock, target, rung))
    if not found:
        return ""
    files, packages = (joined([f"`{each}`" for each in column]) for column in zip(*found, strict=True))
    locked = {artifact.name for artifact in lock.artifacts}
    if all(package in locked for _, package in found):
        command = shell_join("rocenv", "repair", prefix.name)
    else:
        command = _with_target(prefix, lock, target)
    return f"there are no kernels for {target} in {files}; {packages} would provide them: `{command}`"


def _lacking(prefix: Prefix, lock: Lock, target: str, rung: str) -> Iterator[tuple[str, str]]:
    """Yield the files that are not there, as a pattern, and the package that they are in."""
    for kind, start, pattern in _USES.get(rung, ()):
        part = lock.part(kind)
        names = [each.name for each in part.artifacts] if part else []
        if part is None or part.layout is None or not any(name.startswith(start) for name in names):
            continue
        files = pattern.format(target=target)
        if not any((prefix.path / part.layout.site_packages).glob(files)):
            yield files, f"{start}{target}"


def _with_target(prefix: Prefix, lock: Lock, target: str) -> str:
    """The command that makes the same set with the kernels for one more target."""
    request = lock.request
    rocm = lock.part("rocm")
    more = dict.fromkeys((*request.more_targets, target))
    wanted = replace(request, rocm=rocm.version if rocm else "", more_targets=tuple(more))
    return create_command(prefix.free_name(), wanted, lock.platform)
