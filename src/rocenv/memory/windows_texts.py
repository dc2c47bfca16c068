"""What Windows says of the memory of its display adapters: DXGI, and the counters behind the Task Manager.

Neither needs an administrator. Below `ROCENV_SYSROOT` it is `windows/dxgi.json` and
`windows/gpu_counters.json`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.system.machine import program_output
from rocenv.system.process import own_child, run

_TIMEOUT_S = 20
_MOST_BYTES = 16 << 20
_MARK = "\ufeff"  # PowerShell begins files with it
# The classes, unlike the names of the counters, are the same in every language of Windows.
_COUNTERS = """
$ErrorActionPreference = 'SilentlyContinue'
[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false)
$sizes = 'Name', 'DedicatedUsage', 'SharedUsage'
$family = 'Win32_PerfFormattedData_GPUPerformanceCounters_'
ConvertTo-Json -Compress -Depth 3 @{
  adapters = @(Get-CimInstance ($family + 'GPUAdapterMemory') | Select-Object $sizes)
  processes = @(Get-CimInstance ($family + 'GPUProcessMemory') | Select-Object $sizes)
  names = @(Get-CimInstance Win32_Process | Select-Object ProcessId, Name, CommandLine)
}
"""


def dxgi_adapters() -> list[dict[str, Any]]:
    """Return the adapters that DXGI lists; keys as `dxgi_child` prints them."""
    plain = _parsed(program_output("/windows/dxgi.json", _asked_dxgi))
    return [row for row in plain if isinstance(row, dict)] if isinstance(plain, list) else []


def counters(*, with_processes: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the counters of `adapters` and `processes`, and the `names` of those; {} = there are none."""
    plain = _parsed(program_output("/windows/gpu_counters.json", _asked_counters, _MOST_BYTES))
    if not isinstance(plain, dict):
        return {}
    wanted = ("adapters", "processes", "names") if with_processes else ("adapters",)
    rows = {name: plain[name] for name in wanted if isinstance(plain.get(name), list)}
    return {name: [row for row in found if isinstance(row, dict)] for name, found in rows.items()}


def _parsed(text: str | None) -> Any:
    try:
        return parse_json((text or "").removeprefix(_MARK) or "null", "counters")
    except DataError:
        return None


def _asked_dxgi() -> str | None:
    return _said_by([sys.executable, *own_child("rocenv.memory.dxgi_child")])


def _asked_counters() -> str | None:
    # By its path: a program of that name in the current folder must not be run.
    folder = os.path.join(
        os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "WindowsPowerShell", "v1.0"
    )
    program = os.path.join(folder, "powershell.exe")
    return _said_by([program, "-NoProfile", "-NonInteractive", "-Command", _COUNTERS])


def _said_by(argv: list[str]) -> str | None:
    done = run(argv, timeout_s=_TIMEOUT_S, limit_bytes=_MOST_BYTES)
    return done.stdout.decode("utf-8", errors="replace") if done.ok else None
