"""The child process of `mem probe` on the fakes: its results, and its exit when its parent dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.probe.hip_session import HipSession, NoAnswer
from rocenv.system.process import PACKAGE_PARENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.probe.conftest import Rig

GIB, MIB = 1 << 30, 1 << 20
CARD = {"ROCENV_STANDIN_MEMORY": "16GiB", "ROCENV_STANDIN_USED": "0"}


@contextmanager
def session(rig: Rig, **env: str) -> Iterator[HipSession]:
    """A child process that has opened the GPU."""
    probe = rig.probe(**{**CARD, **env})
    with closing(HipSession(probe, rig.work / "child.log")) as child:
        child.ask(dict, "open")
        yield child


def peak(path: Path) -> tuple[int, int, int]:
    """Return the peak and current allocation in bytes, and the number of requests."""
    most, now, calls = map(int, path.read_text().split())
    return most, now, calls


class TestBlocks:
    def test_all_memory_of_a_card_is_allocated_checked_and_freed(self, rig: Rig, tmp_path: Path) -> None:
        counted = tmp_path / "peak"
        with session(rig, ROCENV_STANDIN_PEAK=str(counted)) as child:
            assert child.ask(dict, "try", size=16 * GIB)["outcome"] == "had"
            assert peak(counted)[:2] == (16 * GIB, 0)
            assert child.ask(dict, "try", size=16 * GIB)["outcome"] == "had", (
                "freed memory can be allocated again"
            )

    def test_a_refused_allocation_is_reported_with_the_runtimes_error_name(self, rig: Rig) -> None:
        with session(rig) as child:
            found = child.ask(dict, "try", size=17 * GIB)
        assert (found["outcome"], found["answer"]) == ("refused", "hipErrorOutOfMemory")

    @pytest.mark.parametrize(
        ("fail", "outcome", "words"),
        [
            ("download.large=wrong1", "wrong", "does not contain what was written"),
            ("upload.large=unwritten", "wrong", "does not contain what was written"),
            ("memset.large=unwritten", "wrong", "does not contain what was written"),
            ("memset.large=wrong", "wrong", "does not contain what was written"),
            (
                "memset.large=error:719",
                "failed",
                "hipMemset returned 719 hipErrorLaunchFailure while using the block",
            ),
            ("upload.large=error:1", "failed", "hipMemcpy returned 1"),
            ("free.large=error:17", "failed", "while freeing the block"),
            ("free.large=leak", "failed", "is still in use"),
            ("malloc.large=error:719", "failed", "hipErrorLaunchFailure"),
        ],
    )
    def test_unusable_memory_is_reported(self, rig: Rig, fail: str, outcome: str, words: str) -> None:
        with session(rig, ROCENV_STANDIN_LARGE="2GiB", ROCENV_STANDIN_FAIL=fail) as child:
            assert child.ask(dict, "try", size=GIB)["outcome"] == "had"
            found = child.ask(dict, "try", size=3 * GIB)
        assert found["outcome"] == outcome
        assert words in found["detail"]

    @pytest.mark.parametrize(("mode", "name"), [("segv", "SIGSEGV"), ("abort", "SIGABRT")])
    def test_a_crash_report_shows_the_call(self, rig: Rig, mode: str, name: str) -> None:
        env = {"ROCENV_STANDIN_LARGE": "2GiB", "ROCENV_STANDIN_FAIL": f"memset.large={mode}"}
        with session(rig, **env) as child, pytest.raises(NoAnswer, match=f"{name} in hipMemset") as caught:
            child.ask(dict, "try", size=3 * GIB)
        assert caught.value.end == "crashed"

    def test_a_hanging_allocation_ends_at_the_timeout(self, rig: Rig) -> None:
        start = time.monotonic()
        env = {"ROCENV_STANDIN_FAIL": "malloc.2=hang"}
        with (
            session(replace(rig, timeout_s=1.0), **env) as child,
            pytest.raises(NoAnswer, match="no response within 1 s in hipMalloc") as caught,
        ):
            child.ask(dict, "try", size=3 * GIB)
        assert caught.value.end == "timeout"
        assert time.monotonic() - start < 15


class TestPieces:
    def test_pieces_are_allocated_together_and_stay_within_the_bound(self, rig: Rig, tmp_path: Path) -> None:
        counted = tmp_path / "peak"
        reports: list[int] = []
        env = {"ROCENV_STANDIN_FRAGMENT": "3GiB", "ROCENV_STANDIN_PEAK": str(counted)}
        words: dict[str, Any] = {"bound": 14 * GIB, "piece": 3 * GIB, "least": 16 * MIB, "max_pieces": 100}
        with session(rig, **env) as child:
            found = child.ask(dict, "fill", reports.append, **words)
        assert found["total_bytes"] == 14 * GIB
        assert found["pieces"] == 5
        assert reports == sorted(reports)
        assert reports[-1] == 14 * GIB
        assert peak(counted)[:2] == (14 * GIB, 0)

    def test_smaller_pieces_fill_the_remaining_memory(self, rig: Rig) -> None:
        words: dict[str, Any] = {"bound": 16 * GIB, "piece": 5 * GIB, "least": 256 * MIB, "max_pieces": 100}
        with session(rig, ROCENV_STANDIN_FRAGMENT="8GiB") as child:
            found = child.ask(dict, "fill", **words)
        assert found["total_bytes"] > 15.5 * GIB
        assert found["smallest_bytes"] < 3 * GIB

    def test_the_number_of_pieces_is_limited(self, rig: Rig) -> None:
        words: dict[str, Any] = {"bound": 16 * GIB, "piece": MIB, "least": MIB, "max_pieces": 7}
        with session(rig) as child:
            assert child.ask(dict, "fill", **words)["pieces"] == 7


class TestTooMuch:
    def test_the_runtime_works_after_a_refused_allocation(self, rig: Rig) -> None:
        with session(rig) as child:
            found = child.ask(dict, "push", size=32 * GIB)
        assert (found["granted"], found["answer"]) == (False, "hipErrorOutOfMemory")
        assert (found["free_bytes"], found["total_bytes"]) == (16 * GIB, 16 * GIB)
        assert found["small"]["outcome"] == "had"

    def test_calls_that_fail_after_a_refused_allocation_are_reported(self, rig: Rig) -> None:
        with session(rig, ROCENV_STANDIN_FAIL="meminfo.after=error:719,malloc.after=error:2") as child:
            found = child.ask(dict, "push", size=32 * GIB)
        assert found["info_answer"] == "hipErrorLaunchFailure"
        assert found["small"]["outcome"] == "refused"

    def test_memory_beyond_the_size_of_the_card_is_freed_without_being_written(
        self, rig: Rig, tmp_path: Path
    ) -> None:
        counted = tmp_path / "peak"
        env = {"ROCENV_STANDIN_SHARED": "64GiB", "ROCENV_STANDIN_PEAK": str(counted)}
        with session(rig, **env) as child:
            assert child.ask(dict, "push", size=32 * GIB)["granted"]
        assert peak(counted)[1] == 0


class TestList:
    def test_every_gpu_is_listed_with_its_address_and_memory(self, rig: Rig) -> None:
        env = {
            "ROCENV_STANDIN_DEVICES": "2",
            "ROCENV_STANDIN_TARGET": "gfx1036,gfx1100",
            "ROCENV_STANDIN_MEMORY": "512MiB,16GiB",
            "ROCENV_STANDIN_USED": "1MiB,2GiB",
        }
        probe = rig.probe(**env)
        with closing(HipSession(probe, rig.work / "child.log")) as child:
            first, second = child.ask(list, "list")
        assert (first["target"], first["free_bytes"]) == ("gfx1036", 511 * MIB)
        assert (second["free_bytes"], second["total_bytes"]) == (14 * GIB, 16 * GIB)
        assert first["address"] != second["address"] == "0000:04:00.0"

    def test_a_missing_gpu_is_not_a_failure(self, rig: Rig) -> None:
        probe = rig.probe(ROCENV_STANDIN_DEVICES="0")
        with closing(HipSession(probe, rig.work / "child.log")) as child, pytest.raises(NoAnswer) as caught:
            child.ask(dict, "open")
        assert caught.value.end == "no-device"


# Print the process ID of a child that hangs in a library, and wait to be killed.
PARENT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from rocenv.probe.hip_session import HipSession
from rocenv.probe.ladder import Probe
from rocenv.probe.wire import Task
words = json.loads(sys.argv[2])
task = Task.from_plain(words["task"])
probe = Probe(task=task, python=(sys.executable,), environ=words["env"], timeout_s=60)
child = HipSession(probe, Path(words["log"]))
child._child = child._start()
print(child._child.pid, flush=True)
child.ask(dict, "open")
child.ask(dict, "try", size=1 << 30)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
class TestParent:
    @pytest.mark.parametrize("fail", ["malloc.2=hang", "load.hip=hang"])
    def test_a_child_that_hangs_in_a_library_exits_with_its_parent(self, rig: Rig, fail: str) -> None:
        probe = rig.probe(**CARD, ROCENV_STANDIN_FAIL=fail)
        log = rig.work / "child.log"
        words = {"task": asdict(probe.task), "env": dict(probe.environ), "log": str(log)}
        argv = [sys.executable, "-c", PARENT, str(PACKAGE_PARENT), json.dumps(words)]
        parent = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            call = "hipMalloc" if fail.startswith("malloc") else "dlopen"
            wait(lambda: log.read_text().splitlines()[-1:] != [] and call in log.read_text())
            time.sleep(0.3)
            assert alive(child)
            parent.kill()
            parent.wait(10)
            wait(lambda: not alive(child))
        finally:
            if alive(child):
                os.kill(child, signal.SIGKILL)
            parent.kill()
            parent.wait()
            parent.stdout.close()

    def test_the_child_exits_when_the_session_is_closed(self, rig: Rig) -> None:
        with session(rig) as child:
            assert child._child is not None
            number = child._child.pid
            assert alive(number)
        assert not alive(number)


def alive(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def wait(condition: Any, timeout_s: float = 15.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)
