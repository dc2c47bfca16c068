"""Devices reported by the driver."""

import ctypes

from torch._libraries import call, tried


def device_count():
    """Return the number of devices, 0 without a driver."""
    count = ctypes.c_int()
    return count.value if tried("standin_device_count", ctypes.byref(count)) else 0


def is_available():
    """Whether the driver reports any device."""
    return device_count() > 0


def current_device():
    """Return the current device's index."""
    call("standin_device_count", ctypes.byref(ctypes.c_int()))
    return 0


def get_device_name(device=0):
    """Return a device's name."""
    name = ctypes.create_string_buffer(256)
    call("standin_device_name", device, name, len(name))
    return name.value.decode(errors="replace")


def synchronize():
    """Return at once, because everything runs synchronously."""
