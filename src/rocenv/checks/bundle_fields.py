"""The support bundle's allow-list: files, folders and variables, and the allowed part of each.

Checks read much more; of the rest, a bundle contains only the resulting observations.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rocenv.checks import kernel
from rocenv.checks.kernel import without_prefix
from rocenv.core.errors import DataError
from rocenv.core.foreign import parse_json
from rocenv.host.system32 import IDENTIFYING
from rocenv.system.machine import Answers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NODES = "/sys/class/kfd/kfd/topology/nodes"
_PCI = "/sys/bus/pci/devices"
# Kernel parameters that affect GPUs.
_PARAMETER = re.compile(r"(?:amd\w*|radeon|iommu|amd_iommu|intel_iommu|pcie?\w*|ttm|nomodeset)(?:[._=]|$)")
_GPU_LIBRARY = re.compile(r"lib(?:amdhip64|hsa-runtime64|rocdxg|hiprtc|rocblas)\.so[.0-9]*")
_ROCM_FOLDER = re.compile(r"rocm(?:-[0-9.]+)?")
_GPU_LINE = re.compile(r"amdgpu|kfd|drm|AMD-Vi|DMAR")
_LINUX_VERSION = re.compile(r"\bLinux version \S+")
# Folders in which vendors and distributions install ROCm.
_VENDOR_FOLDER = re.compile(
    r"/opt/(?:rocm(?:-[0-9.]+)?|amdgpu)(?:/(?:lib|lib64|bin|hip|llvm))*/?"
    r"|/usr(?:/local)?/(?:lib|lib64|bin)(?:/x86_64-linux-gnu)?/?"
    r"|[A-Z]:\\Program Files\\AMD\\ROCm\\[0-9.]+\\?(?:bin\\?)?"
    r"|[A-Z]:\\Windows\\System32\\?",
    re.IGNORECASE,
)


def _whole(text: str) -> str:
    return text


def _matches(pattern: str) -> Callable[[str], str]:
    """Return a function that keeps only a pattern's matches, one per line."""
    compiled = re.compile(pattern, re.MULTILINE)
    return lambda text: "".join(f"{found[0]}\n" for found in compiled.finditer(text))


def _kernel_parameters(text: str) -> str:
    return " ".join(filter(_PARAMETER.match, text.split())) + "\n"


def _log_lines(text: str) -> str:
    """Keep the lines that checks look for, without the time, the host or the kernel's builder."""
    kept = []
    for line in text.splitlines():
        if version := _LINUX_VERSION.search(line):
            kept.append(version[0])
        elif _GPU_LINE.search(line) and any(pattern.search(line) for pattern in kernel.FAULTS):
            kept.append(without_prefix(line))
    return "".join(f"{line}\n" for line in kept)


def _vendor_lines(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if _VENDOR_FOLDER.fullmatch(line))


def _controllers(text: str) -> str:
    """Keep the model and driver of display adapters."""
    try:
        plain = parse_json(text.removeprefix("\ufeff"), "controllers")
    except DataError:
        return ""
    rows = [row for row in (plain if isinstance(plain, list) else [plain]) if isinstance(row, dict)]
    fields = ("Name", "DriverVersion", "AdapterRAM", "RadeonSoftwareVersion")
    found = [{name: row[name] for name in fields if name in row} for row in rows]
    for row, kept in zip(rows, found, strict=True):
        # The part after the model identifies the machine.
        kept["PNPDeviceID"] = "\\".join(str(row.get("PNPDeviceID") or "").split("\\")[:2])
    return json.dumps(found, indent=1)


# Other file names may include the names of people or projects.
_VENDOR_CONF = r"(?:[0-9]+-)?(?:(?:rocm|amdgpu|hip)(?:-[a-z]+)?[-0-9.]*|libc|[a-z0-9_]+-linux-gnu)\.conf"
# Patterns for the allowed files, each with the function that extracts the allowed part.
FILES: tuple[tuple[str, Callable[[str], str]], ...] = (
    (r"/proc/version", _matches(r"Linux version \S+")),
    (r"/proc/cmdline", _kernel_parameters),
    (r"/proc/meminfo", _matches(r"^MemTotal:.*")),
    (r"/proc/sys/fs/binfmt_misc/WSLInterop[\w-]*", _matches(r"\A(?:enabled|disabled)")),
    (r"(?:/etc|/usr/lib)/os-release", _matches(r"^(?:ID|ID_LIKE)=.*")),
    (rf"{_NODES}/[0-9]+/properties", _matches(r"^(?!unique_id|hive_id)\w+ [0-9]+$")),
    (rf"{_NODES}/[0-9]+/(?:gpu_id|mem_banks/[0-9]+/properties)", _whole),
    (rf"{_PCI}/[^/]+/(?:class|vendor|device|revision|product_name|mem_info_\w+|iommu_group/type)", _whole),
    (rf"{_PCI}/[^/]+/uevent", _matches(r"^DRIVER=.*")),
    (r"/sys/module/amdgpu/version", _whole),
    (r"/(?:usr|opt/amdgpu)/share/libdrm/amdgpu\.ids", _whole),
    (rf"/etc/ld\.so\.conf(?:\.d/{_VENDOR_CONF})?", _vendor_lines),
    (r"/var/lib/dpkg/status", _matches(r"^Package: (?:hsa|rocm|hip|amdgpu)[\w.+-]*$")),
    (r"/var/log/(?:dmesg|kern\.log)|/dev/kmsg", _log_lines),
    (r"/(?:windows|wsl)/video_controllers\.json", _controllers),
    (r"/windows/hipinfo\.txt", _matches(r"^(?!.*(?:uuid|serial)).*$")),
)
# Whole lines of these files are kept, so they may contain names.
FREE_TEXTS = ("/var/log/dmesg", "/var/log/kern.log", "/dev/kmsg", "/windows/hipinfo.txt")
_FOLDERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (folder, re.compile(names))
    for folder, names in (
        (rf"{_NODES}(?:/[0-9]+/mem_banks)?", "[0-9]+"),
        (_PCI, "[0-9a-f:.]+"),
        (rf"{_PCI}/[^/]+/iommu_group|/sys/module/amdgpu", r"\w+"),
        (r"/proc/sys/fs/binfmt_misc", r"WSLInterop[\w-]*|status|register"),
        (r"/etc/ld\.so\.conf\.d", _VENDOR_CONF),
        (r"/opt", _ROCM_FOLDER.pattern),
    )
)
_DEVICES = re.compile(
    r"/dev/(?:kfd|dxg|dri/renderD[0-9]+)|/\.dockerenv|/run/\.containerenv|/run/systemd/container|/\.singularity\.d"
)
_TRIED = ("container", "groups", "owner")
_NUMBERS = r"-?[0-9]+(?:, *-?[0-9]+)*,?|"
# Patterns for the allowed environment variables, each with the pattern that the value must match.
_VARIABLES: tuple[tuple[str, str], ...] = (
    (r"(?:HIP|ROCR|CUDA)_VISIBLE_DEVICES", _NUMBERS),
    (r"HSA_OVERRIDE_GFX_VERSION(?:_[0-9]+)?", r"(?:gfx)?[0-9a-f.]{1,12}"),
    (r"HSA_ENABLE_DXG_DETECTION", r"[01]"),
    (r"ROCENV_TARGET", r"(?:gfx[0-9a-f]{3,5},?)*"),
    (r"HIP_PATH(?:_[0-9]+)?|(?:ROCM|HIP)_(?:PATH|HOME)|HIP_DEVICE_LIB_PATH", _VENDOR_FOLDER.pattern),
)
_LISTS = ("PATH", "LD_LIBRARY_PATH")


def allowed(answers: Answers) -> Answers:
    """Filter a recording of a machine, and reduce each entry to its allowed part."""
    files = {
        path: ("" if error else keep(text), error)
        for path, (text, error) in answers.files.items()
        for pattern, keep in FILES
        if re.fullmatch(pattern, path)
    }
    return Answers(
        windows=answers.windows,
        files=files | {path: (text, 0) for path, text in _windows_tables(answers.rows).items()},
        folders={
            path: (tuple(filter(pattern.fullmatch, names)), error)
            for path, (names, error) in answers.folders.items()
            if (pattern := _names_in(path))
        },
        opened=_devices(answers.opened),
        reached=_devices(answers.reached),
        tried={
            (what, about): answer
            for (what, about), answer in answers.tried.items()
            if what in _TRIED and (what != "owner" or _DEVICES.fullmatch(about))
        },
        variables=_variables(answers.variables, ";" if answers.windows else ":"),
    )


def _devices(errors: Mapping[str, int]) -> dict[str, int]:
    return {path: error for path, error in errors.items() if _DEVICES.fullmatch(path)}


def _variables(variables: Mapping[str, str], separator: str) -> dict[str, str]:
    """The allowed environment variables; path lists are reduced to vendor folders."""
    found: dict[str, str] = {}
    for name, value in sorted(variables.items()):
        kept = separator.join(filter(_VENDOR_FOLDER.fullmatch, value.split(separator)))
        if name.upper() in _LISTS and kept:
            found[name] = kept
        for pattern, form in _VARIABLES:
            if re.fullmatch(pattern, name, re.IGNORECASE) and re.fullmatch(form, value, re.IGNORECASE):
                found[name] = value
    return found


def _names_in(folder: str) -> re.Pattern[str] | None:
    """The pattern for the allowed names in a folder, or None if the folder is not allowed."""
    listed = next((names for pattern, names in _FOLDERS if re.fullmatch(pattern, folder)), None)
    return listed or (_GPU_LIBRARY if _VENDOR_FOLDER.fullmatch(folder) else None)


def _windows_tables(rows: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """The allowed rows of the Windows tables: registry switches, libraries and vendor folders."""
    found: dict[str, dict[str, Any]] = {}
    for key, row in rows.get("/windows/registry.json", {}).items():
        switches = row.items() if isinstance(row, dict) and "Exclusions" not in key else ()
        if kept := {name: value for name, value in switches if value in (0, 1)}:
            found.setdefault("/windows/registry.json", {})[key] = kept
    for name, version in rows.get("/windows/system32.json", {}).items():
        if re.fullmatch(r"[\w.-]+\.dll", name) and re.fullmatch(r"[0-9.]*", str(version)):
            found.setdefault("/windows/system32.json", {})[name] = version
    for folder, names in rows.get("/windows/folders.json", {}).items():
        if _VENDOR_FOLDER.fullmatch(folder) and isinstance(names, list):
            kept_names = [name for name in names if IDENTIFYING.fullmatch(str(name))]
            found.setdefault("/windows/folders.json", {})[folder] = kept_names
    return {path: json.dumps(table, indent=1) for path, table in found.items()}
