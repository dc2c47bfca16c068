"""`python -m rocenv.memory.dxgi_child`: print the memory that DXGI reports for display adapters, as JSON.

This is a separate process because a display driver can crash or hang its caller. DXGI reports the budget of
the calling process, and this process does not use GPU memory.

Source: learn.microsoft.com IDXGIFactory1::EnumAdapters1, DXGI_ADAPTER_DESC1, and
IDXGIAdapter3::QueryVideoMemoryInfo
"""

from __future__ import annotations

import ctypes
import json
import sys
import uuid
from typing import Any

_FACTORY = uuid.UUID("770aae78-f26f-4dba-a829-253c83d1b387")  # IDXGIFactory1
_ADAPTER = uuid.UUID("645967a4-1392-4310-a798-8053ce3e93fd")  # IDXGIAdapter3
# Vtable indexes, which include the methods of the base interfaces.
_QUERY_INTERFACE, _RELEASE = 0, 2
_GET_DESC1, _ENUM_ADAPTERS1, _QUERY_MEMORY = 10, 12, 14
_LOCAL = 0
_MAX_ADAPTERS = 64


class _Luid(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint32), ("high", ctypes.c_int32))


class _Description(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_uint16 * 128),
        ("vendor", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("subsystem", ctypes.c_uint32),
        ("revision", ctypes.c_uint32),
        ("dedicated", ctypes.c_size_t),
        ("dedicated_system", ctypes.c_size_t),
        ("shared", ctypes.c_size_t),
        ("luid", _Luid),
        ("flags", ctypes.c_uint32),
    )


class _Memory(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("budget", "usage", "available", "reserved"))


def main() -> int:
    """Print the adapters; return 0, or an exit code derived from the DXGI error."""
    dxgi = ctypes.CDLL("dxgi.dll")
    factory = ctypes.c_void_p()
    error: int = dxgi.CreateDXGIFactory1(_guid(_FACTORY), ctypes.byref(factory))
    if error:
        return error & 0xFF or 1
    adapters = []
    for number in range(_MAX_ADAPTERS):
        adapter = ctypes.c_void_p()
        if _call(factory, _ENUM_ADAPTERS1, ctypes.c_uint32(number), ctypes.byref(adapter)):
            break
        adapters.append(_describe(adapter))
        _call(adapter, _RELEASE)
    _call(factory, _RELEASE)
    sys.stdout.write(json.dumps(adapters, indent=1) + "\n")
    return 0


def _describe(adapter: ctypes.c_void_p) -> dict[str, Any]:
    description = _Description()
    if _call(adapter, _GET_DESC1, ctypes.byref(description)):
        return {}
    found: dict[str, Any] = {
        "luid": f"0x{description.luid.high & 0xFFFFFFFF:08x}_0x{description.luid.low:08x}",
        "name": bytes(description.name).decode("utf-16-le", errors="replace").partition("\0")[0],
    }
    found |= {name: getattr(description, name) for name in ("vendor", "device", "dedicated", "shared")}
    newer, memory = ctypes.c_void_p(), _Memory()
    if _call(adapter, _QUERY_INTERFACE, _guid(_ADAPTER), ctypes.byref(newer)):
        return found  # Windows 8.1 and earlier
    if not _call(newer, _QUERY_MEMORY, ctypes.c_uint32(0), ctypes.c_int(_LOCAL), ctypes.byref(memory)):
        found["local"] = {"budget": memory.budget, "usage": memory.usage}
    _call(newer, _RELEASE)
    return found


def _guid(value: uuid.UUID) -> Any:
    return ctypes.create_string_buffer(value.bytes_le, 16)


def _call(thing: ctypes.c_void_p, place: int, *arguments: Any) -> int:
    """Call a COM object's method by its vtable index."""
    table = ctypes.cast(thing, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    method = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *(_kind(each) for each in arguments))
    result: int = method(table[place] or 0)(thing, *arguments)
    return result


def _kind(argument: Any) -> Any:
    return type(argument) if isinstance(argument, (ctypes.c_uint32, ctypes.c_int)) else ctypes.c_void_p


if __name__ == "__main__":
    sys.exit(main())
