"""Checks before Blender starts: the runtime, driver and target that it requires."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from rocenv.core.model import EnvChange, Layout
from rocenv.core.versions import allows
from rocenv.data.load import load
from tests.host.roots import Root
from tests.launch.lab import Lab, component
from tests.network import cannot_run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KINDS = {
    "gfx1201": (0x7550, 120001),
    "gfx1100": (0x744C, 110000),
    "gfx906": (0x66AF, 90006),
    "gfx1153": (0, 110503),
}
OLD_HELP = (
    "-b or --background",
    "-f or --render-frame <frame>",
    "--python-exit-code <code>",
    "--log-level <level>",
)
NEW_HELP = (*OLD_HELP, "--log-list-categories", "--cycles-device <device>")
HELD = (
    'import sys; "_cycles" in sys.builtin_module_names and __import__("_cycles").set_device_override("HIP")'
)
DETAILS = "added `--log-level debug`"


class Bench(Lab):
    """A Linux machine, a ROCm env, and a fake Blender that reports a version."""

    def prepare(
        self,
        rocm: str = "6.4.3",
        hip: str = "6.4",
        files: Sequence[str] = ("libamdhip64.so.6",),
        target: str = "gfx1201",
    ) -> Bench:
        """Create the machine and the `art` env."""
        device, version = KINDS[target]
        root = Root(self.root / "linux").kernel().cpu().gpu(1, device=device, version=version)
        self.env["ROCENV_SYSROOT"] = str(root.path)
        layout = Layout(root="", library_dirs=("lib",), libraries={}, runtime={"hip": hip})
        self.make(
            "art",
            (component("rocm", rocm, "amd", layout=layout.below("rocm"), into="rocm"),),
            platform="linux",
            target=target,
            changes=(EnvChange(action="prepend", name="LD_LIBRARY_PATH", value="{prefix}/rocm/lib"),),
            files=tuple(f"rocm/lib/{name}" for name in files),
        )
        return self

    def blender(
        self, version: str, *, name: str = "blender", help_lines: Sequence[str] = NEW_HELP, more: str = ""
    ) -> None:
        """Write a fake Blender that prints its arguments and logs version queries to `asked`."""
        path = self.app / name
        text = "\n".join(f"{line}\n\tSentence." for line in help_lines)
        path.write_text(
            f'#!/bin/sh\n{more}\ncase "$*" in\n'
            f"--version) echo asked >>'{self.asked}'; echo 'Blender {version}'; exit 0 ;;\n"
            f"--help) cat <<'EOF'\n{text}\nEOF\nexit 0 ;;\n"
            "*available_devices*) echo 'HIP: AMD Radeon RX 9070 XT'; exit 0 ;;\nesac\n"
            'echo "ARGS $*"\necho "Path tracing on: AMD Radeon (HIP) [HIP_AMD Radeon_0000:03:00]"\n'
        )
        path.chmod(0o755)

    def native(self, version: str, name: str = "blender") -> None:
        """Compile a fake Blender that only logs version queries."""
        if shutil.which("cc") is None:
            cannot_run("needs a C compiler")
        source = self.root / "blender.c"
        source.write_text(
            "#include <stdio.h>\n#include <string.h>\nint main(int count, char **words) {\n"
            '  for (int i = 1; i < count; i++) { if (strstr(words[i], "available_devices")) puts("HIP: X");\n'
            f'    if (!strcmp(words[i], "--version")) {{ FILE *asked = fopen("{self.asked}", "a");\n'
            f'      fputs("asked\\n", asked); puts("Blender {version}"); }}\n'
            '    if (!strcmp(words[i], "--help")) puts("-b or --background\\n\\tSentence."); }\n'
            '  puts("[HIP_X]"); return 0; }\n'
        )
        subprocess.run(["cc", str(source), "-o", str(self.app / name)], check=True)

    @property
    def asked(self) -> str:
        """The log of version queries, one per line."""
        return str(self.root / "asked")

    def times_asked(self) -> int:
        """The number of version queries."""
        with open(self.asked) as file:
            return len(file.readlines())

    def launch(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = self.run("launch", "art", "--app", "blender", "--", "./blender", *words)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def render(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Launch a render."""
        return self.launch("-b", "a scene.blend", "-f", "1", *more)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A machine and an app's folder, at a path with a space."""
    return Bench(tmp_path / "a b")


class TestArguments:
    def test_arguments_that_rocenv_adds_come_first(self, bench: Bench) -> None:
        bench.prepare().blender("5.2.2 LTS")
        done = bench.render()
        first = f"--python-exit-code 1 --debug-cycles --log-level debug --python-expr {HELD}"
        assert f"ARGS {first} -b a scene.blend -f 1\n" in done.stdout, done.stderr
        assert done.returncode == 0 and "why:" not in done.stderr

    def test_arguments_of_a_script_stay_at_the_end(self, bench: Bench) -> None:
        """The user's script may reject unknown arguments."""
        bench.prepare().blender("5.2.2 LTS")
        done = bench.launch(
            "-b", "a scene.blend", "-P", "my.py", "--python-expr", "1", "--", "--samples", "3"
        )
        assert f"--python-expr {HELD} -b" in done.stdout
        assert done.stdout.splitlines()[0].endswith("-P my.py --python-expr 1 -- --samples 3")

    @pytest.mark.parametrize("theirs", ["-v", "--help", "-h 1080", "--cycles-device HIP"])
    def test_arguments_of_a_script_are_not_mistaken_for_arguments_of_blender(
        self, bench: Bench, theirs: str
    ) -> None:
        """`-h` may be a script's height option, but Blender's `-h` means help."""
        bench.prepare().blender("5.2.2 LTS")
        done = bench.render("-P", "my.py", "--", *theirs.split())
        assert done.stdout.startswith("ARGS --python-exit-code 1 --debug-cycles")
        assert done.stdout.splitlines()[0].endswith(f"-P my.py -- {theirs}")
        done = bench.launch("a scene.blend", "-P", "my.py", "--", "-b", "4")
        assert "ARGS a scene.blend -P my.py -- -b 4\n" in done.stdout, "Blender opens a window"

    def test_cpu_work_is_reported_even_with_a_script(self, bench: Bench) -> None:
        bench.prepare().blender("5.2.2 LTS")
        path = bench.app / "blender"
        path.write_text(path.read_text().replace("[HIP_", "[CPU_"))
        assert "nothing in its output shows that it used the GPU" in bench.render("--", "-h", "1080").stderr
        assert "nothing shows" not in bench.render("--", "--cycles-device", "CPU").stderr
        assert "nothing shows" not in bench.render("--help").stderr

    def test_the_device_that_the_user_chose_is_kept(self, bench: Bench) -> None:
        bench.prepare().blender("5.2.2 LTS")
        done = bench.render("--", "--cycles-device", "HIP+CPU")
        assert "-f 1 -- --cycles-device HIP+CPU\n" in done.stdout and "--python-expr" not in done.stdout

    def test_numeric_log_levels_are_not_changed(self, bench: Bench) -> None:
        bench.prepare().blender("4.5.3", help_lines=OLD_HELP)
        done = bench.render()
        assert "ARGS --python-exit-code 1 --debug-cycles --python-expr" in done.stdout
        assert DETAILS not in done.stderr

    def test_blenders_gui_gets_no_arguments(self, bench: Bench) -> None:
        bench.prepare().blender("5.2.2 LTS")
        assert "ARGS a scene.blend\n" in bench.launch("a scene.blend").stdout


class TestRuntime:
    @pytest.mark.parametrize(
        ("version", "rocm", "hip", "library", "spec"),
        [
            ("4.3.2", "6.4.3", "6.4", "libamdhip64.so.6", "<6"),
            ("4.5.3 LTS", "5.7.1", "5.7", "libamdhip64.so.5", ">=6,<7"),
            ("4.5.3 LTS", "7.1.1", "7.1", "libamdhip64.so.7", ">=6,<7"),
            ("5.2.2 LTS", "6.2.4", "6.2", "libamdhip64.so.6", ">=6.3"),
        ],
    )
    def test_a_runtime_from_an_incompatible_series_is_an_error(
        self, bench: Bench, version: str, rocm: str, hip: str, library: str, spec: str
    ) -> None:
        bench.prepare(rocm, hip, (library,), "gfx1100").blender(version)
        done = bench.render()
        number = version.partition(" ")[0]
        assert done.returncode == 1 and "ARGS" not in done.stdout
        assert f"Blender {number} needs ROCm {spec}, but the env has {rocm}" in done.stderr
        assert f"`rocenv create art2 --rocm '{spec}' --target gfx1100 --app blender`" in done.stderr

    @pytest.mark.parametrize(
        ("version", "rocm", "hip"), [("4.3.2", "5.7.1", "5.7"), ("5.2.2", "7.1.1", "7.1")]
    )
    def test_a_compatible_runtime_is_accepted(self, bench: Bench, version: str, rocm: str, hip: str) -> None:
        bench.prepare(rocm, hip, (f"libamdhip64.so.{rocm[0]}",), "gfx1100").blender(version)
        done = bench.render()
        assert done.returncode == 0
        assert "works with the runtime" not in done.stderr and "which is not the env's" not in done.stderr

    def test_a_runtime_that_is_too_old_for_blender_is_an_error(self, bench: Bench) -> None:
        # Blender 5.2 accepts every ROCm 6.3 release, so the test adds a stricter row.
        own = bench.root / "home" / "profiles"
        own.mkdir(parents=True)
        row = next(
            each for each in load().app_release if each.platform == "linux" and allows(each.versions, "5.2")
        )
        (own / "own.toml").write_text(
            f'schema = 1\n[[app_release]]\napp = "blender"\nversions = "{row.versions}"\nplatform = "linux"\n'
            'runtime = 60500000\nlibraries = ["libamdhip64.so.6"]\nstatus = "tested"\nsource = "x"\n'
            'checked = "2026-11-22"\n'
        )
        bench.prepare().blender("5.2.2")
        done = bench.render()
        assert done.returncode == 1
        assert "rejects HIP runtimes older than 6.5.0" in done.stderr

    def test_a_runtime_with_unknown_file_names_is_an_error(self, bench: Bench) -> None:
        bench.prepare(files=("libamdhip64.so.8",)).blender("5.2.2")
        done = bench.render()
        assert done.returncode == 1
        assert "looks for libamdhip64.so, libamdhip64.so.7, libamdhip64.so.6, /opt/rocm" in done.stderr

    def test_blenders_gui_opens_without_a_runtime(self, bench: Bench) -> None:
        bench.prepare(files=()).blender("5.2.2")
        done = bench.launch()
        assert done.returncode == 0
        assert "warning: Blender 5.2.2 would not find the env's HIP runtime. It looks for" in done.stderr

    def test_a_runtime_that_blender_loads_by_absolute_path_is_reported(self, bench: Bench) -> None:
        bench.prepare("5.7.1", "5.7", ("libamdhip64.so.5",), "gfx1100").blender("3.6.9")
        Root(bench.root / "linux").put("opt/rocm/hip/lib/libamdhip64.so", "")
        done = bench.render()
        assert (
            "would load `/opt/rocm/hip/lib/libamdhip64.so`, which is not the env's HIP runtime" in done.stderr
        )
        assert "A newer version of Blender uses the env's" in done.stderr and done.returncode == 0

    def test_a_note_reports_that_ray_tracing_is_not_used(self, bench: Bench) -> None:
        bench.prepare().blender("5.2.2")
        assert "note: Blender 5.2.2 does not use hardware ray tracing" in bench.render().stderr
        (bench.prefix("art").path / "rocm/lib/libamdhip64.so").symlink_to("libamdhip64.so.6")
        assert "ray tracing" not in bench.render().stderr

    def test_blender_releases_before_hip_are_an_error(self, bench: Bench) -> None:
        bench.prepare().blender("2.93.18")
        done = bench.render()
        assert done.returncode == 1
        assert "does not use this GPU. Reason: Blender 3.2 added HIP support for Linux" in done.stderr

    def test_no_set_is_suggested_if_none_works(self, bench: Bench) -> None:
        """Blender 4.3 requires ROCm 5, which does not support the RX 9070."""
        bench.prepare().blender("4.3.2")
        done = bench.render()
        assert done.returncode == 1 and "rocenv create" not in done.stderr
        assert "No known set works with this release. Use Blender 5.2 or newer" in done.stderr
        assert "which works with this env" in done.stderr


class TestTargets:
    def test_a_target_that_blender_rejects_is_an_error(self, bench: Bench) -> None:
        bench.prepare(target="gfx906").blender("5.2.2")
        done = bench.render()
        assert done.returncode == 1
        assert "Blender 5.2.2 does not accept gfx906" in done.stderr

    def test_missing_kernels_for_the_target_are_reported_before_the_start(self, bench: Bench) -> None:
        bench.prepare(target="gfx1153").blender("5.2.2")
        done = bench.render()
        assert done.returncode == 0
        assert "has no kernels for gfx1153. Official builds have kernels for: gfx1010, " in done.stderr
        program = bench.app / "blender"
        assert f"rocenv kernels build blender --blender '{program}' --target gfx1153" in done.stderr

    @pytest.mark.parametrize(
        ("version", "rocm", "is_told"), [("4.4.3", "6.4.3", True), ("5.2.2", "6.4.3", False)]
    )
    def test_denoising_on_the_cpu_causes_a_note(
        self, bench: Bench, version: str, rocm: str, is_told: bool
    ) -> None:
        bench.prepare(rocm).blender(version)
        told = f"note: Blender {version} renders on gfx1201 but denoises on the CPU"
        assert (told in bench.render().stderr) == is_told


class TestWindows:
    @pytest.mark.parametrize(("version", "code"), [("5.2.2", 1), ("4.5.3", 0), ("4.3.2", 0)])
    def test_an_outdated_driver_is_an_error(self, bench: Bench, version: str, code: int) -> None:
        adapters = [{"Name": "AMD Radeon RX 7900 XTX", "RadeonSoftwareVersion": "24.7.1"}]
        (bench.root / "machine/windows/video_controllers.json").write_text(json.dumps(adapters))
        bench.make("art", platform="windows", target="gfx1100")
        bench.blender(version)
        done = bench.render()
        refused = f"Blender {version} rejects AMD display drivers older than 24.9.1. This machine has 24.7.1."
        assert (done.returncode, refused in done.stderr) == (code, bool(code)), done.stderr


class TestVersion:
    def test_a_script_is_run_for_its_version_each_time(self, bench: Bench) -> None:
        """The program behind the script may have been upgraded."""
        bench.prepare().blender("$(cat ../version)")
        path = bench.app / "blender"
        path.write_text(
            path.read_text().replace("'Blender $(cat ../version)'", '"Blender $(cat ../version)"')
        )
        for version, code in (("4.3.2", 1), ("5.2.2", 0)):
            (bench.app.parent / "version").write_text(version)
            assert bench.render().returncode == code

    def test_a_program_behind_a_link_with_another_name_is_queried_each_time(self, bench: Bench) -> None:
        """`/snap/bin/blender` is a link to `snap`."""
        bench.prepare().native("5.2.2", "snap")
        (bench.app / "blender").symlink_to("snap")
        assert [bench.render().returncode for _ in range(2)] == [0, 0]
        assert bench.times_asked() == 2

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            ('[ "$1" = --version ] && exit 3', "it ended with exit code 3"),
            ('[ "$1" = --version ] && { echo Blender; exit 0; }', "it did not print a version"),
            ('[ "$1" = --version ] && { echo Blender 5.2; while :; do echo endless endless; done; }', ""),
        ],
    )
    def test_an_unknown_blender_version_is_reported(self, bench: Bench, more: str, why: str) -> None:
        bench.prepare(files=()).blender("5.2.2", more=more)
        done = bench.render()
        assert "Traceback" not in done.stderr
        if why:
            assert "Blender's version is unknown. The reason: " in done.stderr
            assert why in done.stderr and done.returncode == 0

    def test_a_blender_version_newer_than_the_data_is_reported(self, bench: Bench) -> None:
        bench.prepare(files=()).blender("9.1.0")
        done = bench.render()
        assert "rocenv has no data on Blender 9.1.0" in done.stderr
        assert done.returncode == 0


class TestData:
    def test_each_blender_release_has_one_row_per_platform(self) -> None:
        rows = [row for row in load().app_release if row.app == "blender"]
        known = [
            "2.93",
            "3.0",
            "3.1.2",
            "3.2",
            "3.3.21",
            "3.6.9",
            "4.0.2",
            "4.1.1",
            "4.2",
            "4.3.2",
            "4.4",
            "4.5.3",
        ]
        for version in (*known, "5.0", "5.1.1", "5.2.2"):
            for platform in ("linux", "windows"):
                found = [row for row in rows if row.platform == platform and allows(row.versions, version)]
                assert len(found) == 1, (version, platform)

    def test_the_required_runtime_depends_on_the_blender_series(self) -> None:
        rows = [row for row in load().app_release if row.app == "blender" and row.platform == "linux"]
        wanted = {"4.3.2": ("5.7.1", "6.0.0"), "4.4.3": ("6.0.0", "5.7.1"), "5.2.2": ("6.3.0", "6.2.4")}
        for version, (fits, fits_not) in wanted.items():
            row = next(each for each in rows if allows(each.versions, version))
            assert (allows(row.rocm, fits), allows(row.rocm, fits_not)) == (True, False), version
