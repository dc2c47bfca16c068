"""`python -m rocenv.host.hip_child LIBRARY`: ask HIP for its devices, and print them as `hipInfo` does.

Targets are not asked for, since the structure that holds them differs between releases; the display drivers'
PCI ids tell them.

Source: ROCm/HIP include/hip/hip_runtime_api.h
"""

from __future__ import annotations

import ctypes
import sys


def main(library: str) -> int:
    """Print the devices; return what the first failed call answered, 0 where none failed."""
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
        said = name.value.decode(errors="replace")
        sys.stdout.write(f"device# {device}\nName: {said}\ntotalGlobalMem: {total}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
