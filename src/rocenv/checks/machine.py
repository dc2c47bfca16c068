"""Check disk space, the memory that an APU can use, and the age of rocenv's own data."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from datetime import date
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from rocenv.checks.context import distro
from rocenv.data.load import newest_day, profiles_folder
from rocenv.findings import Observation
from rocenv.host import kfd
from rocenv.system.disks import room_elsewhere
from rocenv.system.machine import free_bytes, read_attribute, tried

if TYPE_CHECKING:
    from rocenv.checks.context import CheckContext


_GIB = 1 << 30
_OPTIONS = re.compile(r"\b(?:ttm\.pages_limit|amdttm\.pages_limit|amdgpu\.gttsize)=\S+")


def apu_memory_small(context: CheckContext) -> Observation | None:
    """The kernel lets an APU use only a small part of the machine's memory."""
    gpu = context.host.gpu
    total = _machine_bytes()
    if gpu is None or not gpu.integrated or not gpu.memory_bytes or not total:
        return None
    # MemTotal does not include the memory that the BIOS reserved for the APU.
    share = gpu.memory_bytes / (total + (gpu.vram_bytes or 0))
    enough = context.limit("apu_enough") * _GIB
    if gpu.memory_bytes >= enough or share >= context.limit("apu_share") / 100:
        return None
    wanted = int(total * context.limit("apu_wanted") / 100)
    values = {
        "memory": _gib(gpu.memory_bytes),
        "machine": _gib(total),
        "pages": str(wanted // 4096),
        "wanted": _gib(wanted),
        "distro": distro(),
        "options": " ".join(_OPTIONS.findall(read_attribute("/proc/cmdline")[0])),
    }
    evidence = [f"mem_info_vram_total: {gpu.vram_bytes}", f"mem_info_gtt_total: {gpu.gtt_bytes}"]
    evidence += [f"MemTotal: {total}", *filter(None, [values["options"]])]
    return Observation("apu_memory_small", values, tuple(evidence))


def apu_carve_out_only(context: CheckContext) -> Observation | None:
    """ROCm can use only the memory that the BIOS reserved for an APU, as on older kernels."""
    gpu = context.host.gpu
    if gpu is None or not gpu.integrated or gpu.node is None:
        return None
    seen = next((node.memory_bytes for node in kfd.gpu_nodes() if node.number == gpu.node), 0)
    if not seen or seen >= context.limit("apu_least") * _GIB or (gpu.memory_bytes or 0) < 2 * seen:
        return None
    values = {"memory": _gib(seen), "all": _gib(gpu.memory_bytes or 0), "kernel": context.host.driver.kernel}
    return Observation("apu_carve_out_only", values, (f"{kfd.NODES}/{gpu.node}/mem_banks: {seen}",))


def disk_nearly_full(context: CheckContext) -> Observation | None:
    """The disk that holds the envs does not have enough space for another env.

    Envs are created on this machine, so its disk counts even if `ROCENV_SYSROOT` is set.
    """
    folder = context.home.path
    free = tried("free bytes", str(folder), lambda: free_bytes(folder), -1, of_home=True)
    least = context.limit("disk_least") * _GIB
    if free < 0 or free >= least:
        return None

    def elsewhere() -> str:
        room = room_elsewhere(folder, int(least))
        return str(room.folder) if room else ""

    other = tried("room elsewhere", str(folder), elsewhere, "", of_home=True)
    values = {"free": _gib(free), "folder": str(folder), "least": _gib(least), "other": other}
    return Observation("disk_nearly_full", values, (f"{folder}: {_gib(free)} free",))


def _machine_bytes() -> int:
    found = re.search(r"^MemTotal:\s+([0-9]{1,15}) kB", read_attribute("/proc/meminfo")[0], re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _gib(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


def data_old(context: CheckContext) -> Observation | None:
    """The data was last checked against its sources months ago."""
    newest = None if context.elsewhere else newest_day()
    if newest is None:
        return None
    age = (date.today() - newest).days
    if age <= context.limit("data_days"):
        return None
    clone, is_editable = _clone()
    values = {"age": str(age), "day": newest.isoformat()}
    if clone is not None:
        values["clone"] = str(clone)
        if not is_editable and util.find_spec("pip"):
            values["python"] = sys.executable
    return Observation("data_old", values, (f"{profiles_folder()}: newest row checked on {newest}",))


def _clone() -> tuple[Path | None, bool]:
    """The git clone from which rocenv was installed, and whether the installation is editable.

    Source: PEP 610, direct_url.json.
    """
    with suppress(metadata.PackageNotFoundError, ValueError, KeyError, AttributeError, TypeError):
        origin: Any = json.loads(metadata.distribution("rocenv").read_text("direct_url.json") or "{}")
        url = urlsplit(origin["url"])
        clone = Path(url2pathname(url.path))
        if url.scheme == "file" and (clone / ".git").exists():
            return clone, bool(origin.get("dir_info", {}).get("editable"))
    return None, False
