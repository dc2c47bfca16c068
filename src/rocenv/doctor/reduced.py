"""Leaves of a file what the examination of a machine needs, where the rest is nobody's business."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rocenv.doctor.checks import kernel
from rocenv.doctor.nameless import HOST, OTHER, USER
from rocenv.system.machine import Mount, holder, mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Parameters of the kernel that say something about GPUs; of all others only the names are left.
_PARAMETERS = re.compile(
    r"(amd\w*|radeon|iommu|intel_iommu|pcie?\w*|drm|video|ttm|nomodeset|vfio[\w-]*|mem|hugepages\w*|default_hugepagesz"
    r"|transparent_hugepage|module_blacklist|modprobe\.blacklist|rd\.driver\.blacklist|mitigations|numa\w*|kvm|quiet"
    r"|splash|ro|rw|acpi\w*|idle|processor\.\w+)([._=]|$)"
)
_WHOLE_FOLDERS = ("/sys/", "/proc/", "/dev", "/etc/", "/windows")
GPU_FILE = re.compile(
    r"^(lib)?(hip|roc(m|r|blas|fft|sparse|solver|rand|dxg|prim|tx|profiler)|hsa|amd|miopen|opencl|cuda|zluda|drm|nvcuda)",
    re.IGNORECASE,
)
_MOST_NAMES = 2000  # of one folder
# A line of no trouble: what is found in it too is no pattern of a trouble.
_NO_TROUBLE = (
    "[    1.000000] amdgpu 0000:01:00.0: usb 1-1: new device number 2, Product: a-b_c.so.1.2.3 (x) [y] "
    "/dev/z 0x1f gfx1030 6.8.0 amdgpu/a_b.bin kernel: Linux GPU"
)
_OF_GPU = re.compile(r"amdgpu|kfd|drm|AMD-Vi|DMAR")
_HEAD = re.compile(r"^\S.*? kernel: ")  # day, time and name of the machine
_START = re.compile(r"\bLinux version \d")
_EVENT = re.compile(r"<Event\b.*?</Event>", re.DOTALL)
_OF_ZLUDA = re.compile(
    r"zluda|rocenv|rocm|nvcuda|nvml|nvapi64|nvrtc|amdhip|hiprtc|\bcu(blas|dnn|fft|sparse|dart)"
)
_GPU_PACKAGE = re.compile(r"rocm|hip|hsa|amdgpu|roc|miopen|libdrm|linux-image")
_EVENT_PARTS = re.compile(
    r"<(Security|Correlation)\b[^>]*/?>|<(Computer|UserID)>.*?</\2>", re.DOTALL | re.IGNORECASE
)
_NUMBERED = re.compile(
    r"(.*/)?(serial|serial_number|unique_id|hive_id|\w+_(serial|uuid|asset_tag)|machine-id|boot_id|uuid|address)"
)
_LARGEST_SYSTEM_ID = 999
_POINTS = "/ /home /root /tmp /var /var/tmp /opt /usr /dev /dev/shm /dev/dri /proc /sys /run"
_KEPT_POINTS = frozenset(_POINTS.split())
_PLAIN_OPTION = re.compile(
    r"rw|ro|no\w+|relatime|strictatime|vers=[0-9.]+|local_lock=\w+|hard|soft|cache=\w+"
)
_PLAIN_DEVICES = frozenset({"none", "tmpfs", "overlay", "devtmpfs", "rootfs", "sysfs", "proc", "udev"})


def private_words(files: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """Return what files themselves say is private -> what stands instead: it may be repeated anywhere."""
    found: dict[str, str] = {}
    for path, (text, _error) in files.items():
        if _NUMBERED.fullmatch(path) and len(text.strip()) > 5:
            found[text.strip()] = "0"
        elif path.endswith("/mountinfo"):
            found |= {word: instead for mount in mounts(text) for word, instead in _of_device(mount.device)}
    return found


def _of_device(device: str) -> Iterator[tuple[str, str]]:
    if device.startswith("//"):
        yield device[2:].partition("/")[0], "server"
    elif ":" in device:
        yield device.partition(":")[0], "server"
    elif device.startswith("/dev/mapper/"):
        yield device.removeprefix("/dev/mapper/"), "disk"


class Reduced:
    """Reduces the files of one machine."""

    def __init__(self, users: frozenset[str], real: Mapping[str, str], text: Callable[[str], str]) -> None:
        """Make it.

        Args:
            users: Names of the person whose machine it is, in its own spelling.
            real: Paths whose mounts were asked for, with what they lead to.
            text: Takes names out of a text.
        """
        self._users, self._real, self._text = users, real, text

    def file(self, path: str, text: str) -> str:
        """Return the part of a file that is needed, without names."""
        if _NUMBERED.fullmatch(path):
            return "0\n" if text.strip() else text
        name = path.rpartition("/")[2]
        if path in ("/proc/self/mountinfo", "/proc/1/mountinfo"):
            return self._mounts(text)
        if name in ("group", "passwd"):
            return self._members(text) if name == "group" else self._account(text)
        if name in ("hostname", "hosts", "resolv.conf"):
            return f"{HOST}\n"
        return self._text(_needed(path, name, text))

    def folder(self, path: str, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names in a folder that are needed; outside the system's own, those about GPUs."""
        if not path.startswith(_WHOLE_FOLDERS):
            names = tuple(filter(GPU_FILE.search, names))
        shown = (self._text(f"{path.rstrip('/')}/{name}").rpartition("/")[2] for name in names[:_MOST_NAMES])
        return tuple(dict.fromkeys(shown))

    def _account(self, text: str) -> str:
        lines = (line.split(":") for line in text.splitlines())
        own = (fields for fields in lines if len(fields) > 6 and fields[0] in self._users)
        return "".join(f"{USER}:x:{fields[2]}:{fields[3]}::/home/{USER}:/bin/sh\n" for fields in own)

    def _members(self, text: str) -> str:
        """Return the groups of the system; who is in them is the person, or somebody."""
        kept = []
        for fields in (line.split(":") for line in text.splitlines()):
            if len(fields) < 4 or not fields[2].isdecimal() or int(fields[2]) > _LARGEST_SYSTEM_ID:
                continue
            people = filter(None, map(str.strip, fields[3].split(",")))
            members = {USER if name in self._users else OTHER for name in people}
            name = "group" if fields[0] in self._users else self._text(fields[0])
            kept.append(f"{name}:x:{fields[2]}:{','.join(sorted(members))}\n")
        return "".join(kept)

    def _mounts(self, text: str) -> str:
        """Return the mounts that hold what was asked for, and those that are on every machine."""
        listed = list(zip(mounts(text), _lines(text), strict=True))
        kept = {mount.point: line for mount, line in listed if mount.point in _KEPT_POINTS}
        lines = [_mount_line(line, point) for point, line in kept.items()]
        for path in sorted(set(self._real.values())):
            held = holder((mount for mount, _ in listed), PurePosixPath(path))
            if held is not None and held.point not in _KEPT_POINTS:
                line = next(line for mount, line in reversed(listed) if mount == held)
                lines.append(_mount_line(line, self._shown_point(held, path)))
        return "".join(f"{line}\n" for line in dict.fromkeys(lines))

    def _shown_point(self, mount: Mount, path: str) -> str:
        """Return a mount point without names that holds the path without names."""
        point, shown = PurePosixPath(self._text(mount.point)), PurePosixPath(self._text(path))
        return str(point if point == shown or point in shown.parents else shown)


def _needed(path: str, name: str, text: str) -> str:
    if name == "cmdline":
        return " ".join(map(_parameter, text.split())) + "\n"
    if re.search(r"kmsg|dmesg|kern\.log|syslog|messages|journal", name):
        kept = (line for line in text.splitlines(keepends=True) if _is_telling(line))
        return "".join(_HEAD.sub("", line) for line in kept)
    if path.startswith("/var/lib/dpkg/"):
        packages = (each for each in text.split("\n\n") if _GPU_PACKAGE.search(each.partition("\n")[0]))
        wanted = ("Package:", "Status:", "Version:")
        return "\n\n".join(
            "\n".join(line for line in each.splitlines() if line.startswith(wanted)) for each in packages
        )
    if name == "defender.xml":  # of all that it took, what checks ask for
        text = _EVENT.sub(lambda event: event[0] if _OF_ZLUDA.search(event[0].lower()) else "", text)
    return _EVENT_PARTS.sub("", text) if name.endswith(".xml") else text


@cache
def log_patterns() -> tuple[re.Pattern[str], ...]:
    """Return what the checks look for in the kernel's log."""
    patterns = (value for value in vars(kernel).values() if isinstance(value, re.Pattern))
    return tuple(pattern for pattern in patterns if not pattern.search(_NO_TROUBLE))


def log_words() -> frozenset[str]:
    """Return the words in what the checks look for."""
    return frozenset(
        word.casefold() for each in log_patterns() for word in re.findall(r"[A-Za-z]{3,}", each.pattern)
    )


def _is_telling(line: str) -> bool:
    if _START.search(line):
        return True
    return _OF_GPU.search(line) is not None and any(each.search(line) for each in log_patterns())


def _lines(text: str) -> list[str]:
    """Return the lines that `mounts` makes something of."""
    return [line for line in text.splitlines() if next(mounts(line), None) is not None]


def _mount_line(line: str, point: str) -> str:
    left, _, right = line.partition(" - ")
    fields, tail = left.split(" "), right.split(" ")
    kind, device = tail[0], tail[1]
    if device != kind and device not in _PLAIN_DEVICES:
        device = "server:/share" if ":" in device else "//server/share" if device[:2] == "//" else "/dev/disk"
    spelled = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in point)
    options = [each for part in (*fields[5:6], *tail[2:3]) for each in part.split(",")]
    plain = ",".join(dict.fromkeys(filter(_PLAIN_OPTION.fullmatch, options))) or "rw"
    return f"0 0 0:0 / {spelled} {plain} - {kind} {device} {plain}"


def _parameter(parameter: str) -> str:
    if _PARAMETERS.match(parameter):
        return parameter
    name, is_given, _ = parameter.partition("=")
    return f"{name}=…" if is_given else name
