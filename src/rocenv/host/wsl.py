"""Detect GPUs on WSL 2 by querying Windows through interop, because the Linux kernel does not list any.

The output has the same format as on Windows, so both use the same parser. If the query fails, the GPUs are
unknown; the user sees the reason and can specify a target.

Source: learn.microsoft.com, Working across Windows and Linux file systems; wsl.dev, interop
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from rocenv.core.foreign import parse_json
from rocenv.host.gpu import Found, printable
from rocenv.host.windows import found_on_windows, parse_controllers
from rocenv.system.machine import list_folder, program_output, read_attribute
from rocenv.system.programs import program_on_path

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

ANSWER = "/wsl/video_controllers.json"  # PowerShell's output in a machine's snapshot
_FORMATS = "/proc/sys/fs/binfmt_misc"
_USUAL = "/mnt/c/Windows/System32/WindowsPowerShell/v1.0/powershell.exe"
_MARK = "\ufeff"  # byte order mark that PowerShell writes
_TIMEOUT_S = 20  # a cold start takes several seconds
CARD_EXAMPLE = '--target "RX 9070 XT"'
_REMEDY = f"specify your card, for example: `rocenv create --torch {CARD_EXAMPLE}`"
# Avoid double quotes, because the command is embedded in a Windows command line.
_QUESTION = (
    "[Console]::OutputEncoding = [Text.UTF8Encoding]::new($false); "
    "Get-CimInstance Win32_VideoController"
    " | Select-Object Name, PNPDeviceID, DriverVersion, AdapterRAM"
    " | ConvertTo-Json -Compress"
)


def wsl_gpus(matrix: Matrix) -> Found:
    """List the GPUs that Windows reports."""
    answer = (program_output(ANSWER, _ask) or "").removeprefix(_MARK)
    if not parse_controllers(answer):
        why = printable(answer) or "that machine's snapshot does not contain the list from Windows"
        unknown = f"this is WSL, and Windows did not list its GPUs: {why}"
        return Found(unknown=unknown, remedies=(_REMEDY,))
    found = found_on_windows(answer, "", matrix)
    gpus = tuple(replace(gpu, source=f"Windows, {gpu.source}") for gpu in found.gpus)
    return replace(found, gpus=gpus)


def interop_is_off() -> bool:
    """Whether the kernel's list of program formats shows that Linux cannot start Windows programs.

    If that list is unreadable, as in a container, interop may still be enabled.
    """
    names = list_folder(_FORMATS)
    entries = [f"{_FORMATS}/{name}" for name in names if name.startswith("WSLInterop")]
    return bool(names) and not any(read_attribute(path)[0].startswith("enabled") for path in entries)


def _ask() -> str:
    """Return the display adapters as JSON, or a clause that explains the failure."""
    if interop_is_off():
        return "interop is off, so Linux cannot start Windows programs"
    found = program_on_path("powershell.exe") or (_USUAL if os.access(_USUAL, os.X_OK) else "")
    if not found:
        return f"`powershell.exe` is neither on PATH nor at `{_USUAL}`"
    from rocenv.core.progress import Progress
    from rocenv.system.process import run

    program = os.path.abspath(found)
    argv = [program, "-NoProfile", "-NonInteractive", "-Command", _QUESTION]
    with Progress().wait("Querying Windows for GPUs") as stage:
        # Run PowerShell in its own folder; Windows would access a Linux folder over the network.
        done = run(argv, cwd=os.path.dirname(program), timeout_s=_TIMEOUT_S, on_wait=stage.tick)
    if not done.ok:
        return f"`powershell.exe` failed: {done.end}{_quoted(done.error_text)}"
    text = done.text.removeprefix(_MARK)
    if not parse_controllers(text):
        return f"`powershell.exe` listed no display adapters{_quoted(done.error_text or done.text)}"
    return _without_places(text)


def _without_places(text: str) -> str:
    """Remove the part after the vendor and device IDs: the device's location in this machine."""
    plain = parse_json(text, "powershell.exe")
    rows = [row for row in (plain if isinstance(plain, list) else [plain]) if isinstance(row, dict)]
    ids = ["\\".join(str(row.get("PNPDeviceID") or "").split("\\")[:2]) for row in rows]
    return json.dumps([{**row, "PNPDeviceID": each} for row, each in zip(rows, ids, strict=True)], indent=1)


def _quoted(text: str) -> str:
    first = next((line for line in text.splitlines() if line.strip()), "")
    return f" ({printable(first)})" if first else ""
