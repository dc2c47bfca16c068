"""The fleet lane's cluster: Slurm with six virtual nodes that share an env made of fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.host.roots import Root
from tests.loopback import Loopback
from tests.mini import Mini
from tests.probe.conftest import standin_libraries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REPOSITORY = Path(__file__).parents[2]
ROOT = REPOSITORY / "build" / "fleet-lane" / "root"
ROCENV = Path(sys.executable).with_name("rocenv")
NODES = [f"n{number}" for number in range(1, 7)]
_FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests in this folder with the lane's marker."""
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.fleet)
            item.add_marker(pytest.mark.slow)


@dataclass
class Cluster:
    """A running Slurm; `lab` is its folder, and `lab/nodes` contains each node's variables."""

    lab: Path
    world: Mini

    @property
    def env(self) -> dict[str, str]:
        return {**self.world.env, "PATH": f"{self.lab}/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

    def run(self, *argv: str, timeout_s: float = 120, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program, such as `sinfo`, as an administrator on a login node."""
        done = subprocess.run(
            list(argv),
            env={**self.env, **env},
            cwd=self.lab,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        sys.stderr.write(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}(exit code {done.returncode})\n")
        return done

    def rocenv(self, *argv: str, **env: Any) -> subprocess.CompletedProcess[str]:
        return self.run(str(ROCENV), *argv, **env)

    def verify(self, *options: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and the JSON of `fleet verify`."""
        done = self.rocenv("fleet", "verify", "demo", "--json", *options)
        found: dict[str, Any] = json.loads(done.stdout)
        return done.returncode, found

    def after_start(self, job: str, command: str) -> threading.Thread:
        """Run a command some seconds after a job of this name has started."""
        wait = f"until squeue -h -n {job} -t R | grep -q .; do sleep .2; done; sleep 3"
        thread = threading.Thread(target=self.run, args=("bash", "-c", f"{wait}; {command}"))
        thread.start()
        return thread

    def set_node(self, name: str, **changes: str) -> None:
        """Set a node's variables; `changes` gives it a different machine, GPU or disk."""
        values = {name: value for name, value in self.world.env.items() if name not in ("PATH", "HOME")}
        lines = [f"{key}={value}\n" for key, value in (values | changes).items()]
        (self.lab / "nodes" / name).write_text("".join(lines))

    def sinfo(self) -> dict[str, tuple[str, str]]:
        """Return each node's state and drain reason, as Slurm reports them."""
        argv = ["sinfo", "-h", "-N", "-o", "%N|%T|%19E"]
        lines = subprocess.run(
            argv, env=self.env, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        return {name: (state, reason.strip()) for name, state, reason in (each.split("|") for each in lines)}

    def reset(self) -> None:
        """Make all nodes healthy and idle."""
        for name in NODES:
            self.set_node(name)
            (self.lab / "nodes" / f"{name}.unreachable").unlink(missing_ok=True)
            self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
        (self.world.home / "fleet.json").unlink(missing_ok=True)
        self.wait_idle(*NODES)

    def wait_idle(self, *nodes: str) -> None:
        """Wait until Slurm can use these nodes; after RESUME, it first pings them."""
        self._wait(nodes, "idle")

    def wait_drained(self, node: str) -> str:
        """Wait until a node is drained and its last job has ended; return the drain reason."""
        return self._wait([node], "drained")[node][1]

    def _wait(self, nodes: Sequence[str], state: str) -> dict[str, tuple[str, str]]:
        for _ in range(300):
            states = self.sinfo()
            if all(states[node][0] == state for node in nodes):
                return states
            time.sleep(0.2)
        raise AssertionError(states)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start Slurm; it ends with this process, which is the first one in its PID namespace."""
    if os.getpid() != 1:
        pytest.skip("runs in scripts/fleet-lane")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])  # unshare blocks them
    root, lab = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("lab")
    subprocess.run([_FOLDER / "start-slurm", ROOT, lab, ROCENV], check=True, timeout=60)
    with Loopback(folder=root / "www") as server:
        world = Mini.build(root, server, standin_libraries())
        profile = root / "profiles" / "mini.toml"
        profile.write_text(profile.read_text().replace('hip = "6.4.3"', 'hip = "6.4"'))
        del world.env["ROCENV_TARGET"]
        Root(world.sysroot).kernel(dkms="6.8.5").cpu().gpu(1, 0x744C, 110000)
        world.create("demo", "--rocm", "6.4", ROCENV_TARGET="gfx1100")
        yield Cluster(lab, world)


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """The cluster with all nodes healthy and idle."""
    running.reset()
    return running
