"""The GPUs that a program lists: named to it by its own names, and their want is told before it starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.launch.apps import LISTED, NONE, Bench, arguments

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
    ids=["one", "the card behind an iGPU", "the iGPU", "an older answer without memory"],
)
def test_gpu_of_the_env_is_named_as_the_program_calls_it(
    tmp_path: Path, target: str, listed: str, device: str
) -> None:
    bench = Bench(tmp_path / "here")
    bench.machine(target)
    bench.env_for(target)
    bench.program("llama-cli", "llama.cpp-new", listed=listed)
    assert f"--device {device}" in arguments(bench.launch("./llama-cli"))


def test_several_gpus_of_the_target_are_all_named(bench: Bench) -> None:
    bench.machine("gfx1100", "gfx1100")
    told = "".join(f"  Device {number}: AMD Radeon RX 7900 XTX, gfx1100 (0x1100)\n" for number in (0, 1))
    bench.program("llama-cli", "llama.cpp-new", listed=told + SAME)
    assert arguments(bench.launch("./llama-cli")) == "--device ROCm0,ROCm1"
    bench.program("llama-bench", "llama-bench", listed=told + SAME)
    assert arguments(bench.launch("./llama-bench")) == "--device ROCm0/ROCm1", "a comma means two runs there"


@pytest.mark.parametrize(
    ("listed", "only"),
    [
        (NONE, "only the CPU"),
        ("Available devices:\n", "only the CPU"),
        (
            "Available devices:\n  Vulkan0: AMD Radeon (24560 MiB, 24000 MiB free)\n",
            "only Vulkan0: AMD Radeon",
        ),
        ("\x00\xff\n" * 5, "only the CPU"),
    ],
    ids=["none", "nothing", "another interface", "rubbish"],
)
def test_no_gpu_here_is_told_before_the_start(bench: Bench, listed: str, only: str) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=listed)
    done = bench.launch("./llama-cli", "-m", "x.gguf")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (1, b"")
    assert "llama.cpp starts and lists no GPU here" in said
    assert only in said
    assert "`rocenv gpus`" in said
    assert "`rocenv doctor llm`" in said
    assert not bench.logs("llm"), "it was not started"


def test_who_wants_the_cpu_needs_no_gpu(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=NONE)
    for words in (("--device", "none"), ("-dev", "none"), ("-ngl", "0"), ("--gpu-layers", "0")):
        assert arguments(bench.launch("./llama-cli", *words)) == " ".join(words)


def test_who_names_a_device_of_another_kind_gets_it(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=NONE.replace("(none)", "Vulkan0: AMD Radeon"))
    done = bench.launch("./llama-cli", "--device", "Vulkan0", "-m", "x")
    assert arguments(done) == "--device Vulkan0 -m x"
    assert "the env is not used for it" in done.stderr.decode()


def test_list_alone_is_passed_on_and_its_want_of_a_gpu_told(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", listed=NONE)
    done = bench.launch("./llama-cli", "--list-devices")
    assert (done.returncode, done.stdout.decode()) == (0, NONE)
    assert "it lists no GPU here" in done.stderr.decode()
    bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
    done = bench.launch("./llama-cli", "--list-devices")
    assert "no GPU" not in done.stderr.decode()


def test_list_that_crashes_is_told(bench: Bench) -> None:
    bench.program("llama-cli", "llama.cpp-new", more='[ "$1" = --list-devices ] && kill -ABRT $$')
    done = bench.launch("./llama-cli", "x")
    assert arguments(done) == "x"
    assert "SIGABRT" in done.stderr.decode()
    assert "rocenv verify llm --app llama.cpp" in done.stderr.decode()


def test_what_a_question_leaves_behind_is_ended(bench: Bench) -> None:
    """A child that keeps the pipe open must not hold the start up."""
    bench.program("llama-cli", "llama.cpp-new", listed=LISTED, more='[ "$1" = --help ] && sleep 1000 &')
    assert arguments(bench.launch("./llama-cli")) == "--device ROCm0"


class TestVerify:
    def verify(self, bench: Bench, *words: str, app: str = "llama.cpp", **environ: str) -> Any:
        done = bench.run("verify", "llm", "--upto", "files", "--app", app, "--json", *words, environ=environ)
        found = {each["rung"]: each for each in json.loads(done.stdout).get("rungs", [])}
        return done.returncode, found.get("app", {}), done.stderr.decode()

    def test_gpu_is_listed(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        code, rung, _ = self.verify(bench)
        assert (code, rung["status"], rung["no_device"]) == (0, "passed", False)
        assert "ROCm0: AMD Radeon RX 7900 XTX" in rung["detail"]
        assert json.loads((bench.prefix("llm").own / "verified.json").read_bytes())["level"] == "app"

    def test_no_gpu_here_is_exit_code_4(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=NONE)
        code, rung, said = self.verify(bench)
        assert (code, rung["status"], rung["no_device"]) == (4, "skipped", True)
        assert "lists no GPU here" in rung["detail"]
        assert "nothing is wrong with env `llm`" in said

    @pytest.mark.parametrize(
        ("more", "status"),
        [("kill -SEGV $$", "crashed"), ("exit 3", "failed"), ("sleep 100", "timeout")],
    )
    def test_list_that_fails(self, bench: Bench, more: str, status: str) -> None:
        bench.program("llama-cli", "llama.cpp-new", more=more)
        code, rung, _ = self.verify(bench, "--timeout", "1")
        assert (code, rung["status"]) == (1, status), rung

    def test_program_is_looked_for_on_path(self, bench: Bench) -> None:
        path = bench.program("elsewhere/llama-server", "llama.cpp-new", listed=LISTED)
        code, _, _ = self.verify(bench, PATH=f"{path.parent}:{bench.env['PATH']}")
        assert code == 0

    def test_no_program(self, bench: Bench) -> None:
        code, rung, _ = self.verify(bench)
        assert (code, rung["status"]) == (1, "failed")
        assert "`llama-cli` or `llama-server`" in rung["detail"]

    def test_app_without_a_list_starts_and_can_be_held_to_the_gpu(self, bench: Bench) -> None:
        bench.program("m.llamafile", "llamafile-0.10")
        code, rung, _ = self.verify(bench, app="llamafile")
        assert (code, rung["status"]) == (0, "passed")
        assert "knows `--gpu`" in rung["detail"]
        bench.program("m.llamafile", "llama-bench")
        code, rung, _ = self.verify(bench, app="llamafile")
        assert (code, rung["status"]) == (1, "failed")

    def test_app_of_torch_needs_that_rung(self, bench: Bench) -> None:
        code, rung, _ = self.verify(bench, app="comfyui")
        assert (code, rung["status"]) == (1, "failed")
        assert "the env has none" in rung["detail"]

    def test_broken_file_of_the_env_comes_first(self, bench: Bench) -> None:
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        next((bench.prefix("llm").rocm).rglob("Kernels*")).write_text("x")
        code, rung, _ = self.verify(bench)
        assert (code, rung["status"], rung["detail"]) == (1, "skipped", "needs `files`")

    def test_no_such_app(self, bench: Bench) -> None:
        code, rung, said = self.verify(bench, app="nope")
        assert (code, rung) == (2, {})
        assert "there is no app `nope`" in said
