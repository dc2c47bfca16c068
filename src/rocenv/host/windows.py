"""Detect the GPUs on a Windows machine: HIP's devices in order, with details from display drivers.

HIP provides the order, targets and memory sizes; the display drivers provide PCI IDs, versions, and GPUs that
HIP does not see, in a different order. The input is text: `hipInfo` output, or its equivalent from HIP
itself, and JSON in the format of `Win32_VideoController`. A child process queries HIP, because a display
driver can crash or hang the process that loads it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.host.gpu import Found, Gpu, split_target
from rocenv.host.pci import AMD, MAKERS, Ids
from rocenv.host.products import unsupported
from rocenv.system.machine import program_output
from rocenv.system.programs import program_on_path

if TYPE_CHECKING:
    from rocenv.data.rows import Matrix

_GIB = 1 << 30
# AdapterRAM is a 32-bit value, so Windows reports a value in this range for larger GPU memory.
_CLAMPED = range((4 << 30) - (1 << 20), 4 << 30)
_MAX_BYTES = 1 << 50  # larger values cannot be GPU memory
_SEPARATOR = re.compile(r"^device#\s*([0-9]{1,4})\s*$", re.MULTILINE)
_FIELD = re.compile(r"^(\w+):[ \t]*(.*?)\s*$", re.MULTILINE)  # "gcnArchName:          gfx1030"
_REMEDY = "hipInfo   # use the one in your HIP SDK; not every release supports every GPU"
_TIMEOUT_S = 20
_MARK = "\ufeff"  # byte order mark that PowerShell writes
_ADAPTERS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
_VALUES = {
    "Name": "DriverDesc",
    "PNPDeviceID": "MatchingDeviceId",
    "DriverVersion": "DriverVersion",
    "RadeonSoftwareVersion": "RadeonSoftwareVersion",
}
# Variables that hide GPUs from HIP, which then numbers the others from 0.
_HIDING = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_MEMORY = ("HardwareInformation.qwMemorySize", "HardwareInformation.MemorySize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A display adapter, as Windows describes it."""

    name: str = ""
    vendor: int | None = None
    device: str = ""  # four hexadecimal digits
    revision: str = ""
    driver: str = ""  # version
    release: str = ""  # in AMD's numbering
    memory_bytes: int | None = None

    @property
    def maker(self) -> int | None:
        """The PCI vendor, guessed from the name if Windows does not report it."""
        if self.vendor is not None:
            return self.vendor
        if re.search(r"\b(AMD|Radeon|FirePro|Instinct)\b", self.name, re.IGNORECASE):
            return AMD
        return next((number for number, name in MAKERS.items() if name.lower() in self.name.lower()), None)


def windows_gpus(matrix: Matrix) -> Found:
    """List the GPUs in HIP's order, then those that only the display drivers report."""
    text = hip_text(tuple(dict.fromkeys(name for row in matrix.hip_sdk for name in row.runtime)))
    return found_on_windows(controllers_text(), text, matrix)


def found_on_windows(adapters: str, text: str, matrix: Matrix) -> Found:
    """List the GPUs in Windows' display adapters (JSON) and the `hipInfo` output.

    An empty `hipInfo` text means that HIP could not be queried.
    """
    controllers = parse_controllers(adapters)
    ids = Ids(matrix)
    spare = [_of_controller(each, ids, matrix) for each in controllers if each.maker == AMD]
    gpus = []
    for gpu in parse_hip(text, matrix):
        twin = _twin(gpu, spare)
        if twin:
            spare.remove(twin)
        gpus.append(_joined(gpu, twin, matrix))
    remedies: tuple[str, ...] = ()
    if text.strip() and spare:
        spare = [
            gpu if gpu.why_not else replace(gpu, state="barred", why_not=_unlisted(text)) for gpu in spare
        ]
        remedies = (_REMEDY,)
    found = Found(
        gpus=(*gpus, *spare),
        in_hip_order=bool(gpus) or len(spare) == 1,
        others=tuple(dict.fromkeys(MAKERS[each.maker] for each in controllers if each.maker in MAKERS)),
        remedies=remedies,
        display_driver=_display_driver(controllers, matrix),
        unknown="`video_controllers.json` is not readable" if adapters.strip() and not controllers else "",
    )
    if not found.in_hip_order and any(gpu.integrated is not False for gpu in spare):
        return replace(found, notes=("HIP could not be queried, so its numbers for these GPUs are unknown",))
    return found


def display_driver(matrix: Matrix) -> str:
    """Return the AMD display driver's release in AMD's numbering, or "" if unknown."""
    return _display_driver(parse_controllers(controllers_text()), matrix)[1]


def parse_hip(text: str, matrix: Matrix) -> tuple[Gpu, ...]:
    """Parse the devices in `hipInfo`'s output, sorted by device number."""
    parts = _SEPARATOR.split(text)[1:]
    devices = sorted(zip(map(int, parts[::2]), parts[1::2], strict=True), key=lambda part: part[0])
    return tuple(_of_hip(dict(_FIELD.findall(part)), matrix) for _, part in devices)


def parse_controllers(text: str) -> tuple[Controller, ...]:
    """Parse display adapters from JSON with `Win32_VideoController`'s keys: a list, or a single object."""
    try:
        plain = parse_json(text, "Win32_VideoController") if text.strip() else []
    except DataError:
        return ()
    rows = [row for row in (plain if isinstance(plain, list) else [plain]) if isinstance(row, dict)]
    return tuple(_controller(row) for row in rows)


def target_by_name(name: str, matrix: Matrix) -> str:
    """Return the target for the name that Windows gives a GPU, or "" if no row matches."""
    plain = _plain(name)
    return next((row.target for row in matrix.gpu_name if re.search(row.pattern, plain, re.IGNORECASE)), "")


def _of_hip(fields: dict[str, str], matrix: Matrix) -> Gpu:
    target, features = split_target(fields.get("gcnArchName", ""))
    said = {"1": True, "0": False}.get(fields.get("isIntegrated", ""))
    known = matrix.targets.get(target)
    total = re.match(r"([0-9.]{1,12}) ?GB", fields.get("totalGlobalMem", ""))
    return Gpu(
        source="HIP",
        target=target if re.fullmatch(r"gfx[0-9a-f]+", target) else "",
        features=features,
        name=fields.get("Name", ""),
        integrated=said if said is not None or not known else known.kind == "apu",
        vram_bytes=_gib(total[1]) if total else None,
        compute_units=_units(fields.get("multiProcessorCount", ""), known.wave if known else 0),
    )


def _units(text: str, wave: int) -> int | None:
    """Return the number of compute units; HIP counts pairs if waves have 32 lanes, as on RDNA."""
    if not wave or not re.fullmatch(r"[0-9]{1,6}", text):
        return None
    return int(text) * (2 if wave == 32 else 1)


def _gib(text: str) -> int | None:
    try:
        return int(float(text) * _GIB)
    except ValueError:
        return None


def _controller(row: dict[str, Any]) -> Controller:
    # "PCI\VEN_1002&DEV_1586&SUBSYS_17141043&REV_C1\..."
    pnp = str(row.get("PNPDeviceID") or "")
    parts = {key: value.lower() for key, value in re.findall(r"(VEN|DEV|REV)_([0-9A-Fa-f]{2,4})", pnp)}
    memory = row.get("AdapterRAM")
    return Controller(
        name=str(row.get("Name") or ""),
        vendor=int(parts["VEN"], 16) if "VEN" in parts else None,
        device=parts.get("DEV", ""),
        revision=parts.get("REV", ""),
        driver=str(row.get("DriverVersion") or ""),
        release=str(row.get("RadeonSoftwareVersion") or ""),
        memory_bytes=memory
        if isinstance(memory, int) and 0 < memory < _MAX_BYTES and memory not in _CLAMPED
        else None,
    )


def _of_controller(each: Controller, ids: Ids, matrix: Matrix) -> Gpu:
    target = ids.target(each.device, each.revision) or target_by_name(each.name, matrix)
    old = unsupported(each.device or each.name, matrix)
    return Gpu(
        source="display driver, target by PCI id" if each.device else "display driver, target by name",
        target=target,
        name=each.name or ids.product(each.device, each.revision),
        pci_id=f"{AMD:04x}:{each.device}" if each.device else "",
        integrated=ids.integrated(target, each.device, each.revision),
        vram_bytes=each.memory_bytes,
        state="unable" if old else "usable",
        why_not=old.why if old else "",
    )


def _plain(name: str) -> str:
    return " ".join(re.sub(r"\((TM|R)\)|[™®]", " ", name, flags=re.IGNORECASE).split())


def _twin(gpu: Gpu, spare: list[Gpu]) -> Gpu | None:
    """Find a HIP device's display adapter by name, or else by target."""
    same = [each for each in spare if _plain(each.name).lower() == _plain(gpu.name).lower()]
    same = same or [each for each in spare if each.target and each.target == gpu.target]
    return same[0] if same else None


def _joined(gpu: Gpu, twin: Gpu | None, matrix: Matrix) -> Gpu:
    target = gpu.target or (twin.target if twin else "") or target_by_name(gpu.name, matrix)
    known = matrix.targets.get(target)
    integrated = gpu.integrated
    if integrated is None and known:
        integrated = known.kind == "apu"
    own = twin.vram_bytes if twin else None
    total = gpu.vram_bytes
    joined = replace(gpu, target=target, integrated=integrated, pci_id=twin.pci_id if twin else "")
    if integrated:
        # HIP's value for an iGPU includes all memory that the iGPU can use, mostly system memory.
        shared = total - (own or 0) if total else None
        joined = replace(joined, vram_bytes=own, gtt_bytes=shared)
    elif total is None:
        joined = replace(joined, vram_bytes=own)
    return replace(joined, name=gpu.name or (twin.name if twin else ""))


def _display_driver(controllers: tuple[Controller, ...], matrix: Matrix) -> tuple[str, str]:
    first = next((each for each in controllers if each.maker == AMD), Controller())
    rows = (
        row.version for row in matrix.display_driver if row.file_version and row.file_version == first.driver
    )
    return first.driver, first.release or next(rows, "")


def _unlisted(text: str) -> str:
    said = re.search(r'"([^"\n]{1,100})"', text) if not _SEPARATOR.search(text) else None
    return f"HIP does not list it{f': {said[1]}' if said else ''}"


def hip_text(libraries: tuple[str, ...]) -> str:
    """Return the output of `hipInfo`, or its equivalent from one of these HIP runtimes, or ""."""
    return (program_output("/windows/hipinfo.txt", lambda: _ask_hip(libraries)) or "").removeprefix(_MARK)


def _ask_hip(libraries: tuple[str, ...]) -> str:
    program = _hip_info()
    if program:
        return _output_of([program])
    folder = Path(os.environ.get("SYSTEMROOT", r"C:\Windows")) / "System32"
    there = [str(folder / name) for name in reversed(libraries) if (folder / name).is_file()]
    if not there:
        return ""
    from rocenv.system.process import own_child

    return _output_of([sys.executable, *own_child("rocenv.host.hip_child", there[0])])


def controllers_text() -> str:
    """Return the display adapters as JSON, with `Win32_VideoController`'s keys and AMD's driver release."""
    text = program_output("/windows/video_controllers.json", lambda: json.dumps(_adapters(), indent=1))
    return (text or "").removeprefix(_MARK)


def _hip_info() -> str | None:
    sdk = os.environ.get("HIP_PATH")
    own = shutil.which(os.path.join(sdk, "bin", "hipInfo.exe")) if sdk else None
    return own or program_on_path("hipInfo.exe")


def _output_of(argv: list[str]) -> str:
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
            # "0000", "0001" …; the other keys, "Configuration" and "Properties", are not readable
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
