"""`rocenv verify --node` on an env made of fakes: the drain reason and the exit code for a scheduler."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.model import RungResult, Verification
from rocenv.fleet.node import MAX_REASON, outcome
from rocenv.probe.ladder import RUNGS
from tests.host.roots import Root
from tests.loopback import Loopback
from tests.mini import Mini
from tests.probe.conftest import standin_libraries

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Slurm runs on Linux")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mini]:
    """A machine with two cards and a `demo` env made of fakes."""
    root = tmp_path_factory.mktemp("node")
    with Loopback(folder=root / "www") as server:
        mini = Mini.build(root, server, standin_libraries())
        profile = root / "profiles" / "mini.toml"
        profile.write_text(profile.read_text().replace('hip = "6.4.3"', 'hip = "6.4"'))
        machine = Root(mini.sysroot).kernel(dkms="6.8.5").cpu()
        for number in (1, 2):
            machine.gpu(number, 0x744C, 110000)
            device = f"sys/bus/pci/devices/0000:{number:02x}:00.0"
            machine.put(f"{device}/fw_version/mec_fw_version", "0x00000221\n")
            machine.put(f"{device}/fw_version/vce_fw_version", "0x00000000\n")
            machine.put(f"{device}/vbios_version", "113-D7020100-102\n")
        del mini.env["ROCENV_TARGET"]
        mini.create("demo", "--rocm", "6.4", ROCENV_TARGET="gfx1100")
        yield mini


def check(world: Mini, *options: str, **env: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    done = world.run("verify", "demo", "--node", "--json", *options, **env)
    return done, json.loads(done.stdout)


def test_a_healthy_node_is_reported_with_its_facts(world: Mini) -> None:
    done, found = check(world, SLURMD_NODENAME="n7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (found["node"], found["env"], found["target"]) == ("n7", "demo", "gfx1100")
    assert (found["healthy"], found["reason"], found["detail"]) == (True, "rocenv:ok", "")
    lock = world.run("lock", "demo").stdout
    assert found["lock_sha256"] == hashlib.sha256(lock.encode()).hexdigest()
    assert found["driver"] == {"kernel": "6.8.0-45-generic", "amdgpu": "6.8.5", "display": None}
    assert [gpu["firmware"] for gpu in found["gpus"]] == [
        {"mec": "0x00000221", "vbios": "113-D7020100-102"}
    ] * 2
    assert [rung["status"] for rung in found["rungs"]] == ["passed"] * 9
    assert {name.split()[0] for name in found["gflops"]} == {"float32", "float16"}
    assert all(rate > 0 for rate in found["gflops"].values())
    assert not (world.prefix("demo") / ".rocenv/verified.json").exists(), "nodes share the env"
    line = world.run("verify", "demo", "--node", "--level", "quick")
    assert (line.returncode, line.stdout) == (0, "rocenv:ok\n")


@pytest.mark.parametrize(
    ("fault", "options", "reason"),
    [
        ({"ROCENV_STANDIN_DEVICES": "0"}, (), "rocenv:no GPU"),
        ({"ROCENV_STANDIN_FAIL": "load.hip=segv"}, (), "rocenv:load died"),
        ({"ROCENV_STANDIN_FAIL": "sgemm=nan"}, (), "rocenv:blas bad"),
        (
            {"ROCENV_STANDIN_FAIL": "malloc=hang"},
            ("--timeout", "6", "--level", "quick"),
            "rocenv:memory hung",
        ),
        ({"ROCENV_HOME": "/proc/1/nothing"}, (), "rocenv:no env"),
    ],
)
def test_errors_exit_with_1_and_print_a_drain_reason(
    world: Mini, fault: dict[str, Any], options: tuple[str, ...], reason: str
) -> None:
    start = time.monotonic()
    done = world.run("verify", "demo", "--node", *options, **fault)
    assert time.monotonic() - start < 20
    assert (done.returncode, done.stdout) == (1, f"{reason}\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_sinfo_can_show_every_drain_reason_completely() -> None:
    for rung in RUNGS:
        for status in ("failed", "crashed", "timeout"):
            result = RungResult(rung=rung, status=status, detail="d")
            reason = outcome(Verification(results=(result,)))["reason"]
            assert reason.startswith(f"rocenv:{rung} ")
            assert reason.split()[-1] in ("bad", "died", "hung")
            assert len(reason) <= MAX_REASON


def test_the_quick_level_compares_sizes_and_the_full_level_compares_contents(world: Mini) -> None:
    library = next((world.prefix("demo") / "rocm").rglob("kernels.dat"))
    content = library.read_bytes()
    library.unlink()  # a hard link, so the copy in the store remains
    try:
        library.write_bytes(b"x" * len(content))
        assert check(world, "--level", "quick")[1]["reason"] == "rocenv:ok"
        assert check(world)[1]["reason"] == "rocenv:files bad"
        library.write_bytes(content[:-1])
        assert check(world, "--level", "quick")[1]["reason"] == "rocenv:files bad"
    finally:
        library.unlink()
        library.write_bytes(content)


def test_the_quick_level_takes_less_than_three_seconds(world: Mini) -> None:
    world.run("verify", "demo", "--node", "--level", "quick")  # so that the data cache exists
    start = time.monotonic()
    done = world.run("verify", "demo", "--node", "--level", "quick", ROCENV_STANDIN_DEVICES="0")
    assert time.monotonic() - start < 3
    assert done.stdout == "rocenv:no GPU\n"


def test_a_full_disk_is_not_blamed_on_the_gpu(world: Mini) -> None:
    # Limit files to 512 bytes to simulate a full disk. Do not write bytecode, which would be truncated.
    limited = 'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 exec "$@"'
    command = ["sh", "-c", limited, "sh", *world.command("verify", "demo", "--node")]
    full = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=30, check=False)
    assert (full.returncode, full.stdout) == (1, "rocenv:no space\n"), full.stderr


FREEZER = Path("/sys/fs/cgroup/freezer")
_CHILD = """#!{python}
import os, signal, sys, time
open({pid_file!r}, "w").write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if {group!r}:
    open({group!r} + "/cgroup.procs", "w").write(str(os.getpid()))
    open({group!r} + "/freezer.state", "w").write("FROZEN")
time.sleep(60)
"""


@pytest.mark.parametrize("state", ["deaf", "uninterruptible"])
def test_the_time_limit_holds_for_a_child_in_any_state(world: Mini, tmp_path: Path, state: str) -> None:
    """The child ignores SIGTERM, or survives even SIGKILL, as a frozen process in state D does."""
    group = FREEZER / f"rocenv-{os.getpid()}"
    if state == "uninterruptible":
        try:
            group.mkdir()
        except OSError:
            pytest.skip("needs root, and the freezer of cgroup v1")
    child, pid_file = tmp_path / "python", tmp_path / "pid"
    child.write_text(
        _CHILD.format(
            python=sys.executable, pid_file=str(pid_file), group=str(group) if group.exists() else ""
        )
    )
    child.chmod(0o755)
    code = (
        f"import sys; sys.executable = {str(child)!r}; from rocenv.cli import main; "
        "main(['verify', 'demo', '--node', '--timeout', '3'])"
    )
    try:
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=world.env,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        took_s = time.monotonic() - start
        status = Path(f"/proc/{pid_file.read_text()}/status")
        if state == "uninterruptible":
            assert "State:\tD" in status.read_text(), "the child is not hanging"
        else:
            assert not status.exists(), "the child must not outlive the check"
    finally:
        if group.exists():
            (group / "freezer.state").write_text("THAWED")
            for _ in range(50):
                if not (group / "cgroup.procs").read_text():
                    break
                time.sleep(0.1)
            group.rmdir()
    assert took_s < 4
    assert (done.returncode, done.stdout) == (1, "rocenv:timed out\n"), done.stderr
    assert "no response within 3 s" in done.stderr


@pytest.mark.parametrize(
    ("child", "detail"),
    [
        ('printf \'{"target": "gfx1100"}\\n{"gpus": [\'; kill -9 $$', "ended without a result"),
        ("", "cannot start the check"),
    ],
    ids=["killed while it writes", "no process"],
)
def test_a_child_that_returns_no_result_is_an_error(tmp_path: Path, child: str, detail: str) -> None:
    program = tmp_path / "python"
    if child:
        program.write_text(f"#!/bin/sh\n{child}\n")
        program.chmod(0o755)
    main = "from rocenv.cli import main; main(['verify', 'demo', '--node'])"
    code = f"import sys; sys.executable = {str(program)!r}; {main}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "rocenv:error\n"), done.stderr
    assert detail in done.stderr
    assert "unexpectedly" not in done.stderr


def test_the_watchdog_opens_nothing_in_the_home_or_the_env(world: Mini, tmp_path: Path) -> None:
    """Calls with a path in the home may hang if a file server is down, so only the child makes them."""
    trace = tmp_path / "trace"
    strace = [
        "strace",
        "-qq",
        "-e",
        "trace=file",
        "-o",
        str(trace),
    ]  # without -f, so only the watchdog is traced
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    command = [*strace, *world.command("verify", "demo", "--node", "--level", "quick")]
    done = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "rocenv:ok\n", done.stderr
    calls = trace.read_text().splitlines()
    assert len(calls) > 100
    assert [line for line in calls if str(world.home) in line] == []


def test_options_that_do_not_work_with_node_are_rejected(world: Mini) -> None:
    assert world.run("verify", "demo", "--node", "--upto", "load").returncode == 2
    assert world.run("verify", "demo", "--level", "quick").returncode == 2
