"""The examples in docs/fleet.md, run unmodified on a real Slurm cluster."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from tests.fleet.conftest import REPOSITORY, ROOT, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = REPOSITORY / "docs" / "examples"


@contextlib.contextmanager
def settings(cluster: Cluster, *lines: str) -> Iterator[None]:
    """Add lines to slurm.conf while the block runs."""
    conf = ROOT / "etc/slurm/slurm.conf"
    before = conf.read_text()
    conf.write_text(before + "\n".join(lines) + "\n")
    cluster.run("scontrol", "reconfigure")
    try:
        yield
    finally:
        conf.write_text(before)
        cluster.run("scontrol", "reconfigure")


def test_the_prolog_keeps_jobs_off_a_broken_node(cluster: Cluster) -> None:
    cluster.set_node("n3", ROCENV_STANDIN_FAIL="load.hip=segv")
    with settings(cluster, f"Prolog={EXAMPLES / 'prolog.sh'}"):
        cluster.wait_idle("n2", "n3")
        done = cluster.run("srun", "-w", "n2", "echo", "the job runs")
        assert (done.returncode, done.stdout) == (0, "the job runs\n")
        job = cluster.run("sbatch", "--parsable", "-w", "n3", "--wrap", "echo it runs").stdout.strip()
        assert cluster.wait_drained("n3") == "rocenv:load died"
        assert "PENDING" in cluster.run("squeue", "-h", "-o", "%i %T").stdout, "Slurm requeues the job"
        cluster.run("scontrol", "update", f"JobId={job}", "Comment=seen")
        cluster.run("scancel", job)


def test_the_health_check_drains_idle_nodes_and_keeps_reasons_from_admins(cluster: Cluster) -> None:
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=maintenance")
    for node in ("n1", "n5"):
        cluster.set_node(node, ROCENV_STANDIN_DEVICES="0")
    program = f"HealthCheckProgram={EXAMPLES / 'health-check.sh'}"
    with settings(cluster, program, "HealthCheckInterval=3", "HealthCheckNodeState=ANY"):
        assert cluster.wait_drained("n5") == "rocenv:no GPU"
        time.sleep(4)
        states = cluster.sinfo()
    # A check that is still running would drain the node again during the next test.
    cluster.run("sh", "-c", "while grep -qs '[h]ealth-check.sh' /proc/[0-9]*/cmdline; do sleep .2; done")
    assert states["n1"] == ("drained", "maintenance")
    assert [node for node, (state, _) in states.items() if state.startswith("drain")] == ["n1", "n5"]


def test_the_batch_script_reports_on_the_nodes_of_its_job(cluster: Cluster) -> None:
    cluster.set_node("n4", ROCENV_STANDIN_FAIL="sgemm=nan")
    cluster.set_node("n5", ROCENV_STANDIN_FAIL="malloc=hang")
    crash = cluster.after_start("check-nodes", "scontrol update NodeName=n5 State=DOWN Reason=crash")
    done = cluster.run("sbatch", "--wait", "--output=%x.out", str(EXAMPLES / "verify.sbatch"))
    crash.join()
    text = (cluster.lab / "check-nodes.out").read_text()
    assert done.returncode == 1, text
    assert "n[1-3,6]" in text
    assert "blas bad" in text
    assert "scontrol update NodeName=n4 State=DRAIN 'Reason=rocenv:blas bad'" in text
    assert "scontrol update NodeName=n5 State=DRAIN 'Reason=rocenv:no response'" in text


@pytest.mark.parametrize("name", ["prolog.sh", "health-check.sh", "verify.sbatch"])
def test_the_documentation_contains_each_example(name: str) -> None:
    text = (REPOSITORY / "docs" / "fleet.md").read_text()
    assert f"examples/{name}" in text
    assert (EXAMPLES / name).stat().st_mode & 0o111
