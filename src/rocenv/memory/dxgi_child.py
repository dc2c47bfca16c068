"""`python -m rocenv.memory.dxgi_child`: print the memory of the display adapters as DXGI tells it, as JSON.

In a process of its own, for a display driver can crash or hang whoever asks it. The budget is that of the
process that asks, which uses nothing itself.

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
# Places in the tables of methods, those of the interfaces they are made from counted.
_QUERY_INTERFACE, _RELEASE = 0, 2
_GET_DESC1, _ENUM_ADAPTERS1, _QUERY_MEMORY = 10, 12, 14
_LOCAL, _NON_LOCAL = 0, 1
_MOST = 64  # adapters
_FIELDS = ("budget", "usage", "available", "reserved")


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
    _fields_ = tuple((name, ctypes.c_uint64) for name in _FIELDS)


def main() -> int:
    """Print the adapters; return what the first failed call answered, 0 where none failed."""
    dxgi = ctypes.CDLL("dxgi.dll")
    factory = ctypes.c_void_p()
    error: int = dxgi.CreateDXGIFactory1(_guid(_FACTORY), ctypes.byref(factory))
    if error:
        return error & 0xFF or 1
    adapters = []
    for number in range(_MOST):
        adapter = ctypes.c_void_p()
        if _call(factory, _ENUM_ADAPTERS1, ctypes.c_uint32(number), ctypes.byref(adapter)):
            break
        adapters.append(_told(adapter))
        _call(adapter, _RELEASE)
    _call(factory, _RELEASE)
    sys.stdout.write(json.dumps(adapters, indent=1) + "\n")
    return 0


def _told(adapter: ctypes.c_void_p) -> dict[str, Any]:
    said = _Description()
    if _call(adapter, _GET_DESC1, ctypes.byref(said)):
        return {}
    told: dict[str, Any] = {
        "luid": f"0x{said.luid.high & 0xFFFFFFFF:08x}_0x{said.luid.low:08x}",
        "name": bytes(said.name).decode("utf-16-le", errors="replace").partition("\0")[0],
    }
    told |= {name: getattr(said, name) for name in ("vendor", "device", "revision", "dedicated", "shared")}
    newer = ctypes.c_void_p()
    if _call(adapter, _QUERY_INTERFACE, _guid(_ADAPTER), ctypes.byref(newer)):
        return told  # Windows 8.1 and before
    for name, group in (("local", _LOCAL), ("non_local", _NON_LOCAL)):
        memory = _Memory()
        if not _call(newer, _QUERY_MEMORY, ctypes.c_uint32(0), ctypes.c_int(group), ctypes.byref(memory)):
            told[name] = {field: getattr(memory, field) for field in _FIELDS}
    _call(newer, _RELEASE)
    return told


def _guid(value: uuid.UUID) -> Any:
    return ctypes.create_string_buffer(value.bytes_le, 16)


def _call(thing: ctypes.c_void_p, place: int, *arguments: Any) -> int:
    """Call the method at a place in the table that a COM object begins with."""
    table = ctypes.cast(thing, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    method = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *(_kind(each) for each in arguments))
    answered: int = method(table[place] or 0)(thing, *arguments)
    return answered


def _kind(argument: Any) -> Any:
    return type(argument) if isinstance(argument, (ctypes.c_uint32, ctypes.c_int)) else ctypes.c_void_p


if __name__ == "__main__":
    sys.exit(main())
