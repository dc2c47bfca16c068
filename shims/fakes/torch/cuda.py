"""What the driver says of its devices."""

import ctypes

from torch._libraries import call, tried


def device_count():
    """Return how many there are, 0 without a driver."""
    count = ctypes.c_int()
    return count.value if tried("standin_device_count", ctypes.byref(count)) else 0


def is_available():
    """Tell whether there is one."""
    return device_count() > 0


def current_device():
    """Return the number of the device in use."""
    call("standin_device_count", ctypes.byref(ctypes.c_int()))
    return 0


def get_device_name(device=0):
    """Return what a device calls itself."""
    name = ctypes.create_string_buffer(256)
    call("standin_device_name", device, name, len(name))
    return name.value.decode(errors="replace")


def synchronize():
    """Return at once: nothing runs beside this."""
