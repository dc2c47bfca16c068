"""Code objects and offload bundles that look like a compiler's output but do not contain code."""

from __future__ import annotations

import struct

ELF_MACHINE = 224
NUMBERS = {"gfx1030": 0x36, "gfx1100": 0x41, "gfx1201": 0x4E}


def code_object(names: list[str], number: int, machine: int = ELF_MACHINE) -> bytes:
    """Build an ELF file that lists the symbols in both symbol tables, as linkers do."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    offsets = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in names]
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", at, 0x11, 0, 1, 0, 64) for at in offsets)
    titles = b"\0.strtab\0.symtab\0.dynsym\0"
    places = [64, 64 + len(strings), 64 + len(strings) + len(symbols)]
    table = places[2] + len(titles)

    def section(name: bytes, kind: int, at: int, size: int, link: int = 0, entry: int = 0) -> bytes:
        return struct.pack("<IIQQQQIIQQ", titles.index(name), kind, 0, 0, at, size, link, 1, 1, entry)

    sections = [
        bytes(64),
        section(b".strtab", 3, places[0], len(strings)),
        section(b".symtab", 2, places[1], len(symbols), 1, 24),
        section(b".dynsym", 11, places[1], len(symbols), 1, 24),
        section(b".strtab", 3, places[2], len(titles)),
    ]
    head = b"\x7fELF\x02\x01\x01\x40\x04" + bytes(7)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, table, number, 64, 0, 0, 64, len(sections), 4)
    return head + strings + symbols + titles + b"".join(sections)


def bundle(target: str, code: bytes) -> bytes:
    """Build a bundle as `clang-offload-bundler` does, with an empty host entry and code for a target."""
    names = [b"host-x86_64-unknown-linux-gnu", b"hipv4-amdgcn-amd-amdhsa--" + target.encode()]
    at = 24 + 8 + sum(24 + len(name) for name in names)
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2)
    for name, size in zip(names, (0, len(code)), strict=True):
        head += struct.pack("<QQQ", at, size, len(name)) + name
    return head + code


def kernels(target: str, count: int = 75) -> bytes:
    """Build a bundle with `count` kernels for a target."""
    names = [f"kernel_{number}.kd" for number in range(count)]
    return bundle(target, code_object(names, NUMBERS[target]))
