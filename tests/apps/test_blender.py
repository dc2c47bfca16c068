"""Debian's real Blender under `rocenv launch`: GPU use, and explanations of fallbacks to the CPU."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from rocenv.prefix import Prefix
from tests.apps.studio import HIPCC, LIBRARIES, Bench, Studio, build

if TYPE_CHECKING:
    from pathlib import Path

    from tests.apps.conftest import Rocenv

USED = "Path tracing on: Stand-in GPU (HIP)"
BUILD = "rocenv kernels build blender --blender "


@pytest.fixture(scope="session")
def studio(blender_env: str, apps_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Studio:
    """Blender with a scene."""
    return Studio.make(
        Prefix(apps_home / "envs" / blender_env), tmp_path_factory.mktemp("studio with a space")
    )


@pytest.fixture(scope="session")
def hip6(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake HIP runtime, version 6.4."""
    return build(tmp_path_factory.mktemp("hip6"))


@pytest.fixture(scope="session")
def hip7(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake HIP runtime, version 7."""
    return build(tmp_path_factory.mktemp("hip7"), "libamdhip64.so.7", 70151831)


@pytest.fixture
def bench(tmp_path: Path, studio: Studio, hip6: Path) -> Bench:
    """An env with the fake HIP 6.4, but without kernels or a compiler."""
    return Bench(tmp_path / "a b").prepare(studio, runtime={"libamdhip64.so.6": hip6})


class TestUse:
    def test_blender_uses_the_gpu_without_warnings(self, bench: Bench) -> None:
        bench.put_hipcc()
        done = bench.render()
        assert (done.code, USED in done.all) == (0, True), done.all
        assert "why:" not in done.told and "nothing in its output shows" not in done.told
        assert "rocenv stand-in: this is libamdhip64 on the CPU, test equipment" in done.all
        for words in (
            "--debug-cycles",
            "--log-level debug",
            "--python-expr",
            "--python-exit-code 1",
        ):
            assert f"added `{words}" in done.told, done.told

    def test_a_kernel_is_compiled_only_once(self, bench: Bench) -> None:
        bench.put_hipcc()
        assert "Compiling HIP kernel" in bench.render().all
        kernels = list((bench.prefix("art").path / "cache/cycles/kernels").iterdir())
        assert [bool(re.fullmatch("cycles_kernel_gfx1201_[0-9A-F]{32}", each.name)) for each in kernels] == [
            True
        ]
        again = bench.render()
        assert "Using locally compiled kernel." in again.all and "Compiling HIP kernel" not in again.all

    def test_blender_uses_precompiled_kernels(self, bench: Bench, studio: Studio, tmp_path: Path) -> None:
        studio.starter(bench.app / "blender", studio.with_kernels(tmp_path / "own", "gfx1201"))
        done = bench.render()
        assert (done.code, USED in done.all) == (0, True), done.all
        assert "Using precompiled kernel." in done.all

    def test_launch_keeps_the_users_arguments(self, bench: Bench) -> None:
        bench.put_hipcc()
        done = bench.render("--python-exit-code", "7")
        assert done.code == 0 and "python-exit-code 1" not in done.told

    def test_launch_keeps_the_arguments_of_a_blender_script(self, bench: Bench) -> None:
        bench.put_hipcc()
        script = bench.app / "render.py"
        script.write_text(
            "import argparse, sys\nimport bpy\n"
            "parser = argparse.ArgumentParser()\nparser.add_argument('--samples')\n"
            "parser.parse_args(sys.argv[sys.argv.index('--') + 1 :])\n"
            f"bpy.context.scene.render.filepath = {str(bench.root / 'frame')!r}\n"
            "bpy.ops.render.render(write_still=True)\n"
        )
        words = ("./blender", "-b", str(bench.studio.scene), "-P", str(script), "--", "--samples", "3")
        for code in (0, 1):
            done = bench.run("launch", "art", "--app", "blender", "--", *words, timeout=120)
            told = (done.stdout + done.stderr).decode()
            assert (done.returncode, USED in told) == (code, not code), told
            (bench.tools / "hipcc").unlink(missing_ok=True)
            for each in (bench.prefix("art").path / "cache/cycles/kernels").iterdir():
                each.unlink()

    def test_a_blender_script_that_renders_nothing_is_accepted(self, bench: Bench) -> None:
        bench.put_hipcc()
        script = bench.app / "count.py"
        script.write_text("import bpy\nprint('objects:', len(bpy.data.objects))\n")
        words = ("./blender", "-b", str(bench.studio.scene), "-P", str(script))
        for has_gpu in (True, False):
            environ = {} if has_gpu else {"ROCENV_STANDIN_DEVICES": "0"}
            done = bench.run("launch", "art", "--app", "blender", "--", *words, environ=environ)
            told = done.stderr.decode()
            assert (done.returncode, b"objects:" in done.stdout) == (0, True), told
            assert "nothing in its output shows" not in told and "why:" not in told
            assert ("does not list a HIP GPU" in told) != has_gpu, told

    def test_a_missing_scene_is_reported(self, bench: Bench) -> None:
        bench.put_hipcc()
        done = bench.run(
            "launch", "art", "--app", "blender", "--", "./blender", "-b", "none.blend", "-f", "1"
        )
        told = done.stderr.decode()
        assert done.returncode == 1 and "Blender ended with exit code 1" in told
        assert b"Cannot read file" in done.stdout + done.stderr
        assert "nothing in its output shows" not in told and "do:  rocenv verify" not in told

    def test_blender_renders_on_the_cpu_on_request(self, bench: Bench) -> None:
        words = ("./blender", "-b", str(bench.studio.scene), "-f", "1", "--", "--cycles-device", "CPU")
        done = bench.run("launch", "art", "--app", "blender", "--", *words)
        told = done.stderr.decode()
        assert done.returncode == 0, told
        assert "selects the CPU" in told
        assert "added `--python-expr" not in told and "nothing in its output shows" not in told


class TestRuntime:
    def test_blender_works_with_only_hip_7(self, tmp_path: Path, studio: Studio, hip7: Path) -> None:
        bench = Bench(tmp_path).prepare(studio, runtime={"libamdhip64.so.7": hip7}, rocm="7.1.1", hip="7.1")
        bench.put_hipcc()
        done = bench.render()
        assert (done.code, USED in done.all) == (0, True), done.all

    def test_blender_tries_runtimes_in_the_order_listed_in_its_row(
        self, tmp_path: Path, studio: Studio, hip6: Path, hip7: Path
    ) -> None:
        runtime = {"libamdhip64.so.6": hip6, "libamdhip64.so.7": hip7, "libamdhip64.so": hip7}
        bench = Bench(tmp_path).prepare(studio, runtime=runtime)
        bench.put_hipcc()
        done = bench.render(environ={"LD_DEBUG": "files"})
        mine = re.findall(rf"calling init: .*{LIBRARIES}/(libamdhip64\.so\S*)", done.all)
        assert mine[:1] == ["libamdhip64.so"]
        assert "does not use hardware ray tracing" not in done.told
        (bench.prefix("art").path / LIBRARIES / "libamdhip64.so").unlink()
        done = bench.render(environ={"LD_DEBUG": "files"})
        mine = re.findall(rf"calling init: .*{LIBRARIES}/(libamdhip64\.so\S*)", done.all)
        assert mine[:1] == ["libamdhip64.so.7"]
        assert "Blender 5.2.2 does not use hardware ray tracing" in done.told
        assert "It enables ray tracing only if it finds `libamdhip64.so`" in done.told

    def test_a_missing_runtime_is_an_error(self, tmp_path: Path, studio: Studio) -> None:
        done = Bench(tmp_path).prepare(studio, runtime={}).render()
        assert done.code == 1
        assert "It looks for libamdhip64.so, libamdhip64.so.7, libamdhip64.so.6" in done.told
        assert "but the env contains none of these files" in done.told
        assert "rocenv create art2 --rocm '>=6.3' --target gfx1201 --app blender" in done.told

    def test_a_broken_runtime_is_recognized_in_blenders_output(self, tmp_path: Path, studio: Studio) -> None:
        bench = Bench(tmp_path).prepare(studio, runtime={})
        (bench.prefix("art").path / LIBRARIES / "libamdhip64.so.6").write_text("no library")
        done = bench.render()
        assert done.code == 1
        assert "Error opening HIP dynamic library" in done.told and "does not list a GPU on this" in done.told

    def test_an_outdated_runtime_is_an_error(self, tmp_path: Path, studio: Studio, hip6: Path) -> None:
        bench = Bench(tmp_path).prepare(studio, runtime={"libamdhip64.so.6": hip6}, rocm="6.1.3", hip="6.1")
        bench.put_hipcc()
        done = bench.render(environ={"ROCENV_STANDIN_RUNTIME": "60140252"})
        assert done.code == 1
        assert "needs ROCm >=6.3, but the env has 6.1.3" in done.told
        assert "rocenv create art2 --rocm '>=6.3'" in done.told

    def test_a_runtime_older_than_the_envs_set_is_recognized(self, bench: Bench) -> None:
        bench.put_hipcc()
        done = bench.render(environ={"ROCENV_STANDIN_RUNTIME": "60140252"})
        assert done.code == 1
        assert "does not list a GPU on this machine" in done.told and "Driver version is too old" in done.told
        assert "rocenv create art2 --app blender --target gfx1201" in done.told


class TestKernels:
    def test_missing_kernels_and_compiler_are_explained(self, bench: Bench) -> None:
        done = bench.render()
        assert done.code == 1
        assert "Neither precompiled kernels nor HIPCC was found" in done.told
        assert f"{BUILD}" in done.told and "--target gfx1201" in done.told

    def test_kernels_for_only_a_different_target_are_explained(
        self, bench: Bench, studio: Studio, tmp_path: Path
    ) -> None:
        studio.starter(bench.app / "blender", studio.with_kernels(tmp_path / "own", "gfx1100"))
        done = bench.render()
        assert done.code == 1
        assert "it printed `hipcc compiler not found`" in done.told, done.told
        assert BUILD in done.told

    def test_a_failing_compiler_is_explained(self, bench: Bench) -> None:
        bench.put_hipcc('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "no device library" >&2; exit 1\n')
        done = bench.render()
        assert done.code == 1
        assert "the GPU kernels failed to compile" in done.told and BUILD in done.told
        assert "no device library" in done.all

    def test_a_compiler_without_output_is_explained(self, bench: Bench) -> None:
        bench.put_hipcc("#!/bin/sh\nexit 0\n")
        done = bench.render()
        assert done.code == 1
        assert "the compiler produced no kernel" in done.told and BUILD in done.told

    def test_an_invalid_kernel_is_explained(self, bench: Bench) -> None:
        bench.put_hipcc(HIPCC.replace("printf", 'false || printf no >"$output"; exit 0; printf'))
        done = bench.render()
        assert done.code == 1
        assert "Failed to load HIP kernel from" in done.told and BUILD in done.told


class TestMemory:
    def test_full_gpu_memory_is_explained(self, bench: Bench) -> None:
        bench.put_hipcc()
        done = bench.render(environ={"ROCENV_STANDIN_FAIL": "malloc=error:2"})
        assert done.code == 1
        assert "GPU memory is full [vram-oom]" in done.told
        assert "it printed `System is out of GPU memory`" in done.told
        assert "rocenv mem settings cycles" in done.told

    def test_low_free_gpu_memory_causes_a_warning_even_if_rendering_works(self, bench: Bench) -> None:
        bench.put_hipcc()
        done = bench.render(environ={"ROCENV_STANDIN_FREE": "20MiB"})
        assert (done.code, USED in done.all) == (0, True)
        assert "so Cycles uses system memory, which is slow" in done.told
        assert "rocenv mem settings cycles" in done.told


class TestFault:
    def test_the_remedies_for_the_rx_9000_memory_fault_are_ordered(self, bench: Bench) -> None:
        bench.put_hipcc()
        script = bench.app / "blender"
        said = (
            "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2. Reason: Page not present "
        )
        # Print Blender's real output (hundreds of lines) up to the first sample, which is when the kernel
        # runs.
        real = script.rename(bench.app / "real")
        script.write_text(
            f"#!/bin/sh\nreal={shlex.quote(str(real))}\n"
            'case " $* " in *" -f "*) ;; *) exec "$real" "$@" ;; esac\n'
            """"$real" "$@" 2>&1 | awk '!over { print } / Sample 0/ { over = 1 } END { exit !over }' || """
            "exit 3\n"
            f'echo "{said}or supervisor privilege."; kill -ABRT $$\n'
        )
        script.chmod(0o755)
        done = bench.render()
        assert done.code == -6 or done.code == 134, done.told
        assert "[gfx12-hiprt-fault]" in done.told, done.told
        todo = done.told[done.told.index("do:  ") :]
        places = [todo.index(each) for each in ("turn off Denoising Data", BUILD, "--hiprt", "newer Blender")]
        assert places == sorted(places)


class TestEnv:
    def test_a_runtime_that_does_not_find_a_gpu_is_reported(
        self, rocenv: Rocenv, blender_env: str, studio: Studio
    ) -> None:
        done = rocenv("launch", blender_env, "--", "blender", "-b", studio.scene, "-f", "1")
        assert done.returncode == 1
        assert (
            "Blender starts but does not list a GPU on this machine, so it would run on the CPU. "
            "It lists only: CPU" in done.stderr
        )
