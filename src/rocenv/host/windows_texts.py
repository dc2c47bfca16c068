"""Where a Windows machine's own words come from: files of an examined machine, or programs and the registry.

HIP is asked in a child process, for a display driver can crash or hang whoever loads it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from rocenv.system.machine import program_output

_TIMEOUT_S = 20
_MARK = "\ufeff"  # PowerShell begins files with it
_ADAPTERS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
_VALUES = {
    "Name": "DriverDesc",
    "PNPDeviceID": "MatchingDeviceId",
    "DriverVersion": "DriverVersion",
    "RadeonSoftwareVersion": "RadeonSoftwareVersion",
}
# HIP itself leaves out what these hide, and counts anew.
_HIDING = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_MEMORY = ("HardwareInformation.qwMemorySize", "HardwareInformation.MemorySize")


def hip_text(libraries: tuple[str, ...]) -> str:
    """What `hipInfo` prints, or the same said by HIP itself; "" where there is no HIP.

    Args:
        libraries: Names under which HIP's runtime may be there.
    """
    return (program_output("/windows/hipinfo.txt", lambda: _of_hip(libraries)) or "").removeprefix(_MARK)


def _of_hip(libraries: tuple[str, ...]) -> str:
    program = _program()
    if program:
        return _said_by([program])
    folder = Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32"
    there = [str(folder / name) for name in reversed(libraries) if (folder / name).is_file()]
    if not there:
        return ""
    from rocenv.system.process import own_child

    return _said_by([sys.executable, *own_child("rocenv.host.hip_child", there[0])])


def controllers_text() -> str:
    """The display adapters as JSON, with the keys of `Win32_VideoController` and AMD's release."""
    said = program_output("/windows/video_controllers.json", lambda: json.dumps(_adapters(), indent=1))
    return (said or "").removeprefix(_MARK)


def _program() -> str | None:
    folders = [Path(os.environ[name]) / "bin" for name in ("HIP_PATH",) if os.environ.get(name)]
    return shutil.which("hipInfo.exe", path=os.pathsep.join(map(str, folders))) or shutil.which("hipInfo.exe")


def _said_by(argv: list[str]) -> str:
    from rocenv.system.process import MERGE, run

    environ = {name: value for name, value in os.environ.items() if name.upper() not in _HIDING}
    done = run(argv, environ=environ, stderr=MERGE, timeout_s=_TIMEOUT_S)
    printed = "" if done.problem else done.stdout.decode(errors="replace")
    return printed or f'"{Path(argv[0]).name}: {done.end}"'


def _adapters() -> list[dict[str, Any]]:
    found = []
    with contextlib.suppress(OSError):
        winreg: Any = importlib.import_module("winreg")
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, _ADAPTERS) as folder:
            # "0000", "0001" …; beside them lie "Configuration" and "Properties", which are closed
            names = [winreg.EnumKey(folder, number) for number in range(winreg.QueryInfoKey(folder)[0])]
            for name in filter(str.isdecimal, names):
                with winreg.OpenKey(folder, name) as key:
                    found.append(_adapter(key, winreg))
    return found


def _adapter(key: Any, winreg: Any) -> dict[str, Any]:
    def value(name: str) -> Any:
        try:
            found = winreg.QueryValueEx(key, name)[0]
        except OSError:
            return None
        return int.from_bytes(found, "little") if isinstance(found, bytes) else found

    memory = next(filter(None, map(value, _MEMORY)), None)
    return {name: value(stored_as) for name, stored_as in _VALUES.items()} | {"AdapterRAM": memory}
