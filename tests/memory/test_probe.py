"""`rocenv mem probe` with a fake HIP runtime: results, limits, and broken runtimes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.context import Context
from rocenv.core.errors import RocenvError
from rocenv.home import Home
from rocenv.host import detect
from rocenv.memory.env import env_for, hip_memory
from rocenv.memory.probe import parse_limit, probe_memory, resolution_of
from rocenv.prefix import prefix_of
from tests import forked
from tests.host.roots import Root

if TYPE_CHECKING:
    from rocenv.memory.env import EnvView
    from rocenv.memory.probe import ProbeResult
    from tests.mini import Mini

GIB, MIB = 1 << 30, 1 << 20
ADDRESS = "0000:03:00.0"  # the address of the fake runtime's first GPU
RX_7900 = 0x744C


@dataclass
class Bench:
    """A machine with an idle card, and one env that uses the fake HIP runtime."""

    mini: Mini
    machine: Path  # the machine's /sys and /proc
    peak_file: Path

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        environ = {**self.mini.env, **self.variables, **env}
        return forked.run_text(["mem", *argv], env=environ)

    def json(self, *argv: str, **env: str) -> dict[str, Any]:
        done = self.run("probe", "--json", *argv, **env)
        assert done.returncode in (0, 1), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables for this machine."""
        return {
            "ROCENV_SYSROOT": str(self.machine),
            "ROCENV_STANDIN_PEAK": str(self.peak_file),
            "ROCENV_STANDIN_USED": "0",
        }

    def probe(
        self, monkeypatch: pytest.MonkeyPatch, limit: str = "", timeout_s: float = 30.0, **env: str
    ) -> ProbeResult:
        """Run the test in this process, with parameters for which the command has no options."""
        for name, value in {**self.mini.env, **self.variables, **env}.items():
            monkeypatch.setenv(name, value)
        context = Context()
        prefix = prefix_of(context.home, "demo")
        wanted = parse_limit(limit) if limit else None
        return probe_memory(prefix, prefix.record(), context.matrix, limit=wanted, timeout_s=timeout_s)

    def card(self, total: int, used: int = 0, connectors: dict[str, str] | None = None) -> None:
        """Write the card's files in /sys; by default, no display is connected."""
        root = Root(self.machine)
        root.kernel().cpu().gpu(1, RX_7900, 110000, bus=3, memory=total)
        folder = f"sys/bus/pci/devices/{ADDRESS}"
        root.put(f"{folder}/mem_info_vram_used", f"{used}\n")
        root.put(f"{folder}/mem_info_gtt_used", "0\n")
        for name, status in (connectors or {"DP-1": "disconnected"}).items():
            root.put(f"{folder}/drm/card1/card1-{name}/status", f"{status}\n")

    @property
    def peak(self) -> int:
        """The peak allocated memory, in bytes."""
        return int(self.peak_file.read_text().split()[0])

    @property
    def left(self) -> int:
        """The memory that the test left allocated, in bytes."""
        return int(self.peak_file.read_text().split()[1])


@pytest.fixture
def bench(mini: Mini, tmp_path: Path) -> Bench:
    """A bench with a 16 GiB card."""
    found = Bench(mini, tmp_path / "machine", tmp_path / "peak")
    found.card(16 * GIB)
    return found


class TestLargest:
    @pytest.mark.parametrize("used", [0, 3 * GIB + 12345678])
    @pytest.mark.parametrize("total", [512 * MIB, 8 * GIB, 16 * GIB, 24 * GIB, 48 * GIB])
    def test_the_result_is_precise_after_only_a_few_steps(self, bench: Bench, total: int, used: int) -> None:
        """HIP and the kernel report all memory as free, so only allocating can find the limit."""
        used = min(used, total // 4)
        bench.card(total)
        found = bench.json(
            ROCENV_STANDIN_MEMORY=str(total), ROCENV_STANDIN_USED=str(used), ROCENV_STANDIN_MEMINFO="own"
        )
        largest, free = found["largest"], total - used
        assert free - largest["resolution_bytes"] < largest["size_bytes"] <= free
        assert largest["resolution_bytes"] == resolution_of(total) <= max(MIB, total / 1000)
        assert len(found["steps"]) <= 12
        assert found["pieces"]["size_bytes"] >= largest["size_bytes"]
        assert found["troubles"] == []
        assert bench.left == 0

    def test_one_step_suffices_if_the_upper_bound_can_be_allocated(self, bench: Bench) -> None:
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB")
        assert [step["became"] for step in found["steps"]] == ["had"]
        assert found["largest"] == {"size_bytes": 16 * GIB, "is_bound": True, "resolution_bytes": 16 * MIB}
        assert found["pieces"] == {"size_bytes": 16 * GIB, "count": 1, "smallest_bytes": 16 * GIB}

    @pytest.mark.parametrize("piece", [5 * GIB, 700 * MIB, 37 * MIB])
    def test_fragmented_memory_is_allocated_in_pieces(self, bench: Bench, piece: int) -> None:
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_FRAGMENT=str(piece))
        assert piece - 16 * MIB < found["largest"]["size_bytes"] <= piece
        assert found["pieces"]["size_bytes"] > 15.8 * GIB
        assert bench.peak <= 16 * GIB
        assert any("free memory is fragmented" in text for text in found["explanations"])

    def test_allocated_pieces_can_be_smaller_than_the_resolution(self, bench: Bench) -> None:
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_FRAGMENT="9MiB")
        assert found["largest"]["size_bytes"] == 9 * MIB
        assert len(found["steps"]) < 20


class TestBound:
    """Upper bounds. The fake runtime records how much the test actually allocated."""

    @pytest.mark.parametrize(
        ("connectors", "display", "reserve"),
        [
            ({"DP-1": "disconnected", "HDMI-A-1": "connected"}, True, int(0.05 * 16 * GIB)),
            ({"DP-1": "disconnected"}, False, int(0.05 * 16 * GIB)),  # other programs use 2 GiB
            ({"DP-1": "unknown"}, None, int(0.05 * 16 * GIB)),
        ],
    )
    def test_some_memory_is_reserved_for_a_display(
        self, bench: Bench, connectors: dict[str, str], display: bool | None, reserve: int
    ) -> None:
        bench.card(16 * GIB, used=2 * GIB, connectors=connectors)
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_USED=str(GIB))
        assert found["gpu"]["display"] is display
        assert 14 * GIB - reserve - MIB < bench.peak <= 14 * GIB - reserve

    def test_memory_that_only_the_kernel_counts_as_used_is_not_allocated(self, bench: Bench) -> None:
        bench.card(16 * GIB, used=10 * GIB)
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_MEMINFO="own")
        assert found["told"]["hip_free_bytes"] > 15 * GIB
        assert found["told"]["free_bytes"] == 6 * GIB
        assert bench.peak <= 6 * GIB
        assert any("desktop and games" in text for text in found["notes"])

    @pytest.mark.parametrize(
        ("limit", "most"), [("6GiB", 6 * GIB), ("900MiB", 900 * MIB), ("25%", 4 * GIB), ("100TiB", 16 * GIB)]
    )
    def test_the_limit_is_never_exceeded(self, bench: Bench, limit: str, most: int) -> None:
        found = bench.json("--limit", limit, ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_FRAGMENT="1GiB")
        assert bench.peak <= most
        assert found["pieces"]["size_bytes"] > most - 32 * MIB
        assert found["bound"]["limited"] is (most < 16 * GIB)

    @pytest.mark.parametrize("shared", ["0", "64GiB"])
    @pytest.mark.parametrize("limit", ["1GiB", "12GiB", "10%", "40GiB"])
    def test_a_limit_skips_the_request_for_too_much_memory(
        self, bench: Bench, limit: str, shared: str
    ) -> None:
        """With shared memory, the runtime would grant 36 GiB."""
        env = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_SHARED": shared}
        done = bench.run("probe", "--limit", limit, **env)
        assert done.returncode == 0
        assert re.search(r"^beyond the total +not tried$", done.stdout, re.MULTILINE)
        assert "then it requests" not in done.stderr
        most = 1.6 if limit == "10%" else float(limit.removesuffix("GiB"))
        assert 0 < bench.peak <= min(most, 16) * GIB
        assert bench.json("--limit", limit, **env)["too_much"] is None

    @pytest.mark.parametrize("limit", ["8B", "1048575B", "900k", "0.000001%"])
    def test_a_limit_that_is_too_small_is_rejected(self, bench: Bench, limit: str) -> None:
        done = bench.run("probe", "--limit", limit, "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (2, "usage")
        assert "1 MiB" in done.stderr

    def test_the_limit_is_reported_as_the_reason_for_the_result(self, bench: Bench) -> None:
        done = bench.run("probe", "--limit", "2GiB", ROCENV_STANDIN_MEMORY="16GiB")
        assert "`--limit` allows 2.0 GiB" in done.stdout
        assert "desktop" not in done.stdout

    def test_some_memory_is_reserved_for_programs_on_a_card_without_a_display(self, bench: Bench) -> None:
        bench.card(16 * GIB, used=6 * GIB)
        done = bench.run("probe", ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_USED="6GiB")
        assert "819 MiB is reserved for the programs that use it" in done.stdout

    @pytest.mark.parametrize("limit", ["0", "x", "-1", "0%", "101%", "6 GiB more", "9" * 300, "6XiB", "%"])
    def test_a_malformed_limit_is_a_usage_error(self, bench: Bench, limit: str) -> None:
        done = bench.run("probe", "--limit", limit)
        assert (done.returncode, "--limit" in done.stderr) == (2, True), done.stderr
        assert not bench.peak_file.exists()

    @pytest.mark.parametrize("fail", ["free.large=leak", "free.large=error:1", "memset.large=error:719"])
    def test_leaks_of_a_broken_runtime_do_not_accumulate(self, bench: Bench, fail: str) -> None:
        """The test starts a new process after each amount that fails."""
        found = bench.json(
            *("--limit", "12GiB"),
            ROCENV_STANDIN_MEMORY="16GiB",
            ROCENV_STANDIN_LARGE="10GiB",
            ROCENV_STANDIN_FAIL=fail,
        )
        assert found["troubles"]
        assert bench.peak <= 12 * GIB

    def test_a_full_card_is_reported(self, bench: Bench) -> None:
        bench.card(2 * GIB, used=int(1.7 * GIB), connectors={"DP-1": "connected"})
        done = bench.run("probe", "--json", ROCENV_STANDIN_MEMORY="2GiB")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "no-room")
        assert bench.peak <= MIB

    def test_the_limit_is_printed_before_the_test(self, bench: Bench) -> None:
        bench.card(16 * GIB, connectors={"DP-1": "connected"})
        done = bench.run("probe", "--limit", "4GiB", ROCENV_STANDIN_MEMORY="16GiB")
        first = done.stderr.splitlines()[0]
        assert "then it requests" not in first
        assert "allocates at most 4.0 GiB and frees it again" in first
        assert "819 MiB is reserved for a display" in done.stdout
        assert "STAND-IN" in first, "a fake runtime must never pass for a GPU"

    def test_the_request_for_too_much_memory_is_announced_before_it_is_made(self, bench: Bench) -> None:
        env = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_SHARED": "512GiB"}
        done = bench.run("probe", **env)
        asked = bench.json(**env)["too_much"]["asked_bytes"]
        assert f"then it requests {asked / GIB:.1f} GiB" in done.stderr.splitlines()[0]
        assert bench.peak == asked

    def test_a_gpu_name_with_line_breaks_stays_on_one_line(self, bench: Bench) -> None:
        done = bench.run("probe", ROCENV_STANDIN_NAME="a\nSTAND-IN b", ROCENV_STANDIN_MEMORY="16GiB")
        assert "a STAND-IN b (gfx1100)" in done.stderr.splitlines()[0]

    def test_the_progress_of_a_long_test_shows_no_rate(self, bench: Bench) -> None:
        env = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_LARGE": "4GiB"}
        done = bench.run("probe", **env, ROCENV_STANDIN_FAIL="free.large=leak")
        (closing,) = (line for line in done.stderr.splitlines() if line.startswith("Testing"))
        assert re.fullmatch(r"Testing GPU memory: [0-9.]+ s", closing)


class TestLies:
    """Wrong figures that hipMemGetInfo has been known to report."""

    def test_a_windows_runtime_that_reports_nearly_all_memory_free_is_distrusted(self, bench: Bench) -> None:
        bench.card(24 * GIB, used=18 * GIB)
        found = bench.json(
            ROCENV_STANDIN_MEMORY="24GiB", ROCENV_STANDIN_USED="18GiB", ROCENV_STANDIN_MEMINFO="total"
        )
        assert found["told"]["hip_free_bytes"] > 23 * GIB
        reserve = int(0.05 * 24 * GIB)
        assert 6 * GIB - reserve - MIB < found["largest"]["size_bytes"] <= 6 * GIB - reserve
        assert found["troubles"] == []

    def test_free_memory_that_exceeds_the_total_is_ignored(self, bench: Bench) -> None:
        bench.card(16 * GIB, used=GIB)
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_MEMINFO="17179869183GiB/512MiB")
        assert found["told"]["free_bytes"] == 15 * GIB
        assert any("inconsistent" in text for text in found["notes"])
        assert bench.peak <= 15 * GIB

    def test_the_bound_is_a_fraction_of_the_total_if_no_figure_is_plausible(self, bench: Bench) -> None:
        bench.machine.joinpath("sys").rename(bench.machine / "gone")
        lies = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_MEMINFO": "40GiB/16GiB"}
        found = bench.json(**lies)
        assert bench.peak <= 0.8 * 16 * GIB
        assert found["told"]["free_bytes"] is None
        found = bench.json(**lies | {"ROCENV_STANDIN_USED": "8GiB"})
        assert any(text.startswith("Only 8.0 GiB could be allocated") for text in found["explanations"])

    def test_an_underestimated_amount_of_free_memory_is_not_exceeded(self, bench: Bench) -> None:
        bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_MEMINFO="3GiB/16GiB")
        assert bench.peak <= 3 * GIB


class TestTooMuch:
    def test_a_runtime_that_refuses_too_much_memory_and_keeps_working_passes(self, bench: Bench) -> None:
        done = bench.run("probe", ROCENV_STANDIN_MEMORY="16GiB")
        assert done.returncode == 0
        assert ": refused with hipErrorOutOfMemory\n" in done.stdout

    @pytest.mark.parametrize(
        ("fail", "words"),
        [
            ("malloc.over=abort", "SIGABRT in hipMalloc"),
            ("malloc.over=segv", "SIGSEGV in hipMalloc"),
            ("malloc.after=error:719", "hipErrorLaunchFailure"),
            ("memset.after=wrong", "does not contain what was written"),
        ],
    )
    def test_a_runtime_that_fails_after_refusing_too_much_memory_is_reported(
        self, bench: Bench, fail: str, words: str
    ) -> None:
        done = bench.run("probe", ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_FAIL=fail)
        assert done.returncode == 1
        assert "in one block      16.0 GiB, the test's limit" in done.stdout
        assert words in done.stdout
        if "SIG" in words:
            assert "without an error message" in done.stdout

    def test_inconsistent_figures_after_a_refusal_are_shown(self, bench: Bench) -> None:
        found = bench.json(ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_FAIL="meminfo.after=wrong")
        assert found["too_much"]["became"] == "refused"
        assert "48.0 GiB free of 16.0 GiB" in found["too_much"]["info"]

    def test_a_hanging_request_ends_at_the_timeout(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fail = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_FAIL": "malloc.over=hang"}
        found = bench.probe(monkeypatch, timeout_s=1.0, **fail)
        assert found.largest_bytes == 16 * GIB
        assert found.excess is not None
        assert found.excess.became == "timeout"
        assert found.troubles

    def test_a_runtime_that_grants_more_memory_than_the_gpu_has_is_reported(self, bench: Bench) -> None:
        done = bench.run("probe", ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_SHARED="512GiB")
        assert done.returncode == 0
        assert "granted, although the GPU has less" in done.stdout
        assert bench.left == 0


class TestFailures:
    @pytest.mark.parametrize(
        ("fail", "became"),
        [
            ("memset.large=segv", "crashed"),
            ("malloc.large=abort", "crashed"),
            ("memset.large=error:719", "failed"),
            ("download.large=wrong1", "wrong"),
            ("free.large=error:17", "failed"),
        ],
    )
    def test_the_largest_amount_that_works_is_reported_despite_a_failure(
        self, bench: Bench, fail: str, became: str
    ) -> None:
        found = bench.json(
            ROCENV_STANDIN_MEMORY="16GiB", ROCENV_STANDIN_LARGE="4GiB", ROCENV_STANDIN_FAIL=fail
        )
        assert 4 * GIB - 16 * MIB <= found["largest"]["size_bytes"] < 4 * GIB
        assert {step["became"] for step in found["steps"]} == {"had", became}
        assert "a single block larger than 4.0 GiB failed: " in found["troubles"][0]
        assert not any("free memory is fragmented" in text for text in found["explanations"])

    def test_a_runtime_failure_is_not_reported_as_lack_of_memory(self, bench: Bench) -> None:
        env = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_LARGE": "4GiB"}
        done = bench.run("probe", **env, ROCENV_STANDIN_FAIL="download.large=wrong1")
        (line,) = (line for line in done.stdout.splitlines() if line.startswith("in one block"))
        assert "4.0 GiB; more fails" in line
        assert "is refused" not in line
        assert "broken: a single block larger than 4.0 GiB failed" in done.stdout

    def test_a_runtime_that_always_hangs_takes_at_most_two_timeouts(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fail = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_LARGE": "4GiB"}
        start = time.monotonic()
        found = bench.probe(monkeypatch, timeout_s=1.0, **fail, ROCENV_STANDIN_FAIL="memset.large=hang")
        assert [step.became for step in found.steps] == ["timeout", "timeout"]
        assert time.monotonic() - start < 10

    @pytest.mark.parametrize("fail", ["load.hip=segv", "props=error:1", "malloc=error:2", "memset=error:719"])
    def test_a_broken_runtime_suggests_the_next_command(self, bench: Bench, fail: str) -> None:
        done = bench.run("probe", "--json", ROCENV_STANDIN_FAIL=fail)
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "runtime-broken")
        assert "`rocenv verify demo`" in done.stderr
        assert "Traceback" not in done.stderr

    def test_a_machine_without_a_gpu_exits_with_4(self, bench: Bench) -> None:
        done = bench.run("probe", "--json", ROCENV_STANDIN_DEVICES="0")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (4, "no-gpu")

    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    def test_the_child_exits_if_the_command_is_killed(self, bench: Bench) -> None:
        env = {**bench.mini.env, **bench.variables, "ROCENV_STANDIN_FAIL": "malloc.2=hang"}
        argv = bench.mini.command("mem", "probe")
        command = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            children = wait(lambda: children_of(command.pid))
            time.sleep(1.0)
            command.kill()
            command.wait(10)
            wait(lambda: not any(Path(f"/proc/{child}/maps").exists() for child in children))
        finally:
            command.kill()
            command.wait()

    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_no_child_process_or_folder_is_left_after_a_signal(
        self, bench: Bench, number: int, tmp_path: Path
    ) -> None:
        (tmp_path / "tmp").mkdir()
        env = {**bench.mini.env, **bench.variables, "TMPDIR": str(tmp_path / "tmp")}
        env["ROCENV_STANDIN_FAIL"] = "malloc.2=hang"
        argv = bench.mini.command("mem", "probe")
        command = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            children = wait(lambda: children_of(command.pid))
            time.sleep(0.5)
            command.send_signal(number)
            assert command.wait(10) == 128 + number
            assert list((tmp_path / "tmp").iterdir()) == []
            assert not any(Path(f"/proc/{child}").exists() for child in children)
        finally:
            command.kill()
            command.wait()


class TestEnv:
    def test_the_test_uses_the_requested_the_active_or_the_only_env(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        home = Home(bench.mini.home)
        assert env_for(home, {}).name == "demo"
        assert env_for(home, {}, "other").name == "other"
        other = tmp_path / "home" / "envs"
        other.mkdir(parents=True)
        for name in ("one", "two"):
            (other / name).symlink_to(bench.mini.prefix("demo"))
        both = Home(tmp_path / "home")
        active = {"PATH": os.pathsep.join(["/usr/bin", str(other / "two" / "bin")])}
        assert env_for(both, active).name == "two"
        with pytest.raises(
            RocenvError, match="2 envs have a HIP runtime, but none of them is active"
        ) as caught:
            env_for(both, {"PATH": "/usr/bin"})
        assert "`rocenv mem probe one`" in caught.value.hints

    def test_without_an_env_the_hint_says_how_to_create_one(self, bench: Bench, tmp_path: Path) -> None:
        done = bench.run("probe", ROCENV_HOME=str(tmp_path / "empty"))
        assert done.returncode == 1
        assert "`rocenv create" in done.stderr

    def test_a_missing_env_is_an_error(self, bench: Bench) -> None:
        done = bench.run("probe", "nobody")
        assert done.returncode == 1
        assert "nobody" in done.stderr


class TestHipMemory:
    def test_figures_are_matched_to_the_right_gpus(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """HIP and the kernel list the GPUs in different orders."""
        env = {
            "ROCENV_STANDIN_DEVICES": "2",
            "ROCENV_STANDIN_MEMORY": "24GiB,16GiB",
            "ROCENV_STANDIN_ADDRESS": "0000:07:00.0,0000:03:00.0",
        }
        Root(bench.machine).gpu(2, RX_7900, 110000, bus=7, memory=24 * GIB)
        for name, value in {**bench.mini.env, **bench.variables, **env}.items():
            monkeypatch.setenv(name, value)
        context = Context()
        prefix = prefix_of(context.home, "demo")
        found = hip_memory(prefix, prefix.record(), context.matrix, detect(context.matrix))
        assert totals(found) == {0: 16 * GIB, 1: 24 * GIB}
        assert found.notes == ()

    def test_a_note_explains_missing_figures(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {**bench.mini.env, **bench.variables, "ROCENV_STANDIN_DEVICES": "0"}.items():
            monkeypatch.setenv(name, value)
        context = Context()
        prefix = prefix_of(context.home, "demo")
        found = hip_memory(prefix, prefix.record(), context.matrix, detect(context.matrix))
        assert found.figures == {}
        assert "no GPU here" in found.notes[0]


def totals(listed: EnvView) -> dict[int, int]:
    return {index: figure.total_bytes for index, figure in listed.figures.items()}


def children_of(process: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            if int(text.rpartition(")")[2].split()[1]) == process:
                found.append(int(entry.name))
    return found


def wait(condition: Any, timeout_s: float = 15.0) -> Any:
    end = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.05)
    return found
