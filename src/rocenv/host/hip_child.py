"""The child process that lists HIP's devices in the format of `hipInfo`.

It does not query targets, because the structure that contains them differs between releases; the PCI IDs
from the display drivers identify the targets.

Source: ROCm/HIP include/hip/hip_runtime_api.h
"""

from __future__ import annotations

import ctypes
import sys


def main(library: str) -> int:
    """Print the devices, and return the error code of the first failed call."""
    hip = ctypes.CDLL(library)
    count = ctypes.c_int()
    error: int = hip.hipGetDeviceCount(ctypes.byref(count))
    if error:
        sys.stdout.write(f'hipGetDeviceCount: "error {error}"\n')
        return error
    for device in range(count.value):
        name = ctypes.create_string_buffer(256)
        memory = ctypes.c_size_t()
        error = hip.hipDeviceGetName(name, len(name), device) or hip.hipDeviceTotalMem(
            ctypes.byref(memory), device
        )
        if error:
            return error
        total = f"{memory.value / (1 << 30):.2f} GB"
        name_text = name.value.decode(errors="replace")
        sys.stdout.write(f"device# {device}\nName: {name_text}\ntotalGlobalMem: {total}\n")
    return 0
