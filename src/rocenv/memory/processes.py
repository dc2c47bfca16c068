"""The processes of a Linux machine, as far as it takes to see who has a GPU open."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rocenv.host.gpu import printable
from rocenv.system.machine import list_folder, machine_path, read_attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = "/proc"
_DEVICES = ("/dev/dri/", "/dev/kfd")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of torvalds/linux:include/linux/sched.h
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of torvalds/linux:include/linux/proc_ns.h
_GONE = (FileNotFoundError, ProcessLookupError, NotADirectoryError)


def process_ids() -> list[int]:
    """Return the processes that are listed, by number."""
    return sorted(int(name) for name in list_folder(PROC) if re.fullmatch("[0-9]{1,10}", name))


def in_container() -> bool:
    """Tell whether only some of the machine's processes are listed here, under numbers of their own."""
    space = _link(f"{PROC}/self/ns/pid")
    return space not in ("", _FIRST_NAMESPACE)


def others_hidden(pids: list[int]) -> bool:
    """Tell whether the processes of other users are not even listed: `hidepid` of proc(5)."""
    return bool(pids) and 1 not in pids


def open_devices(pid: int) -> Iterator[str]:
    """Yield the paths of fdinfo of the GPU devices that a process has open.

    Raises:
        PermissionError: It is another user's.
    """
    folder = f"{PROC}/{pid}"
    base = os.fspath(machine_path(f"{folder}/fd"))
    try:
        numbers = os.listdir(base)
    except _GONE:
        # A copy of a machine may hold the texts without the links.
        yield from (f"{folder}/fdinfo/{name}" for name in list_folder(f"{folder}/fdinfo"))
        return
    for number in numbers:
        try:
            opened = os.readlink(f"{base}/{number}")
        except OSError:
            continue
        if opened.startswith(_DEVICES):
            yield f"{folder}/fdinfo/{number}"


def is_kernel_thread(pid: int) -> bool:
    """Tell whether it is a part of the kernel, or gone by now: neither holds memory of a GPU."""
    text, error = read_attribute(f"{PROC}/{pid}/stat")
    fields = text.rpartition(")")[2].split()
    if error or len(fields) < 7 or not fields[6].isdecimal():
        return bool(error)
    return bool(int(fields[6]) & _KERNEL_THREAD)


def name_of(pid: int) -> str:
    """Return what a process calls itself, "" where it does not say."""
    return printable(read_attribute(f"{PROC}/{pid}/comm")[0])


def command_of(pid: int) -> tuple[str, ...]:
    """Return the command line of a process; paths in it may be relative to its folder."""
    text = read_attribute(f"{PROC}/{pid}/cmdline")[0]
    return tuple(text.rstrip("\0").split("\0")) if text.strip("\0") else ()


def folder_of(pid: int) -> str:
    """Return the folder that a process works in, "" where that cannot be read."""
    return _link(f"{PROC}/{pid}/cwd")


def _link(path: str) -> str:
    try:
        return os.readlink(machine_path(path))
    except OSError:
        return ""
