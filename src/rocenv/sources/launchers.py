r"""Scripts of a venv that find their interpreter beside themselves, so that the venv may be renamed.

pip writes the venv's path into each of them. On Windows that is the `#!` line between a launcher and the
script in `Scripts\NAME.exe`, which understands `<launcher_dir>`; elsewhere it is a script's first line.
Source: https://github.com/pypa/distlib/issues/117
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import zipfile
from typing import TYPE_CHECKING

from rocenv.sources.wheel_tool import python_of, site_packages
from rocenv.system import WINDOWS
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

# What is a command to sh is a string to Python.
_POSIX = b"""#!/bin/sh
'''exec' "$(dirname "$(realpath "$0")")/python" "$0" "$@"
' '''
"""
_LAUNCHER = b"#!<launcher_dir>\\python.exe"
_BY_ASSOCIATION = b"#!/usr/bin/env python"  # what starts `.py` files knows no `<launcher_dir>`
_ACTIVATE_BAT = b'@for %%i in ("%~dp0..") do @set "VIRTUAL_ENV=%%~fi"'
# These name the venv's path, and a file that is sourced by sh, csh or fish cannot tell where it lies.
_NOT_RELOCATABLE = ("activate", "activate.csh", "activate.fish", "activate.nu")


def make_relocatable(venv: Path) -> None:
    """Let every script of a venv that was just written work wherever the venv is moved to."""
    programs = python_of(venv).parent
    changed = {
        path.name: data
        for path in programs.iterdir()
        if path.is_file() and not path.is_symlink() and (data := _relative(path, programs))
    }
    for name, data in changed.items():
        mode = (programs / name).stat().st_mode
        write_atomic(programs / name, data)
        (programs / name).chmod(mode)
    if changed:
        for record in site_packages(venv).glob("*.dist-info/RECORD"):
            _correct(record, programs, changed)
    for name in _NOT_RELOCATABLE:
        (programs / name).unlink(missing_ok=True)
    _replace(programs / "activate.bat", rb'^@?set "?VIRTUAL_ENV=[^\r\n]*', _ACTIVATE_BAT)
    _replace(venv / "pyvenv.cfg", rb"^command = [^\r\n]*\r?\n", b"")  # how it was made, for people


def _relative(path: Path, programs: Path) -> bytes:
    """Return a script with a relative `#!` line; nothing if it names no interpreter of this venv."""
    data = path.read_bytes()
    own = os.fsencode(programs)
    if not WINDOWS:
        # distlib writes two more lines where the path is long or has spaces
        longer = re.compile(rb"#!/bin/sh\n'''exec' (.*) \"\$0\" \"\$@\"\n' '''\n").match(data)
        first = longer or re.compile(rb"#!(.*)\n").match(data)
        return _POSIX + data[first.end() :] if first and own in first[1] else b""
    start = _after_launcher(path) if path.suffix == ".exe" else 0
    line = re.compile(rb"#![^\r\n]*(?=\r?\n)")
    # The line stands right before the script's archive, or at the start of a script that is none.
    before = data.rfind(b"#!", 0, start) if start else 0
    found = line.match(data, max(before, 0))
    if found is None or own.lower() not in found[0].lower():
        return b""
    return data[: found.start()] + (_LAUNCHER if start else _BY_ASSOCIATION) + data[found.end() :]


def _after_launcher(path: Path) -> int:
    """Return where the archive behind a launcher begins, 0 where there is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return min((member.header_offset for member in archive.infolist()), default=0)
    except zipfile.BadZipFile:
        return 0


def _correct(record: Path, programs: Path, changed: dict[str, bytes]) -> None:
    """Write the hashes of changed scripts into the list of files of the wheel that they belong to."""
    with record.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    found = False
    site = record.parent.parent
    for row in rows:
        data = changed.get(row[0].rpartition("/")[2]) if row else None
        if data is not None and os.path.normpath(site / row[0]) == os.path.normpath(
            programs / os.path.basename(row[0])
        ):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            row[1:3] = [f"sha256={digest}", str(len(data))]
            found = True
    if found:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        write_atomic(record, text.getvalue().encode())


def _replace(file: Path, pattern: bytes, by: bytes) -> None:
    if file.is_file():
        data = file.read_bytes()
        text = re.sub(pattern, lambda _: by, data, flags=re.MULTILINE)
        if text != data:
            write_atomic(file, text)
