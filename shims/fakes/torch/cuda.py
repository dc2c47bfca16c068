"""The devices that the driver reports."""

import ctypes

from torch._libraries import call, tried


def device_count():
    """Return the number of devices, or 0 without a driver."""
    count = ctypes.c_int()
    return count.value if tried("standin_device_count", ctypes.byref(count)) else 0


def is_available():
    """Whether the driver reports any device."""
    return device_count() > 0


def current_device():
    """Return the index of the current device."""
    call("standin_device_count", ctypes.byref(ctypes.c_int()))
    return 0


def get_device_name(device=0):
    """Return the name of a device."""
    name = ctypes.create_string_buffer(256)
    call("standin_device_name", device, name, len(name))
    return name.value.decode(errors="replace")


def synchronize():
    """Return immediately, because everything runs synchronously."""
