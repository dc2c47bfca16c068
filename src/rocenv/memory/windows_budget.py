"""GPU memory budgets on Windows, and the processes that hold memory.

The figures come from DXGI and from the counters that Task Manager shows; neither requires administrator
rights. If `ROCENV_SYSROOT` is set, they are read from `windows/dxgi.json` and `windows/gpu_counters.json`.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.host.gpu import printable
from rocenv.memory.amounts import MAX_BYTES, add
from rocenv.memory.gpus import GpuMemory, Pool, Usage, combine_pools
from rocenv.memory.holders import Holder
from rocenv.system.machine import program_output
from rocenv.system.process import own_child, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.host import Gpu, Host

_TIMEOUT_S = 20
_MAX_OUTPUT = 16 << 20
_MAX_COMMAND = 4096  # characters
_BYTE_ORDER_MARK = "\ufeff"  # PowerShell writes it at the beginning of files
# Unlike counter names, these class names are not localized.
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
_INSTANCE = re.compile(
    r"(?:pid_([0-9]{1,10})_)?luid_(0x[0-9a-f]{8})_(0x[0-9a-f]{8})_phys_[0-9]+", re.IGNORECASE
)
_Row = dict[str, Any]
_Sizes = tuple["int | None", "int | None"]  # dedicated and shared bytes


def windows_usage(host: Host, *, with_holders: bool) -> Usage:
    """Read each GPU's memory on Windows."""
    if not host.gpus:
        return Usage()
    adapters, counters = _read_adapters(), _read_counters()
    used = _used_by_adapter(counters["adapters"])
    holders = _holders_by_adapter(counters) if with_holders else {}
    spare = list(adapters)
    gpus = []
    for gpu in host.gpus:
        adapter = _adapter_of(gpu, spare)
        if adapter in spare:
            spare.remove(adapter)
        luid = str(adapter.get("luid", "")).lower()
        gpus.append(_memory(gpu, adapter, used.get(luid, (None, None)), holders.get(luid, ())))
    notes = []
    if any(each.budget_bytes is not None for each in gpus):
        notes.append(
            "beyond the budget, Windows moves data to system memory instead of rejecting allocations, which"
            " slows programs down without an error"
        )
    hidden = 0 if counters["processes"] or not with_holders else None
    if hidden is None:
        notes.append(
            "the Windows counters do not list GPU processes, so it is unknown which programs hold memory"
        )
    return Usage(gpus=tuple(gpus), hidden=hidden, notes=tuple(notes))


# ---------------------------------------------------------------- DXGI and counters


def _read_adapters() -> list[_Row]:
    """List DXGI's adapters, with the keys that `dxgi_child` prints."""
    return _rows(_parse(program_output("/windows/dxgi.json", _query_dxgi)))


def _read_counters() -> dict[str, list[_Row]]:
    """Read the counters for `adapters` and `processes`, and the process `names`."""
    plain = _parse(program_output("/windows/gpu_counters.json", _query_counters, _MAX_OUTPUT))
    tables = plain if isinstance(plain, dict) else {}
    return {name: _rows(tables.get(name)) for name in ("adapters", "processes", "names")}


def _rows(plain: Any) -> list[_Row]:
    return [row for row in plain if isinstance(row, dict)] if isinstance(plain, list) else []


def _parse(text: str | None) -> Any:
    try:
        return parse_json((text or "").removeprefix(_BYTE_ORDER_MARK) or "null", "counters")
    except DataError:
        return None


def _query_dxgi() -> str | None:
    return _output([sys.executable, *own_child("rocenv.memory.dxgi_child")])


def _query_counters() -> str | None:
    # The full path prevents a `powershell.exe` in the current folder from running.
    folder = os.path.join(
        os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "WindowsPowerShell", "v1.0"
    )
    program = os.path.join(folder, "powershell.exe")
    return _output([program, "-NoProfile", "-NonInteractive", "-Command", _COUNTERS])


def _output(argv: list[str]) -> str | None:
    done = run(argv, timeout_s=_TIMEOUT_S, limit_bytes=_MAX_OUTPUT)
    return done.stdout.decode("utf-8", errors="replace") if done.ok else None


# ---------------------------------------------------------------- one GPU


def _adapter_of(gpu: Gpu, adapters: list[_Row]) -> _Row:
    """Find a GPU's adapter by PCI ID, or else by name; return {} if there is none."""
    for each in adapters:
        pci_id = f"{_number(each, 'vendor') or 0:04x}:{_number(each, 'device') or 0:04x}"
        if gpu.pci_id and gpu.pci_id == pci_id:
            return each
    return next((each for each in adapters if gpu.name and printable(str(each.get("name"))) == gpu.name), {})


def _local(adapter: _Row, name: str) -> int | None:
    local = adapter.get("local")
    return _number(local, name) if isinstance(local, dict) else None


def _memory(gpu: Gpu, adapter: _Row, used: _Sizes, holders: tuple[Holder, ...]) -> GpuMemory:
    own = _number(adapter, "dedicated") or gpu.vram_bytes
    shared = _number(adapter, "shared") or gpu.gtt_bytes
    budget, own_use = _local(adapter, "budget"), _local(adapter, "usage")
    notes = []
    if budget is None:
        notes.append("DXGI does not report a memory budget for this GPU")
    if used[0] is None:
        notes.append("the Windows counters do not report how much memory is in use")
    source = "Windows (DXGI)" if budget is not None else "the display driver" if own else ""
    memory = combine_pools(gpu, Pool(own, used[0]), Pool(shared, used[1]), source, notes)
    allowed = None if budget is None or own_use is None else max(0, budget - own_use)
    free = [size for size in (allowed, memory.free_bytes) if size is not None]
    return replace(memory, free_bytes=min(free, default=None), budget_bytes=budget, holders=holders)


def _instances(rows: list[_Row]) -> Iterator[tuple[str, int, _Sizes]]:
    """Yield each counter's adapter, process (0 for all), and dedicated and shared bytes."""
    for row in rows:
        if found := _INSTANCE.fullmatch(str(row.get("Name"))):
            sizes = _number(row, "DedicatedUsage"), _number(row, "SharedUsage")
            yield f"{found[2]}_{found[3]}".lower(), int(found[1] or 0), sizes


def _used_by_adapter(rows: list[_Row]) -> dict[str, _Sizes]:
    found: dict[str, _Sizes] = {}
    for luid, pid, (dedicated, shared) in _instances(rows):
        if not pid:
            before = found.get(luid, (0, 0))
            found[luid] = add(before[0], dedicated), add(before[1], shared)
    return found


def _holders_by_adapter(counters: dict[str, list[_Row]]) -> dict[str, tuple[Holder, ...]]:
    names = {_number(row, "ProcessId"): row for row in counters["names"]}
    found: dict[str, tuple[Holder, ...]] = {}
    for luid, pid, (own, shared) in _instances(counters["processes"]):
        if not pid or own is None or shared is None or not own + shared:
            continue
        process = names.get(pid, {})
        line = str(process.get("CommandLine") or "")[:_MAX_COMMAND]
        holder = Holder(
            pid=pid,
            name=printable(str(process.get("Name") or "")),
            vram_bytes=own,
            shared_bytes=shared,
            command=tuple(quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', line)),
        )
        found[luid] = (*found.get(luid, ()), holder)
    return found


def _number(row: _Row, name: str) -> int | None:
    value = row.get(name)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,20}", value):  # CIM writes 64-bit values as strings
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_BYTES else None
