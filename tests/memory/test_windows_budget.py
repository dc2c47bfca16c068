"""Windows memory budgets, from real and malformed output."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.memory import windows_budget
from rocenv.memory.gpus import HipFigure
from tests.host.roots import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.memory.gpus import GpuMemory, Usage
    from tests.memory.machines import Machine

    ReadMemory = Callable[..., Usage]

CARD: dict[str, Any] = {
    "Name": "AMD Radeon RX 7900 XTX",
    "PNPDeviceID": r"PCI\VEN_1002&DEV_744C&SUBSYS_1&REV_C8\6",
}
CARD |= {"DriverVersion": "32.0.1", "AdapterRAM": 24 * GIB}
LUID = "0x00000000_0x0000d3c4"


def dxgi(budget: int = 23 * GIB, **more: Any) -> dict[str, Any]:
    local = {"budget": budget, "usage": 0, "available": GIB, "reserved": 0}
    return {
        "luid": LUID,
        "name": "AMD Radeon RX 7900 XTX",
        "vendor": 0x1002,
        "device": 0x744C,
        "revision": 0xC8,
        "dedicated": 24 * GIB,
        "shared": 16 * GIB,
        "local": local,
        "non_local": local,
        **more,
    }


def counters(used: int, *people: tuple[int, str, int, str]) -> dict[str, Any]:
    name = "luid_0x00000000_0x0000D3C4_phys_0"
    return {
        "adapters": [{"Name": name, "DedicatedUsage": str(used), "SharedUsage": GIB}],
        "processes": [
            {"Name": f"pid_{pid}_{name}", "DedicatedUsage": size, "SharedUsage": 0}
            for pid, _, size, _ in people
        ],
        "names": [{"ProcessId": pid, "Name": said, "CommandLine": line} for pid, said, _, line in people],
    }


@pytest.fixture
def found(machine: Machine, read_memory: ReadMemory) -> Callable[..., Usage]:
    """A function that reads a Windows machine's memory usage from this output."""

    def one(adapters: Any = None, counted: Any = None, hip: dict[int, HipFigure] | None = None) -> Usage:
        machine.windows(controllers=[CARD])
        for name, value in (("dxgi", adapters), ("gpu_counters", counted)):
            if value is not None:
                text = value if isinstance(value, str) else json.dumps(value)
                machine.put(f"windows/{name}.json", text)
        return read_memory(hip)

    return one


def only(usage: Usage) -> GpuMemory:
    (gpu,) = usage.gpus
    return gpu


def test_memory_used_by_other_programs_is_not_free(found: Callable[..., Usage]) -> None:
    usage = found([dxgi()], counters(20 * GIB, (412, "game.exe", 19 * GIB, '"C:\\A b\\game.exe" -w')))
    gpu = only(usage)
    assert (gpu.total_bytes, gpu.used_bytes, gpu.free_bytes) == (24 * GIB, 20 * GIB, 4 * GIB)
    assert gpu.budget_bytes == 23 * GIB
    assert any("instead of rejecting allocations" in note for note in usage.notes)
    assert [(each.pid, each.name, each.command) for each in gpu.holders] == [
        (412, "game.exe", ("C:\\A b\\game.exe", "-w"))
    ]


def test_a_budget_below_the_free_memory_is_the_limit(found: Callable[..., Usage]) -> None:
    gpu = only(found([dxgi(budget=12 * GIB)], counters(GIB)))
    assert gpu.free_bytes == 12 * GIB
    assert (gpu.total_bytes, gpu.used_bytes) == (24 * GIB, GIB)


def test_a_budget_is_used_if_there_are_no_counters(found: Callable[..., Usage]) -> None:
    usage = found([dxgi()])
    assert (only(usage).used_bytes, only(usage).free_bytes) == (None, 23 * GIB)
    assert usage.hidden is None
    assert any("counters" in note for note in only(usage).notes)


def test_a_hip_that_reports_nearly_all_memory_free_is_distrusted(found: Callable[..., Usage]) -> None:
    """On a full card, HIP reported 24410 MiB free out of 24560 MiB."""
    hip = {0: HipFigure(free_bytes=24410 << 20, total_bytes=24560 << 20)}
    gpu = only(found([dxgi()], counters(22 * GIB), hip))
    assert gpu.free_bytes == 2 * GIB
    assert any("it ignores the desktop and games" in note for note in gpu.notes)


def test_missing_counters_are_unknown_not_zero(found: Callable[..., Usage]) -> None:
    empty: dict[str, Any] = {"adapters": [], "processes": [], "names": []}
    usage = found([dxgi()], empty)
    gpu = only(usage)
    assert (gpu.used_bytes, gpu.vram_used_bytes, gpu.shared_used_bytes) == (None, None, None)
    assert any("do not report how much" in note for note in gpu.notes)
    assert usage.hidden is None
    assert any("do not list GPU processes" in note for note in usage.notes)


@pytest.mark.parametrize("size", [None, "x", -1])
def test_a_malformed_size_is_unknown(found: Callable[..., Usage], size: Any) -> None:
    counted = counters(20 * GIB, (7, "a.exe", GIB, ""))
    counted["adapters"].append({**counted["adapters"][0], "DedicatedUsage": size})
    counted["processes"][0]["SharedUsage"] = size
    gpu = only(found([dxgi()], counted))
    assert (gpu.used_bytes, gpu.shared_used_bytes, gpu.holders) == (None, 2 * GIB, ())
    assert gpu.free_bytes == 23 * GIB  # only the budget is known


def test_usage_above_the_total_is_ignored(found: Callable[..., Usage]) -> None:
    gpu = only(found([dxgi()], counters(30 * GIB)))
    assert (gpu.used_bytes, gpu.vram_used_bytes, gpu.free_bytes) == (None, None, 23 * GIB)
    assert any("inconsistent: 30.0 GiB in use of 24.0 GiB" in note for note in gpu.notes)


def test_a_budget_without_usage_does_not_count_as_free(found: Callable[..., Usage]) -> None:
    gpu = only(found([dxgi(local={"budget": 23 * GIB})]))
    assert (gpu.budget_bytes, gpu.free_bytes) == (23 * GIB, None)


def test_a_gpu_that_dxgi_does_not_list_gets_a_note(found: Callable[..., Usage]) -> None:
    gpu = only(found([dxgi(name="other", device=1)], counters(GIB)))
    assert gpu.budget_bytes is None
    assert any("DXGI does not report a memory budget" in note for note in gpu.notes)


@pytest.mark.parametrize("number", [[1], {}, None, "x"])
def test_a_malformed_process_id_is_ignored(found: Callable[..., Usage], number: Any) -> None:
    counted = counters(9 * GIB, (7, "a.exe", GIB, ""))
    counted["names"].append({"ProcessId": number, "Name": 3})
    assert [each.name for each in only(found([dxgi()], counted)).holders] == ["a.exe"]


def test_the_code_of_the_child_process_is_found_wherever_rocenv_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """rocenv may be in the user site, which an isolated Python ignores."""
    ran: list[list[str]] = []
    monkeypatch.setattr(windows_budget, "_output", ran.append)
    windows_budget._query_dxgi()
    (argv,) = ran
    done = subprocess.run([argv[0], "-S", *argv[1:]], capture_output=True, text=True, check=False, timeout=60)
    assert "No module named" not in done.stderr
    assert "dxgi" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "7",
        "[7, null]",
        "{",
        "[" * 100000,
        json.dumps([dxgi(dedicated=-1, local={"budget": -1})]),
        json.dumps([dxgi(dedicated="x", local=[1])]),
        json.dumps([{"luid": None}]),
    ],
)
def test_malformed_output_is_ignored(found: Callable[..., Usage], text: str) -> None:
    usage = found(text, text)
    assert only(usage).budget_bytes is None
    assert only(usage).total_bytes == 24 * GIB  # from the display driver


def test_process_names_on_windows_cannot_control_the_terminal(found: Callable[..., Usage]) -> None:
    gpu = only(found([dxgi()], counters(GIB, (7, "\x1b[2Jx.exe", GIB, ""))))
    assert gpu.holders[0].name.isprintable()


def test_a_program_that_can_release_memory_is_found_by_its_process_name(
    found: Callable[..., Usage], matrix: Any
) -> None:
    from rocenv.memory.reclaim import find_reclaimable

    usage = found([dxgi()], counters(9 * GIB, (7, "ollama.exe", 8 * GIB, "ollama.exe runner")))
    (back,) = find_reclaimable(usage.gpus, matrix.reclaim, windows=True)
    assert (back.row.program, back.size_bytes) == ("ollama", 8 * GIB)
