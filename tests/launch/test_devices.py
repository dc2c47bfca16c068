"""Programs' device lists, from which `launch` selects a GPU or reports that none is suitable."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from rocenv.core.model import RungResult, Verification
from tests.launch.apps import LISTED, NONE, Bench, arguments, write_model

if TYPE_CHECKING:
    from pathlib import Path

TWO = (
    "ggml_cuda_init: found 2 ROCm devices:\n"
    "  Device 0: AMD Radeon 780M, gfx1103 (0x1103), VMM: no, Wave Size: 32, VRAM: 16384 MiB\n"
    "  Device 1: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32, VRAM: 24560 MiB\n"
    "Available devices:\n"
    "  ROCm0: AMD Radeon 780M (16384 MiB, 16000 MiB free)\n"
    "  ROCm1: AMD Radeon RX 7900 XTX (24560 MiB, 24000 MiB free)\n"
    "  Vulkan0: AMD Radeon RX 7900 XTX (RADV NAVI31) (24560 MiB, 24000 MiB free)\n"
)
SAME = LISTED + "  ROCm1: AMD Radeon RX 7900 XTX (24560 MiB, 23000 MiB free)\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path / "a place")
    made.machine("gfx1100")
    made.env_for("gfx1100")
    return made


@pytest.mark.parametrize(
    ("target", "listed", "device"),
    [
        ("gfx1100", LISTED, "ROCm0"),
        ("gfx1100", TWO, "ROCm1"),
        ("gfx1103", TWO, "ROCm0"),
        ("gfx1100", "Available devices:\n  ROCm0: AMD Radeon Graphics\n", "ROCm0"),
    ],
    ids=["one", "the card after an iGPU", "the iGPU", "older output without memory sizes"],
)
def test_the_envs_gpu_is_selected_by_the_programs_device_name(
    tmp_path: Path, target: str, listed: str, device: str
) -> None:
    bench = Bench(tmp_path / "here")
    bench.machine(target)
    bench.env_for(target)
    bench.program("llama-cli", "llama.cpp-new", listed=listed)
    assert f"--device {device}" in arguments(bench.launch("./llama-cli"))


UNTOLD = "Available devices:\n  ROCm0: AMD Radeon(TM) 780M Graphics\n  ROCm1: AMD Radeon RX 7900 XTX\n"
SAME_NAME = "Available devices:\n  ROCm0: AMD Radeon Graphics\n  ROCm1: AMD Radeon Graphics\n"


class TestWithoutTargets:
    """Device lists with only product names, as many versions print; several products share a PCI ID."""

    @pytest.fixture
    def two(self, bench: Bench) -> Bench:
        bench.machine("gfx1103", "gfx1100")
        return bench

    @pytest.mark.parametrize(
        ("listed", "device"),
        [
            (UNTOLD, "ROCm1"),
            (UNTOLD.replace("RX 7900 XTX", "RX 7900M"), "ROCm1"),
            (UNTOLD.replace("Radeon RX 7900 XTX", "Radeon Graphics"), "ROCm1"),
            (UNTOLD.replace("AMD Radeon(TM) 780M", "AMD Radeon"), "ROCm1"),
        ],
        ids=["by its name", "the fourth name for its ID", "only the other GPU has a name", "it has no name"],
    )
    def test_the_envs_gpu_is_selected_by_its_product_name(self, two: Bench, listed: str, device: str) -> None:
        two.program("llama-cli", "llama.cpp-new", listed=listed)
        assert arguments(two.launch("./llama-cli")) == f"--device {device}"
        done = two.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        assert done.returncode == 0
        assert f"lists {device}: " in done.stdout.decode()

    def test_a_list_with_only_other_gpus_is_an_error(self, two: Bench) -> None:
        two.program("llama-cli", "llama.cpp-new", listed="".join(UNTOLD.partition("Graphics\n")[:2]))
        done = two.launch("./llama-cli", "-m", "x")
        assert (done.returncode, done.stdout) == (1, b"")
        assert (
            "does not list the gfx1100 that env `llm` is for. It lists: ROCm0: AMD Radeon(TM) 780M"
            in done.stderr.decode()
        )
        done = two.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        assert done.returncode == 1
        assert "although this machine has one" in done.stdout.decode()

    def test_rocenv_does_not_guess_between_gpus_with_the_same_name(self, two: Bench) -> None:
        two.program("llama-cli", "llama.cpp-new", listed=SAME_NAME)
        done = two.launch("./llama-cli", "-m", "x")
        assert (done.returncode, done.stdout) == (1, b"")
        assert (
            "rocenv cannot tell which of the GPUs that llama.cpp lists is the gfx1100: ROCm0: AMD"
            in done.stderr.decode()
        )
        assert arguments(two.launch("./llama-cli", "--device", "ROCm1")) == "--device ROCm1"
        done = two.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        assert done.returncode == 0
        assert "which GPU" in done.stdout.decode()
        assert "Whether llama.cpp works in this env is unknown" in done.stderr.decode()

    def test_the_only_visible_gpu_is_selected(self, two: Bench) -> None:
        two.program("llama-cli", "llama.cpp-new", listed=SAME_NAME.partition("  ROCm1")[0])
        assert two.launch("./llama-cli").returncode == 1
        done = two.launch("./llama-cli", HIP_VISIBLE_DEVICES="1")
        assert arguments(done) == "--device ROCm0"

    def test_a_request_for_a_gpu_with_a_different_target_is_reported(self, two: Bench) -> None:
        two.program("llama-cli", "llama.cpp-new", listed=UNTOLD)
        done = two.launch("./llama-cli", "--device", "ROCm0")
        assert "`ROCm0` is a gfx1103, but env `llm` is for gfx1100" in done.stderr.decode()

    def test_the_only_listed_gpu_is_selected_on_an_unknown_machine(self, two: Bench) -> None:
        two.env["ROCENV_SYSROOT"] = str(two.root / "nothing")
        two.program("llama-cli", "llama.cpp-new", listed=LISTED)
        assert arguments(two.launch("./llama-cli")) == "--device ROCm0"
        two.program("llama-cli", "llama.cpp-new", listed=SAME_NAME)
        assert two.launch("./llama-cli").returncode == 1


IGPU = "".join(f"{line}\n" for line in TWO.splitlines() if "7900" not in line)


def test_launch_fails_if_only_other_gpus_are_listed(bench: Bench) -> None:
    """If `launch` started the program anyway, it would use the other GPU."""
    bench.program("llama-cli", "llama.cpp-new", listed=IGPU)
    done = bench.launch("./llama-cli", "-m", "x.gguf")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert "does not list the gfx1100 that env `llm` is for. It lists: ROCm0: AMD Radeon 780M" in said
    assert "`rocenv create llm2 --target gfx1103 --app llama.cpp`" in said
    assert not bench.logs("llm"), "the app was not started"


def test_an_env_without_a_target_uses_any_listed_gpu(bench: Bench) -> None:
    bench.make("any", platform="linux", target="")
    bench.program("llama-cli", "llama.cpp-new", listed=TWO)
    done = bench.run("launch", "any", "--", "./llama-cli")
    assert arguments(done) == "--device ROCm0,ROCm1"
    assert "the env is for ," not in done.stderr.decode()


class TestRequestedByTheUser:
    @pytest.fixture
    def two(self, bench: Bench) -> Bench:
        bench.machine("gfx1100", "gfx1100", used_mib=22000)
        used = bench.root / "linux/sys/bus/pci/devices/0000:01:00.0/mem_info_vram_used"
        used.write_text("0\n")
        told = "".join(f"  Device {number}: AMD Radeon RX 7900 XTX, gfx1100 (0x1100)\n" for number in (0, 1))
        listed = told + SAME.replace("23000 MiB free", "24000 MiB free") + "  Vulkan0: AMD Radeon (RADV)\n"
        bench.program("llama-cli", "llama.cpp-old", listed=listed)
        bench.program("llama-server", "llama.cpp-new", listed=listed)
        return bench

    @pytest.mark.parametrize(
        ("name", "free", "margin"),
        [("ROCm0", "23.4 GiB", 1024), ("ROCm1", "2.5 GiB", 22464), ("rocm1", "2.5 GiB", 22464)],
    )
    def test_the_requested_gpus_memory_limits_the_layers(
        self, two: Bench, name: str, free: str, margin: int
    ) -> None:
        model = write_model(two.root / "m.gguf")
        done = two.launch("./llama-cli", "-m", str(model), "--device", name)
        assert f"layers fit into {free} of free GPU memory" in done.stderr.decode()
        done = two.launch("./llama-server", "-m", str(model), "--device", name)
        assert arguments(done).endswith(f"--device {name} --fit-target {margin}")

    def test_device_numbers_count_only_the_visible_gpus(self, two: Bench) -> None:
        two.program("llama-server", "llama.cpp-new", listed=LISTED)
        done = two.launch("./llama-server", "-m", "x", HIP_VISIBLE_DEVICES="1")
        assert arguments(done) == "-m x --device ROCm0 --fit-target 22464"

    def test_a_request_for_an_unlisted_gpu_is_reported(self, two: Bench) -> None:
        done = two.launch("./llama-server", "--device", "ROCm7", "-m", "x")
        assert arguments(done) == "--device ROCm7 -m x"
        said = done.stderr.decode()
        assert "does not list `ROCm7` on this machine. It lists: ROCm0, ROCm1.\n  hint: Select one of" in said

    @pytest.mark.parametrize(
        ("names", "told"),
        [
            ("vulkan0", "`vulkan0` is not a HIP GPU, so the app will not use the env"),
            ("Vulkan0,ROCm0", "`Vulkan0` is not a HIP GPU, so the app will not use the env\n"),
        ],
    )
    def test_a_requested_gpu_of_another_backend_is_passed_on_with_a_note(
        self, two: Bench, names: str, told: str
    ) -> None:
        done = two.launch("./llama-server", "--device", names)
        assert arguments(done) == f"--device {names}"
        assert told in done.stderr.decode()

    def test_a_requested_gpu_with_a_different_target_is_used_with_a_warning(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=TWO)
        done = bench.launch("./llama-cli", "--device", "ROCm0")
        assert arguments(done) == "--device ROCm0"
        assert "`ROCm0` is a gfx1103, but env `llm` is for gfx1100" in done.stderr.decode()


def test_all_gpus_with_the_envs_target_are_selected(bench: Bench) -> None:
    bench.machine("gfx1100", "gfx1100")
    told = "".join(f"  Device {number}: AMD Radeon RX 7900 XTX, gfx1100 (0x1100)\n" for number in (0, 1))
    bench.program("llama-cli", "llama.cpp-new", listed=told + SAME)
    assert arguments(bench.launch("./llama-cli")) == "--device ROCm0,ROCm1"
    bench.program("llama-bench", "llama-bench", listed=told + SAME)
    assert arguments(bench.launch("./llama-bench")) == "--device ROCm0/ROCm1", (
        "for llama-bench, a comma means two runs"
    )


@pytest.mark.parametrize(
    ("listed", "only"),
    [
        (NONE, "It lists only: CPU"),
        ("Available devices:\n", "It lists only: CPU"),
        (
            "Available devices:\n  Vulkan0: AMD Radeon (24560 MiB, 24000 MiB free)\n",
            "It lists only: Vulkan0: AMD Radeon",
        ),
        ("\x00\xff\n" * 5, "It lists only: CPU"),
    ],
    ids=["none", "nothing", "another interface", "rubbish"],
)
def test_an_empty_gpu_list_is_an_error_before_the_app_starts(bench: Bench, listed: str, only: str) -> None:
    bench.machine()
    bench.program("llama-cli", "llama.cpp-new", listed=listed)
    done = bench.launch("./llama-cli", "-m", "x.gguf")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert "llama.cpp starts but does not list a GPU on this machine" in said
    assert only in said
    assert "rocenv gpus" in said
    assert "rocenv doctor llm" in said
    assert not bench.logs("llm"), "the app was not started"


VULKAN = "Available devices:\n  Vulkan0: AMD Radeon RX 7900 XTX (RADV NAVI31)\n"


class TestBuildWithoutHip:
    """A machine with the GPU, and a build that cannot use it."""

    def test_the_error_lists_builds_with_hip(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=VULKAN)
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        said = done.stderr.decode()
        assert (done.returncode, done.stdout) == (1, b"")
        assert "does not list a HIP GPU, although the machine has a gfx1100. Either this build" in said
        assert "It lists only: Vulkan0: AMD Radeon RX 7900 XTX (RADV NAVI31)." in said
        (command,) = re.findall(r"`(rocenv create llm2 [^`]+)`", said)
        done = bench.run("resolve", *command.split()[3:])
        assert done.returncode == 0, done.stderr
        assert "no llama.cpp in it" not in (done.stdout + done.stderr).decode()
        assert "ubuntu-rocm-gfx110X-x64.zip" in said

    def test_the_error_does_not_blame_the_build_if_hip_finds_no_gpu(self, bench: Bench) -> None:
        found = {"rungs": [{"rung": "device", "status": "failed"}]}
        (bench.prefix("llm").own / "verified.json").write_text(json.dumps(found))
        bench.program("llama-cli", "llama.cpp-new", listed=NONE)
        said = bench.launch("./llama-cli", "-m", "x.gguf").stderr.decode()
        assert "Either this build does not support HIP" not in said
        assert "`rocenv doctor llm`" in said

    def test_verify_does_not_blame_a_missing_gpu_for_a_build_without_hip(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=VULKAN)
        done = bench.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        assert done.returncode == 1
        assert "does not list a HIP GPU, only Vulkan0" in done.stdout.decode()
        assert "`rocenv create llm2 --target gfx1100" in done.stdout.decode()
        assert "no usable AMD GPU" not in done.stderr.decode()


def test_no_gpu_is_required_if_the_user_requests_the_cpu(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=NONE)
    for words in (("--device", "none"), ("-dev", "none"), ("-ngl", "0"), ("--gpu-layers", "0")):
        assert arguments(bench.launch("./llama-cli", *words)) == " ".join(words)


def test_a_vulkan_device_is_used_if_the_user_requests_it(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=NONE.replace("(none)", "Vulkan0: AMD Radeon"))
    done = bench.launch("./llama-cli", "--device", "Vulkan0", "-m", "x")
    assert arguments(done) == "--device Vulkan0 -m x"
    assert "the app will not use the env" in done.stderr.decode()


def test_a_missing_gpu_is_reported_when_the_user_lists_devices(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=NONE)
    done = bench.launch("./llama-cli", "--list-devices")
    assert (done.returncode, done.stdout.decode()) == (0, NONE)
    said = done.stderr.decode()
    assert "llama.cpp ended with exit code 0, but it did not find a usable GPU\n" in said
    assert "used the CPU" not in said, "the program only listed its devices"
    bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
    done = bench.launch("./llama-cli", "--list-devices")
    assert "no GPU" not in done.stderr.decode()


def test_a_crash_of_the_device_list_is_reported(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", more='[ "$1" = --list-devices ] && kill -ABRT $$')
    done = bench.launch("./llama-cli", "a b")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b""), "without a selected GPU, the app may use the CPU"
    assert "SIGABRT" in said
    assert "rocenv does not know which value `--device` needs" in said
    assert "rocenv verify llm --app llama.cpp" in said
    assert "`rocenv launch llm --app generic -- ./llama-cli 'a b'`" in said
    done = bench.launch("./llama-cli", "--device", "ROCm0")
    assert arguments(done) == "--device ROCm0"
    bench.program("llama-cli", "llama.cpp-new", listed=LISTED, code=1)
    assert arguments(bench.launch("./llama-cli")) == "--device ROCm0", (
        "the app listed the GPU before it failed"
    )


def test_processes_that_a_device_query_leaves_running_are_killed(bench: Bench) -> None:
    """A child process that keeps the pipe open must not delay the app."""
    bench.program("llama-cli", "llama.cpp-new", listed=LISTED, more='[ "$1" = --help ] && sleep 1000 &')
    assert arguments(bench.launch("./llama-cli")) == "--device ROCm0"


class TestVerify:
    def verify(self, bench: Bench, *words: str, app: str = "llama.cpp", **environ: str) -> Any:
        done = bench.run("verify", "llm", "--upto", "files", "--app", app, "--json", *words, environ=environ)
        found = {each["rung"]: each for each in json.loads(done.stdout).get("rungs", [])}
        return done.returncode, found.get("app", {}), done.stderr.decode()

    def test_a_listed_gpu_passes_the_app_check(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        code, rung, _ = self.verify(bench)
        assert (code, rung["status"], rung["no_device"]) == (0, "passed", False)
        assert "ROCm0: AMD Radeon RX 7900 XTX" in rung["detail"]
        assert f"'{bench.app}/llama-cli' --list-devices" in rung["detail"], "the detail contains the command"

    def test_the_app_check_counts_only_if_the_device_check_passed(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        self.verify(bench)
        kept = json.loads((bench.prefix("llm").own / "verified.json").read_bytes())
        assert (kept["level"], [each["rung"] for each in kept["rungs"]]) == ("files", ["files"])
        results = [
            RungResult(rung=rung, status="passed", elapsed_s=0, detail="") for rung in ("files", "app")
        ]
        assert Verification(env="x", target="", results=tuple(results)).level == "files"
        results.insert(1, replace(results[0], rung="device"))
        assert Verification(env="x", target="", results=tuple(results)).level == "app"

    def test_a_gpu_with_a_different_target_fails_the_app_check(self, bench: Bench) -> None:
        bench.machine("gfx1103")
        bench.program("llama-cli", "llama.cpp-new", listed=IGPU)
        code, rung, _ = self.verify(bench)
        assert (code, rung["status"], rung["no_device"]) == (4, "skipped", True)
        assert "does not list a gfx1100 GPU, only ROCm0: AMD Radeon 780M" in rung["detail"]

    def test_the_target_option_selects_the_gpu_to_look_for(self, bench: Bench) -> None:
        bench.make("other", platform="linux", target="gfx1101")
        bench.program("llama-cli", "llama.cpp-new", listed=TWO)
        words = ("verify", "other", "--upto", "files", "--app", "llama.cpp")
        assert bench.run(*words).returncode == 4
        done = bench.run(*words, "--target", "gfx1100")
        assert done.returncode == 0
        assert "lists ROCm1: AMD Radeon RX 7900 XTX" in done.stdout.decode()

    def test_a_machine_without_a_gpu_exits_with_4(self, bench: Bench) -> None:
        bench.machine()
        bench.program("llama-cli", "llama.cpp-new", listed=NONE)
        code, rung, said = self.verify(bench)
        assert (code, rung["status"], rung["no_device"]) == (4, "skipped", True)
        assert "does not list a GPU, only" in rung["detail"]
        assert "OK up to `files`" in said

    @pytest.mark.parametrize(
        ("more", "status"),
        [
            ("kill -SEGV $$", "crashed"),
            ("exit 3", "failed"),
            ("sleep 100", "timeout"),
            ('[ "$1" = --list-devices ] && exec yes', "failed"),
        ],
    )
    def test_a_failed_device_list_fails_the_app_check(self, bench: Bench, more: str, status: str) -> None:
        bench.program("llama-cli", "llama.cpp-new", more=more)
        code, rung, _ = self.verify(bench, "--timeout", "1")
        assert (code, rung["status"]) == (1, status), rung

    def test_programs_on_path_come_before_the_current_folder(self, bench: Bench) -> None:
        bench.program("llama-bench", "llama-bench", listed=LISTED)
        path = bench.program("elsewhere/llama-server", "llama.cpp-new", listed=LISTED)
        bench.program("elsewhere/llama-cli", "llama.cpp-new", listed=LISTED)
        bench.program("elsewhere/llama-bench", "llama-bench", listed=NONE)
        code, rung, _ = self.verify(bench, PATH=f"{path.parent}:{bench.env['PATH']}")
        assert code == 0
        assert f"{path.parent}/llama-cli" in rung["detail"], "the app's usual program comes first"

    def test_a_missing_program_is_an_error_instead_of_a_failed_check(self, bench: Bench) -> None:
        done = bench.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        said = done.stderr.decode()
        assert (done.returncode, done.stdout) == (1, b"")
        assert "llama.cpp (`llama-cli` or `llama-server`) was not found in env `llm`" in said
        assert "`rocenv create llm2 --target gfx1100 --channel debian-forky --app llama.cpp`" in said
        assert not (bench.prefix("llm").own / "verified.json").exists()

    def test_no_command_is_suggested_if_no_channel_has_the_program(self, bench: Bench) -> None:
        for app in ("llamafile", "blender"):
            said = bench.run("verify", "llm", "--upto", "files", "--app", app).stderr.decode()
            assert f" (`{app}`) was not found in env `llm`, on PATH" in said
            commands = re.findall(r"`(rocenv create [^`]+)`", said)
            assert [f"--channel debian-sid --app {app}" in each for each in commands] == [True] * (
                app == "blender"
            )

    def test_control_sequences_in_device_names_do_not_reach_the_terminal(self, bench: Bench) -> None:
        listed = LISTED.replace("AMD", "\x1b(0\x9b31m\x07\u202eAMD")
        bench.program("llama-cli", "llama.cpp-new", listed=listed)
        done = bench.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        assert "ROCm0: ?(0?31m" in done.stdout.decode()
        bench.program("llama-cli", "llama.cpp-new", more="printf 'a\\033(0\\007'; exit 3")
        done = bench.run("verify", "llm", "--upto", "files", "--app", "llama.cpp")
        assert done.returncode == 1
        assert not set("\x1b\x07\x9b\u202e") & set((done.stdout + done.stderr).decode())
        assert (
            "`rocenv verify llm --app llama.cpp --save-artifacts verify-llm` keeps the logs"
            in done.stderr.decode()
        )

    def test_the_programs_output_is_saved(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED, code=3)
        self.verify(bench, "--save-artifacts", "kept here")
        text = (bench.app / "kept here/app.log").read_text()
        assert LISTED in text
        assert "llama-cli' --list-devices" in text
        assert "app" in (bench.app / "kept here/verify.json").read_text()

    def test_verify_rejects_the_app_generic(self, bench: Bench) -> None:
        done = bench.run("verify", "llm", "--app", "generic")
        assert done.returncode == 2
        assert "`generic` stands for any program" in done.stderr.decode()

    def test_an_app_that_cannot_list_gpus_is_skipped(self, bench: Bench) -> None:
        bench.program("m.llamafile", "llamafile-0.9.3")
        code, rung, said = self.verify(bench, app="llamafile")
        assert (code, rung["status"]) == (0, "skipped")
        assert "has `--gpu`" in rung["detail"]
        assert "Whether llamafile works in this env is unknown" in said
        bench.program("m.llamafile", "llama-bench")
        code, rung, _ = self.verify(bench, app="llamafile")
        assert (code, rung["status"]) == (1, "failed")

    def test_an_app_that_uses_torch_requires_the_torch_check(self, bench: Bench) -> None:
        code, rung, _ = self.verify(bench, app="comfyui")
        assert (code, rung["status"]) == (1, "failed")
        assert "create one with torch: `rocenv create llm2 --target gfx1100 --app comfyui" in rung["detail"]
        done = bench.run("verify", "llm", "--upto", "files", "--app", "comfyui")
        assert "--save-artifacts" not in done.stderr.decode(), "no output was saved"

    def test_a_broken_file_is_reported_instead_of_a_failed_device_list(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        next((bench.prefix("llm").path / "rocm").rglob("Kernels*")).write_text("x")
        code, rung, _ = self.verify(bench)
        assert (code, rung["status"], rung["detail"]) == (1, "skipped", "needs `files`")

    def test_verify_rejects_an_unknown_app(self, bench: Bench) -> None:
        code, rung, said = self.verify(bench, app="nope")
        assert (code, rung) == (2, {})
        assert "there is no app `nope`" in said
