"""Debian's real Blender with a fake HIP runtime, in a minimal env.

Blender, its data and its libraries, except for the HIP runtime, come from the lane's env. Blender therefore
finds a HIP runtime only if a test adds one to the minimal env.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocenv.core.model import EnvChange, Layout
from tests.host.roots import Root
from tests.launch.lab import Lab, component

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocenv.prefix import Prefix

SOURCE = Path(__file__).parents[2] / "shims" / "fakes" / "renderer_hip.c"
LIBRARIES = "rocm/lib"
SCENE = """
import bpy
scene = bpy.context.scene
scene.render.engine = "CYCLES"
scene.cycles.device = "GPU"
scene.cycles.samples = 1
scene.cycles.use_denoising = False
scene.render.resolution_x = scene.render.resolution_y = 16
scene.render.resolution_percentage = 100
bpy.ops.wm.save_as_mainfile(filepath="{path}")
"""
# Accepts any arguments and writes a code object that the fake runtime accepts.
HIPCC = """#!/bin/sh
for word; do [ "$last" = -o ] && output=$word; last=$word; done
[ -n "$output" ] || exit 0
printf '\\177ELF\\002\\001\\001\\100\\003\\000\\000\\000\\000\\000\\000\\000\\003\\000\\340\\000' >"$output"
head -c 64 /dev/zero >>"$output"
"""


def build(folder: Path, name: str = "libamdhip64.so.6", version: int = 60443484) -> Path:
    """Build the fake HIP runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", "-O1", f"-DSTANDIN_HIP_VERSION={version}", f"-Wl,-soname,{name}"]
    subprocess.run(["cc", *options, str(SOURCE), "-o", str(folder / name)], check=True)
    return folder / name


@dataclass
class Studio:
    """A copy of Blender without a HIP runtime, and scripts that start it."""

    art: Prefix  # the lane's env
    folder: Path

    @classmethod
    def make(cls, art: Prefix, folder: Path) -> Studio:
        """Link the libraries, and create a scene file."""
        links = folder / "libraries"
        links.mkdir(parents=True)
        for path in (art.path / "rocm" / "usr/lib/x86_64-linux-gnu").iterdir():
            if not path.name.startswith("libamdhip64"):
                (links / path.name).symlink_to(path)
        studio = cls(art, folder)
        studio.starter(folder / "blender")
        text = SCENE.format(path=studio.scene)
        made = ["-b", "--factory-startup", "--python-exit-code", "9", "--python-expr", text]
        done = subprocess.run([folder / "blender", *made], capture_output=True, timeout=120, check=False)
        assert studio.scene.is_file(), done.stdout + done.stderr
        return studio

    @property
    def scene(self) -> Path:
        """A scene of 16 by 16 pixels, rendered on the GPU with one sample."""
        return self.folder / "scene.blend"

    @property
    def resources(self) -> Path:
        """The folder with Blender's own data."""
        return self.art.path / "rocm" / "usr/share/blender"

    def starter(self, path: Path, resources: Path | None = None) -> Path:
        """Write a script that starts this Blender; `resources` replaces its data."""
        usr = self.art.path / "rocm" / "usr"
        system = usr / "lib/x86_64-linux-gnu"
        named = ("lapack", "blas", "pulseaudio")
        folders = [self.folder / "libraries", *(system / each for each in named), usr / "lib"]
        loader = shlex.quote(str(system / "ld-linux-x86-64.so.2"))
        where = ":".join(shlex.quote(str(each)) for each in folders)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "#!/bin/sh\n"
            f"export BLENDER_SYSTEM_PYTHON={shlex.quote(str(usr))}\n"
            f"export BLENDER_SYSTEM_RESOURCES={shlex.quote(str(resources or self.resources))}\n"
            f'exec {loader} --library-path "$LD_LIBRARY_PATH":{where} --argv0 "$0" '
            f'{shlex.quote(str(usr / "bin/blender"))} "$@"\n'
        )
        path.chmod(0o755)
        return path

    def with_kernels(self, folder: Path, target: str) -> Path:
        """Copy Blender's data as symlinks, and add kernels for a target."""
        cycles = "scripts/addons_core/cycles"
        for source, folders, names in os.walk(self.resources):
            here = folder / os.path.relpath(source, self.resources)
            here.mkdir(parents=True, exist_ok=True)
            for name in names:
                (here / name).symlink_to(os.path.join(source, name))
            for name in [each for each in folders if os.path.islink(os.path.join(source, each))]:
                (here / name).symlink_to(os.path.join(source, name))
        lib = folder / cycles / "lib"
        lib.mkdir(exist_ok=True)
        import zstandard

        code = b"\x7fELF\2\1\1\x40\3" + bytes(7) + b"\3\0\xe0\0" + bytes(64)
        (lib / f"kernel_{target}.fatbin.zst").write_bytes(zstandard.compress(code))
        return folder


class Bench(Lab):
    """An env, and a machine with an RX 9070 XT."""

    studio: Studio
    tools: Path  # the env's PATH contains this folder

    def prepare(
        self, studio: Studio, *, runtime: Mapping[str, Path], rocm: str = "6.4.3", hip: str = "6.4"
    ) -> Bench:
        """Create the env with these libraries (name -> file)."""
        self.studio = studio
        machine = Root(self.root / "linux").kernel().cpu().gpu(1, device=0x7550, version=120001)
        layout = Layout(
            root="", library_dirs=("lib",), libraries={"hip": next(iter(runtime), "")}, runtime={"hip": hip}
        )
        changes = (
            EnvChange(action="prepend", name="LD_LIBRARY_PATH", value="{prefix}/" + LIBRARIES),
            EnvChange(action="set", name="XDG_CACHE_HOME", value="{prefix}/cache"),
            EnvChange(action="prepend", name="PATH", value="{prefix}/bin"),
        )
        parts = (component("rocm", rocm, "amd", layout=layout.below("rocm"), into="rocm"),)
        prefix = self.make("art", parts, platform="linux", target="gfx1201", changes=changes)
        (prefix.path / LIBRARIES).mkdir(parents=True)
        for name, path in runtime.items():
            (prefix.path / LIBRARIES / name).symlink_to(path)
        self.tools = prefix.path / "bin"
        self.tools.mkdir()
        studio.starter(self.app / "blender")
        self.env["ROCENV_SYSROOT"] = str(machine.path)
        self.env["XDG_CONFIG_HOME"] = str(self.root / "config")
        return self

    def put_hipcc(self, text: str = HIPCC) -> None:
        """Put a fake compiler on the env's PATH."""
        path = self.tools / "hipcc"
        path.write_text(text)
        path.chmod(0o755)

    def render(self, *more: str, environ: Mapping[str, str] | None = None) -> Rendered:
        """Render one frame through `rocenv launch`."""
        words = ("./blender", "-b", str(self.studio.scene), *more, "-o", str(self.root / "frame"), "-f", "1")
        done = self.run("launch", "art", "--app", "blender", "--", *words, environ=environ, timeout=120)
        return Rendered(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True)
class Rendered:
    """The exit code and output of one Blender process."""

    code: int
    printed: str  # stdout, from Blender and the fake runtime
    told: str  # stderr

    @property
    def all(self) -> str:
        """Both outputs."""
        return self.printed + self.told
