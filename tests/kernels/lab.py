"""An app with its kernel sources, and an env with a fake compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocenv.core.model import Component, Layout, Lock, Program, Record, Request
from rocenv.home import Home
from rocenv.prefix import Prefix
from tests import forked, shipped
from tests.programs import PYTHON

BITCODE = "usr/lib/bitcode"
PLAIN = (b"lib/%s_%s.fatbin.zst",)
UNCOMPRESSED = (b"lib/%s_%s.fatbin",)
WITH_RT = (*PLAIN, b"lib/%s_rt_%s.hipfb.zst")

# Prints what clang prints and records its arguments. A file next to it controls the rest of its behavior.
_CLANG = """{start}import json, os, pathlib, sys, time
sys.path.insert(0, {tests!r})
from tests.kernels.code import kernels
own = pathlib.Path(__file__).with_name("orders.json")
orders = json.loads(own.read_text()) if own.exists() else {{}}
if "--version" in sys.argv:
    print(orders.get("version", "fake clang version 21.1.8"))
    raise SystemExit(0)
with open(own.with_name("calls"), "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
target = next(word for word in sys.argv if word.startswith("--offload-arch=")).partition("=")[2]
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
pathlib.Path(os.environ["TMPDIR"], "half.o").write_text("on the way")
time.sleep(orders.get("seconds", 0))
print("warning: something", file=sys.stderr)
if orders.get("crash"):
    os.kill(os.getpid(), 11)
if orders.get("error"):
    print(orders["error"], file=sys.stderr)
    raise SystemExit(1)
if orders.get("nothing"):
    raise SystemExit(0)
made = orders.get("bytes")
out.write_bytes(kernels(target, orders.get("count", 75)) if made is None else bytes.fromhex(made))
"""


@dataclass
class Lab:
    """A home, a user and apps; `lab.run(...)` runs the real `rocenv kernels build blender`."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Home:
        return Home(self.root / "rocenv home")

    def run(self, *args: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `rocenv kernels build blender ARGS`."""
        if not options:
            argv = ["kernels", "build", "blender", *map(str, args)]
            return forked.run_text(argv, env=self.environ(), cwd=self.root, timeout_s=120)
        return subprocess.run(
            [*self.command(), *map(str, args)],
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "rocenv", "kernels", "build", "blender"]

    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "user"),
            "ROCENV_HOME": str(self.home.path),
            "ROCENV_OFFLINE": "1",
            "ROCENV_TARGET": "gfx1201",
            **self.variables,
        }

    def build(self, *args: str | Path, code: int = 0) -> dict[str, Any]:
        """Build kernels and return the JSON output, which describes the error if the build fails."""
        done = self.run(*args, "--json")
        assert done.returncode == code, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def orders(self, **orders: Any) -> None:
        """Configure the fake compiler."""
        (Prefix(self.home.envs / "cc").bin / "orders.json").write_text(json.dumps(orders))

    def calls(self) -> list[list[str]]:
        """Return the arguments of all compiler calls."""
        path = Prefix(self.home.envs / "cc").bin / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_lab(root: Path) -> Lab:
    """Create a lab whose `cc` env has the compiler."""
    lab = Lab(root)
    (root / "user").mkdir(parents=True)
    shipped.put_into(lab.home.path)
    prefix = Prefix(lab.home.envs / "cc")
    prefix.own.mkdir(parents=True)
    prefix.bin.mkdir()
    bitcode = prefix.path / "rocm" / BITCODE
    bitcode.mkdir(parents=True)
    for number in ("1030", "1100", "1201"):
        (bitcode / f"oclc_isa_version_{number}.bc").touch()
    clang = prefix.bin / "clang-21"
    clang.write_text(_CLANG.format(start=PYTHON, tests=str(Path(__file__).parents[2])))
    clang.chmod(0o755)
    layout = Layout(
        root="usr",
        library_dirs=("usr/lib",),
        libraries={},
        device_libs=BITCODE,
        programs=(Program(path="usr/bin/clang", names=("clang-21",)),),
    )
    part = Component(
        kind="compiler",
        name="cc",
        version="21",
        channel="lab",
        why="for tests",
        layout=layout.below("rocm"),
        into="rocm",
    )
    lock = Lock(request=Request(), platform="linux", target="", components=(part,), environment=())
    record = Record(name="cc", created="2026-11-22", rocenv_version="0", lock=lock)
    prefix.write_record(record, {})
    return lab


def make_app(
    root: Path, *, texts: tuple[bytes, ...] = PLAIN, lib: dict[str, bytes] | None = None, version: str = "5.2"
) -> Path:
    """Create an app that looks like an official build; `lib` contains its bundled kernels."""
    folder = root / version / "scripts" / "addons_core" / "cycles"
    for name, text in {
        "kernel/device/hip/kernel.cpp": "int kernel;\n",
        "kernel/device/hiprt/kernel.cpp": "int rays;\n",
        "kernel/types.h": "// types\n",
        "util/a.h": "// a\n",
    }.items():
        path = folder / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "__init__.py").write_text("# the add-on\n")
    (root / version / "datafiles").mkdir()
    for name, content in (lib or {}).items():
        (folder / "lib").mkdir(exist_ok=True)
        (folder / "lib" / name).write_bytes(content)
    # The program cannot run, so rocenv reads the version from the name of the resource folder.
    (root / "blender").write_bytes(b"\x7fnot ELF\0" + b"\0".join(texts) + b"\0")
    (root / "blender").chmod(0o755)
    return root
