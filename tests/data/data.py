"""Data files for tests: for each table, a valid row and the rows that it depends on."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from rocenv.data.load import TABLES, load

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.data.rows import Matrix

Row = dict[str, Any]
Rows = list[tuple[str, Row]]  # table and row

KNOWN = {"status": "tested", "source": "tests/data/data.py", "checked": "2026-11-20"}

# Fields whose type alone does not determine a valid value.
_FITTING: dict[str, Row] = {
    "repo": {"keyrings": ["/usr/share/keyrings/x.gpg"]},
    "channel": {"repos": ["base"]},
    "pci": {"target": "gfx1030"},
    "gpu_name": {"target": "gfx1030"},
    "release": {"version": "9.9"},
    "support": {"rocm": "9.9"},
    "system_kernel": {"rocm": "9.9"},
    "driver_train": {"amdgpu": "22.20", "rocm": "9.9"},
    "display_driver": {"version": "25.4.1"},
    "wsl": {"rocm": ">=9.9"},
    "rocm": {"version": "9.9", "channel": "base", "packages": ["hip"]},
    "torch": {"version": "9.9", "rocm": "9.9"},
    "app_packages": {"channels": ["base"], "names": ["app"]},
    "compiler": {
        "version": "9.9",
        "channel": "base",
        "packages": ["clang"],
        "layout": {
            "root": "usr",
            "library_dirs": [],
            "libraries": {},
            "programs": [{"path": "usr/bin/clang"}],
        },
    },
    "shim_map": {"zluda": "==9.9"},
    "rocm_wheels": {
        "version": "9.9",
        "channel": "base",
        "targets": ["gfx1030", "gfx1031"],
        "python": ["3.12"],
    },
    "file_hash": {"sha256": "0" * 64},
    "hip_sdk": {"version": "9.9"},
    "zluda": {"version": "9.9"},
    "override": {"target": "gfx1030", "runs_as": "*"},
    "good_set": {"rocm": "==9.9.*"},
    "kernel_recipe": {"versions": ">=9.9"},
    "rule": {
        "pattern": [{"text": ["some text"], "weight": 0.5}],
        "why": [{"text": {"en": "x", "zh": "x"}}],
    },
    "extractor": {"text": ["some text"]},
    "first_kernel": {"target": "gfx1030", "linux": "5.9"},
    "origin": {"name": "x", "prefixes": ["https://a.example/"]},
    "mirror": {"of": "base", "address": "https://b.example/"},
    "never_together": {"variables": ["X"], "words": ["one", "other"]},
}


def example(table: str, **values: Any) -> Row:
    """Return a minimal row that is valid alongside `BASE`: the required fields plus `values`."""
    return {**_object(TABLES[table]), **KNOWN, **_FITTING.get(table, {}), **values}


def _object(kind: Any) -> Row:
    hints = get_type_hints(kind)
    required = [item.name for item in msgspec.structs.fields(kind) if item.required]
    return {name: _value(hints[name]) for name in required}


def _value(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _object(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return get_args(kind)[0]
    return {tuple: [], dict: {}, int: 0, bool: False}.get(origin or kind, "x")


# Rows that other rows may refer to.
BASE: Rows = [
    ("c_library", example("c_library")),
    ("target", example("target", name="gfx1030", generic="gfx10-3-generic")),
    ("target", example("target", name="gfx1031")),
    ("target", example("target", name="gfx1100")),
    ("generic_target", example("generic_target", name="gfx10-3-generic", members=["gfx1030", "gfx1031"])),
    ("repo", example("repo", name="base")),
    ("channel", example("channel", name="base")),
    ("hip_sdk", example("hip_sdk", version="6.2.4")),
    ("origin", example("origin", name="base")),
]


def text(rows: Rows) -> str:
    """Render rows as a data file, in the given order."""
    tables = [f"[[{table}]]\n" + "".join(f"{key} = {toml(row[key])}\n" for key in row) for table, row in rows]
    return "schema = 1\n" + "\n".join(tables)


def toml(value: Any) -> str:
    """Format a value as TOML."""
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {toml(content)}" for key, content in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def write(folder: Path, *files: Rows) -> Path:
    """Write each list of rows to its own file, `0.toml` and so on; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(files):
        (folder / f"{number}.toml").write_text(text(rows), encoding="utf-8")
    return folder


def loaded(folder: Path, *rows: tuple[str, Row]) -> Matrix:
    """Load `BASE` and a second file, `1.toml`, with these rows."""
    return load(write(folder, BASE, list(rows)))
