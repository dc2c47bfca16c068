"""`rocenv fleet verify` on a real Slurm cluster."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.fleet.conftest import NODES, ROCENV, ROOT, Cluster
from tests.host.roots import Root

if TYPE_CHECKING:
    from pathlib import Path


def machine(cluster: Cluster, folder: Path, dkms: str = "6.8.5", gpus: int = 1) -> dict[str, str]:
    """Return the environment variables for a node with this driver and number of GPUs."""
    shutil.copytree(cluster.world.sysroot, folder, ignore=shutil.ignore_patterns("sys", "dev"))
    found = Root(folder).kernel(dkms=dkms).cpu()
    for number in range(1, gpus + 1):
        found.gpu(number, 0x744C, 110000)
    return {"ROCENV_SYSROOT": str(folder)}


def reasons(found: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {each["node"]: each["reason"] for each in found["findings"] if each["reason"]}


def test_one_job_step_checks_six_healthy_nodes(cluster: Cluster, tmp_path: Path) -> None:
    done = cluster.rocenv("fleet", "verify", "demo", "--slurm", "all")
    assert done.returncode == 0, done.stdout + done.stderr
    (_, row) = done.stdout.splitlines()
    assert row.split()[:5] == ["ok", "6", "gfx1100", "1", "6.8.5"]
    assert row.endswith("  n[1-6]")
    jobs = cluster.run("scontrol", "show", "jobs", "--oneliner").stdout.splitlines()
    assert len([line for line in jobs if "JobName=rocenv-verify" in line]) == 1
    for node in NODES:
        assert (cluster.lab / "nodes" / f"{node}.devices").read_text().strip() == "0", (
            "the job step has the GPU"
        )

    def timed(*argv: str) -> float:
        cluster.wait_idle(*NODES)
        start = time.monotonic()
        done = cluster.run(*argv)
        assert done.returncode == 0, done.stderr
        return time.monotonic() - start

    check = ["verify", "demo", "--node", "--json", "--level", "quick"]
    plain = [
        "srun",
        "-N6",
        "--exclusive",
        "--gres=gpu:1",
        f"--output={tmp_path}/%n.json",
        str(ROCENV),
        *check,
    ]
    ours_of_fleet = [str(ROCENV), "fleet", "verify", "demo", "--slurm", "all", "--level", "quick"]
    pairs = []
    for _ in range(8):  # a step sometimes waits for nodes that the previous step has just released
        pairs.append((timed(*ours_of_fleet), timed(*plain)))
        ours, reference = map(min, zip(*pairs, strict=True))
        if ours <= 1.2 * reference:
            break
    sys.stderr.write(f"fleet verify: {ours:.2f} s; srun alone: {reference:.2f} s\n")
    assert ours <= 1.2 * reference + 0.1, f"{ours:.2f} s, but srun alone takes {reference:.2f} s"


# Tests that cancel jobs come before those in which nodes fail: after such a failure, Slurm 24.11 may
# consider a node of a canceled exclusive job busy for minutes, although it is idle.
def test_a_canceled_check_drains_no_nodes(cluster: Cluster) -> None:
    cluster.set_node("n2", ROCENV_STANDIN_FAIL="malloc=hang")
    cancelling = cluster.after_start("rocenv-verify", "scancel --name=rocenv-verify")
    done = cluster.rocenv("fleet", "verify", "demo", "--slurm", "all", "--drain", "--timeout", "30")
    cancelling.join()
    assert (done.returncode, "was canceled in Slurm" in done.stderr) == (1, True)
    assert not [state for state, _ in cluster.sinfo().values() if state.startswith("drain")]


def test_an_interrupted_check_leaves_no_job_in_slurm(cluster: Cluster) -> None:
    cluster.set_node("n2", ROCENV_STANDIN_FAIL="malloc=hang")
    argv = [str(ROCENV), "fleet", "verify", "demo", "--slurm", "all", "--timeout", "60"]
    with subprocess.Popen(argv, env=cluster.env, cwd=cluster.lab) as check:
        interrupting = cluster.after_start("rocenv-verify", f"kill {check.pid}")
        assert check.wait(60) == 128 + signal.SIGTERM
        interrupting.join()
    cluster.run("sh", "-c", "for each in $(seq 50); do squeue -h | grep -q . || break; sleep .2; done")
    assert cluster.run("squeue", "-h").stdout == ""


def test_broken_nodes_are_found_and_the_others_report_their_results(cluster: Cluster, tmp_path: Path) -> None:
    cluster.set_node("n2", **machine(cluster, tmp_path / "n2", dkms="6.3.6"))
    cluster.set_node("n3", ROCENV_STANDIN_FAIL="load.hip=segv")
    cluster.set_node("n4", ROCENV_STANDIN_FAIL="malloc=hang")
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", full], check=True)
    subprocess.run(["mount", "--bind", full, f"{ROOT}/host{full}"], check=True)
    cluster.set_node("n5", TMPDIR=str(full))
    stopped = int((ROOT / "run/slurmd.n6.pid").read_text())
    os.kill(stopped, signal.SIGSTOP)  # Slurm still considers the node idle
    try:
        start = time.monotonic()
        done = cluster.rocenv("fleet", "verify", "demo", "--slurm", "all", "--timeout", "20")
        took_s = time.monotonic() - start
    finally:
        os.kill(stopped, signal.SIGKILL)
        subprocess.run(["chroot", ROOT, "slurmd", "-N", "n6"], check=True)
        cluster.run("scontrol", "update", "NodeName=n6", "State=DOWN", "Reason=restart")  # ends its jobs
    assert done.returncode == 1
    rows = {tuple(line.split())[-1]: line for line in done.stdout.splitlines()[1:7]}
    assert rows["n1"].startswith("ok ")
    assert "6.3.6" in rows["n2"]
    assert rows["n3"].startswith("load died ")
    assert rows["n4"].startswith("memory hung ")
    assert rows["n5"].startswith("no space ")
    assert rows["n6"].startswith("no response ")
    assert "scontrol update NodeName=n6 State=DRAIN 'Reason=rocenv:no response'" in done.stdout
    assert "n2: kernel 6.8.0-45-generic, amdgpu 6.3.6; most nodes have" in done.stdout
    assert took_s < 60, "Slurm gives up on the silent node after six times MessageTimeout"
    assert not [state for state, _ in cluster.sinfo().values() if state.startswith("drain")]


def test_drain_and_resume_touch_only_nodes_that_rocenv_drained(cluster: Cluster) -> None:
    cluster.run(
        "scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=rocenv: maintenance|x State=RESUME"
    )
    cluster.set_node("n3", ROCENV_STANDIN_FAIL="compile=abort")
    cluster.set_node("n4", ROCENV_STANDIN_DEVICES="0")
    code, found = cluster.verify("--slurm", "all", "--drain")
    assert (code, reasons(found)) == (1, {"n3": "rocenv:compile died", "n4": "rocenv:no GPU"})
    assert [each["node"] for each in found["findings"] if each["code"] == "drained"] == ["n1"]
    assert cluster.wait_drained("n3") == "rocenv:compile died"
    assert cluster.wait_drained("n4") == "rocenv:no GPU"
    states = cluster.sinfo()
    assert states["n2"][1] == "none"
    admin = states["n1"]

    cluster.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=new power supply")
    for node in ("n3", "n4"):
        cluster.set_node(node)  # repaired
    assert cluster.verify("--nodes", "n3", "--level", "quick")[1]["commands"] == [], (
        "the quick level does not compile anything"
    )
    code, found = cluster.verify("--nodes", "n[1-4]")
    assert (code, found["commands"]) == (0, ["scontrol update NodeName=n3 State=RESUME"])
    code, found = cluster.verify("--nodes", "n[1-4]", "--drain")
    assert (code, found["done"]) == (0, True)
    cluster.wait_idle("n3")
    states = cluster.sinfo()
    assert (states["n1"], states["n4"]) == (admin, ("drained", "new power supply"))
    assert "drained" not in json.loads((cluster.world.home / "fleet.json").read_text())
    cluster.run("scontrol", "update", "NodeName=n4", "State=DRAIN", "Reason=rocenv:no GPU")
    assert cluster.verify("--nodes", "n4", "--drain")[1]["commands"] == [], "an admin set that reason"


def test_the_reason_of_an_admin_who_drains_a_node_during_the_check_is_kept(cluster: Cluster) -> None:
    cluster.set_node("n2", ROCENV_STANDIN_FAIL="malloc=hang")
    cluster.set_node("n3", ROCENV_STANDIN_FAIL="malloc=hang")
    drain = "scontrol update NodeName=n2 State=DRAIN Reason='new fan'"
    admin = cluster.after_start("rocenv-verify", drain)
    found = cluster.verify("--slurm", "all", "--drain", "--timeout", "25")[1]
    admin.join()
    assert reasons(found).keys() == {"n2", "n3"}
    states = cluster.sinfo()
    assert (states["n2"][1], states["n3"][1]) == ("new fan", "rocenv:memory hung")
    assert json.loads((cluster.world.home / "fleet.json").read_text())["drained"].keys() == {"n3"}


def test_a_node_that_lost_a_gpu_since_the_last_check_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    cluster.set_node("n2", **machine(cluster, tmp_path / "two", gpus=2))
    assert cluster.verify("--slurm", "all")[0] == 0
    cluster.set_node("n2")
    cluster.wait_idle(*NODES)
    code, found = cluster.verify("--slurm", "all")
    assert (code, reasons(found)) == (1, {"n2": "rocenv:lost GPU"})
    assert found["findings"][0]["detail"] == "it has 1 GPU but used to have 2"


def test_nodes_are_checked_through_clush_without_slurm(cluster: Cluster) -> None:
    (cluster.lab / "nodes" / "n5.unreachable").touch()
    done = cluster.rocenv("fleet", "verify", "demo", "--nodes", "n[4-6]", "--level", "quick")
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()[1:3]] == ["ok", "no"]
    assert "n[4,6]" in done.stdout
    assert "n5: no response" in done.stdout
    done = cluster.rocenv("fleet", "verify", "demo", "--nodes", "n5", "--level", "quick")
    assert (done.returncode, "none of the nodes responded: " in done.stderr) == (1, True)
    assert "No route to host" in done.stderr


def test_busy_nodes_are_not_checked(cluster: Cluster) -> None:
    with subprocess.Popen(["srun", "-w", "n2", "--exclusive", "sleep", "60"], env=cluster.env) as job:
        cluster.run("bash", "-c", "until [ $(sinfo -hN -t alloc -o %N | wc -l) = 1 ]; do sleep .1; done")
        code, found = cluster.verify("--slurm", "all", "--level", "quick")
        job.terminate()
    assert (code, len(found["nodes"])) == (0, 5)
    assert [(each["node"], each["code"]) for each in found["findings"]] == [("n2", "busy")]


def test_invalid_node_names_are_not_passed_to_slurm(cluster: Cluster) -> None:
    for words in (
        ["--slurm", "all --help"],
        ["--slurm", "-h"],
        ["--nodes", "n1;reboot"],
        ["--nodes", "ALL"],
        [],
    ):
        assert cluster.rocenv("fleet", "verify", "demo", *words).returncode == 2, words
    done = cluster.rocenv("fleet", "verify", "demo", "--slurm", "nowhere")
    assert (done.returncode, "partition `nowhere` does not exist" in done.stderr) == (1, True)
    done = cluster.rocenv("fleet", "verify", "demo", "--slurm", "all", PATH="/usr/bin:/bin")
    assert (done.returncode, "`sinfo` is not on PATH" in done.stderr) == (1, True)


def test_a_check_that_fails_to_start_on_every_node_drains_none(cluster: Cluster) -> None:
    words = ("fleet", "verify", "demo", "--slurm", "all", "--drain", "--level", "quick")
    done = cluster.rocenv(*words, SLURM_RESERVATION="nothing")
    assert (done.returncode, "srun could not start the check" in done.stderr) == (1, True)
    done = cluster.rocenv("fleet", "verify", "nothing", *words[3:])
    assert (done.returncode, "none of the nodes has the env" in done.stderr) == (1, True)
    program = cluster.lab / "rocenv-on-nodes"
    before = program.read_text()
    cluster.wait_idle(*NODES)
    try:
        program.write_text("#!/bin/sh\necho rocenv: no such file >&2\nexit 127\n")
        done = cluster.rocenv(*words)
    finally:
        program.write_text(before)
    assert done.returncode == 1
    assert "none of the nodes responded: rocenv: no such file" in done.stderr
    assert not [state for state, _ in cluster.sinfo().values() if state.startswith("drain")]


def test_a_node_that_fails_during_the_check_does_not_affect_the_results_of_others(cluster: Cluster) -> None:
    for node in ("n2", "n6"):
        cluster.set_node(node, ROCENV_STANDIN_FAIL="malloc=hang")
    failure = cluster.after_start("rocenv-verify", "scontrol update NodeName=n6 State=DOWN Reason=crash")
    code, found = cluster.verify("--slurm", "all", "--timeout", "25")
    failure.join()
    assert (code, reasons(found)["n2"]) == (1, "rocenv:memory hung")
    # Slurm kills the check on n6, sometimes before the watchdog can record that it ended.
    assert reasons(found)["n6"] in ("rocenv:no response", "rocenv:error")
    assert [each["node"] for each in found["nodes"] if each["healthy"]] == ["n1", "n3", "n4", "n5"]
