"""Programs that an app looks for on PATH before it takes kernels that are ready: scripts that are as good."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix import quote
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocenv.compilers import Toolchain
    from rocenv.data.recipes import StandIn

_FINDER = """\
#!/bin/sh
# rocenv: there was no `which` on PATH
for name; do
  command -v -- "$name" || exit 1
done
"""
_COMPILER = """\
#!/bin/sh
# rocenv: the compiler of `{name}` under the name that {made_for}
[ -x {program} ] || {{ printf '%s\\n' {gone} >&2; exit 1; }}
# What `--genco` of hipcc stands for.
for word; do
  shift
  case $word in --genco) word=--cuda-device-only ;; esac
  set -- "$@" "$word"
done
exec {start} "$@"
"""


def write_stand_ins(folder: Path, wanted: Sequence[StandIn], toolchain: Toolchain) -> Path:
    """Write the scripts, executable, into a folder of their own, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in wanted:
        text = _FINDER if each.kind == "finder" else _compiler(toolchain)
        write_atomic(folder / each.name, os.fsencode(text))
        (folder / each.name).chmod(0o755)
    return folder


def _compiler(toolchain: Toolchain) -> str:
    own = ["-x", "hip", "-O3"]
    if toolchain.device_libs is not None:
        own.append(f"--rocm-device-lib-path={toolchain.device_libs}")
    if toolchain.include is not None:
        own.append(f"--rocm-path={toolchain.include.parent}")
    start = toolchain.run_argv(toolchain.clang, *own)
    gone = f"rocenv: the compiler of `{toolchain.name}` is gone; make the kernels again"
    return _COMPILER.format(
        name=toolchain.name,
        made_for="apps look for",
        program=quote(start[0]),
        gone=quote(gone),
        start=" ".join(map(quote, start)),
    )
