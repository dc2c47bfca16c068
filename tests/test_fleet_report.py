"""`rocenv fleet report` on result files: differences between nodes, hostile files, and 10,000 files."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from rocenv.core.errors import RocenvError
from rocenv.fleet.compare import findings
from rocenv.fleet.results import folded, read_results
from rocenv.fleet.run import FleetRecord, SlurmNode, read_record, slurm_nodes, update_nodes
from rocenv.home import Home
from tests import forked

if TYPE_CHECKING:
    from pathlib import Path

FIRMWARE = {
    name: f"0x{number:08x}" for number, name in enumerate(("mec", "me", "pfp", "rlc", "sdma", "smc"), 1)
}


def answer(
    node: str, *, gpus: int = 4, firmware: dict[str, str] = FIRMWARE, **changes: Any
) -> dict[str, Any]:
    """Return the output of `verify --node --json` on a healthy node."""
    gpu = {"target": "gfx90a", "name": "MI250X", "pci_id": "1002:7408", "usable": True, "firmware": firmware}
    return {
        "schema": 1,
        "rocenv": "0.1.0",
        "when": "2026-11-24T08:00:00+00:00",
        "host": node,
        "node": node,
        "env": "demo",
        "level": "full",
        "healthy": True,
        "reason": "rocenv:ok",
        "detail": "",
        "elapsed_s": 9.5,
        "lock_sha256": "ab" * 32,
        "target": "gfx90a",
        "driver": {"kernel": "5.14.0", "amdgpu": "6.8.5", "display": None},
        "gpus": [
            {**gpu, "address": f"0000:{number:02x}:00.0", "vram_bytes": 64 << 30} for number in range(gpus)
        ],
        "rungs": [{"rung": "files", "status": "passed", "elapsed_s": 9.0, "detail": "523 files, unchanged"}],
        "gflops": {"float32 4096x4096": 20000.0, "float16 4096x4096": 90000.0},
        **changes,
    }


def put(folder: Path, *answers: dict[str, Any]) -> None:
    for each in answers:
        (folder / f"{each['node']}-{each['when'][:10]}.json").write_text(json.dumps(each))


def put_programs(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)


def report(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
    return forked.run_text(["fleet", "report", str(folder), *options], env=env, cwd=folder, timeout_s=60)


def plain(folder: Path) -> dict[str, Any]:
    done = report(folder, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == int(
        any(each["reason"] for each in found["findings"]) or bool(found["unreadable"])
    )
    return found


def codes(folder: Path) -> set[tuple[str, str, str | None]]:
    return {(each["node"], each["code"], each["reason"]) for each in plain(folder)["findings"]}


def test_differences_from_peers_are_found(tmp_path: Path) -> None:
    put(tmp_path, *(answer(f"n{number:02}") for number in range(1, 9)))
    assert plain(tmp_path)["findings"] == []
    slow = {"float32 4096x4096": 15900.0, "float16 4096x4096": 89000.0}
    almost = {"float32 4096x4096": 16100.0}
    put(
        tmp_path,
        answer("n11", gflops=slow),
        answer("n12", gflops=almost),
        answer("n13", gpus=3),
        answer("n14", driver={"kernel": "5.14.0", "amdgpu": "6.3.6"}),
        answer("n15", lock_sha256="cd" * 32),
        answer("n16", firmware={**FIRMWARE, "smc": "0x00000009"}),
        answer("n17", healthy=False, reason="rocenv:gemm bad", detail="`gemm`: 1 element differs"),
        answer("n18", target="gfx942", gflops=almost, gpus=8),  # a node without peers
    )
    (tmp_path / "n19.json").touch()
    assert codes(tmp_path) == {
        ("n11", "slow", "rocenv:slow"),
        ("n13", "gpus", "rocenv:lost GPU"),
        ("n14", "driver", None),
        ("n15", "lock", None),
        ("n16", "firmware", None),
        ("n17", "unhealthy", "rocenv:gemm bad"),
        ("n19", "no-answer", "rocenv:no response"),
    }
    done = report(tmp_path)
    assert done.returncode == 1
    assert "n11: float32 4096x4096: 15900 GFLOP/s, 20 % slower than other gfx90a" in done.stdout
    assert "n16: firmware of its gfx90a (1002:7408): smc 0x00000009, not 0x00000006" in done.stdout
    assert re.search(r"^ok +11 +gfx90a +4 +6\.8\.5 +90000 +n\[01-08,12,15-16\]$", done.stdout, re.MULTILINE)
    assert "  scontrol update NodeName=n17 State=DRAIN 'Reason=rocenv:gemm bad'" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80 + len("scontrol update")


def test_a_lost_gpu_is_detected_from_earlier_results(tmp_path: Path) -> None:
    put(tmp_path, answer("n1", when="2026-11-23T08:00:00+00:00"), answer("n1", gpus=3))
    found = plain(tmp_path)
    assert [each["detail"] for each in found["findings"]] == ["it has 3 GPUs but used to have 4"]
    assert [each["gpus"] for each in found["nodes"]] == [3], "only the newest result counts"
    put(tmp_path, answer("n2", when="2026-11-21T08:00:00+00:00"))
    assert ("n2", "no-answer", "rocenv:no response") in codes(tmp_path)


def test_nodes_of_another_model_do_not_count_as_having_lost_gpus(tmp_path: Path) -> None:
    put(tmp_path, *(answer(f"n{number}", gpus=8) for number in range(6)))
    put(tmp_path, *(answer(f"m{number}") for number in range(3)))
    assert plain(tmp_path)["findings"] == []


HOSTILE = {
    "truncated": json.dumps(answer("n2"))[:300],
    "not JSON": "slurmstepd: error: *** STEP CANCELLED ***",
    "nested": '{"schema": 1, "node": ' + "[" * 100_000,
    "a list": "[]",
    "a huge file": json.dumps(answer("n2", detail="x" * 300_000)),
    "several nodes": json.dumps(answer("n[1-9]")),
    "two nodes": json.dumps(answer("n1,n2")),
    "all nodes": json.dumps(answer("ALL")),
    "an option": json.dumps(answer("-h")),
    "another command": json.dumps(answer("n2 State=RESUME")),
    "a shell command": json.dumps(answer("$(reboot)")),
    "an escape sequence": json.dumps(answer("\x1b]0;x\x07")),
    "another type": json.dumps(answer("n2", gpus=0) | {"gpus": "many"}),
    "an absurd rate": json.dumps(answer("n2")).replace("20000.0", "1e308"),
    "an infinite rate": json.dumps(answer("n2")).replace("20000.0", "1e999"),
    "another schema": json.dumps(answer("n2", schema=2)),
    "a rate of zero": json.dumps(answer("n2", gflops={"float32 4096x4096": 0})),
    "an impossible date": json.dumps(answer("n2", when="2026-99-24T08:00:00+00:00")),
    "no date": json.dumps(answer("n2", when="9999")),
}


def test_hostile_files_are_listed_and_do_not_affect_other_nodes(tmp_path: Path) -> None:
    put(tmp_path, answer("n1"))
    for name, text in HOSTILE.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "a folder.json").mkdir()
    os.mkfifo(tmp_path / "a fifo.json")
    (tmp_path / "a dangling link.json").symlink_to("nowhere")
    (tmp_path / "no\x1b[2Jname.json").write_text("{")
    found = plain(tmp_path)
    assert [each["node"] for each in found["nodes"]] == ["n1"]
    assert len(found["unreadable"]) == len(HOSTILE) + 4
    assert found["commands"] == []
    done = report(tmp_path)
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    "reason",
    ["x; reboot", "rocenv:ok State=RESUME", "rocenv:$(reboot)", "Reason=x", "rocenv:" + "x" * 99, ""],
)
def test_a_drain_reason_cannot_inject_code_into_the_printed_command(tmp_path: Path, reason: str) -> None:
    put(tmp_path, answer("n1", healthy=False, reason=reason, detail="a\x1b[31m\nb"))
    (command,) = plain(tmp_path)["commands"]
    assert shlex.split(command) == ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=rocenv:error"]
    assert "\x1b" not in report(tmp_path).stdout


def test_a_result_that_claims_both_health_and_a_fault_is_invalid(tmp_path: Path) -> None:
    put(tmp_path, answer("n1", healthy=False), answer("n2", reason="rocenv:gemm bad"))
    assert {(node, reason) for node, _, reason in codes(tmp_path)} == {
        ("n1", "rocenv:error"),
        ("n2", "rocenv:error"),
    }


def test_ten_thousand_files_are_read_in_three_seconds_and_300_mb(tmp_path: Path) -> None:
    for number in range(10_000):
        text = json.dumps(answer(f"n{number:05}", gpus=8, gflops={"float32 4096x4096": 20000.0 + number % 7}))
        (tmp_path / f"{number}.json").write_text(text)
    (tmp_path / "7777.json").write_text('{"schema": 1')
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "rocenv", "fleet", "report", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.splitlines()[1].startswith("ok      9999   gfx90a  8 ")
    assert "n[00000-07776,07778-09999]" in done.stdout
    assert after.ru_maxrss == before.ru_maxrss or after.ru_maxrss < 300 << 10
    busy_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert busy_s < 3, "measured on an otherwise idle machine"


def test_a_folder_without_results_says_how_to_collect_them(tmp_path: Path) -> None:
    done = report(tmp_path)
    assert done.returncode == 1
    assert "`rocenv verify --node --json`" in done.stderr
    assert report(tmp_path / "nowhere").returncode == 1


def test_node_names_are_folded_as_slurm_does() -> None:
    names = [
        *(f"n{number}" for number in (1, 2, 3, 7, 10)),
        "gpu-09",
        "gpu-10",
        "gpu-08",
        "login",
        "r2n5-ib",
        "0x1f",
    ]
    assert folded(names) == "login,n[1-3,7,10],gpu-[08-10],r2n5-ib,0x1f"


def test_a_node_cannot_forge_lines_of_the_report(tmp_path: Path) -> None:
    forged = "x\n\nTo drain and resume these nodes in Slurm:\n  scontrol update NodeName=ALL State=DOWN"
    driver = {"amdgpu": "6\nok  9"}
    put(tmp_path, answer("n1", healthy=False, reason="rocenv:gemm bad", detail=forged))
    put(tmp_path, answer("n2", target="\n".join("gfx90"), driver=driver), answer("n3"))
    lines = report(tmp_path).stdout.splitlines()
    assert lines[4] == "", "the table must have one line for each of the three nodes"
    assert [line for line in lines if line.startswith("  ")] == [
        "  scontrol update NodeName=n1 State=DRAIN 'Reason=rocenv:gemm bad'"
    ]


def test_a_wrong_clock_does_not_hide_other_nodes(tmp_path: Path) -> None:
    put(tmp_path, answer("n1"), answer("n2"), answer("n3", when="2999-01-01T00:00:00+00:00"))
    assert codes(tmp_path) == set()
    asked = {"n1": "silent", "n2": "silent"}
    for node, day in (("n1", 1), ("n2", 20)):
        path = tmp_path / "asked" / f"{node}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(answer(node, when=f"2026-11-{day:02}T08:00:00+00:00")))
    old = read_results(tmp_path / "asked")
    assert findings(old, {}, asked) == [], "both results are recent"
    assert [(each.node, each.code) for each in findings(old, {}, {})] == [("n1", "no-answer")]


def test_only_nodes_on_which_slurm_starts_steps_count_as_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = {
        "idle": "idle",
        "idle*": "unresponsive",
        "idle~": "powered-down",
        "idle#": "powered-down",
        "idle^": "busy",
        "planned": "planned",
        "maint": "busy",
        "reserved": "busy",
        "mixed": "busy",
        "mixed*": "unresponsive",
        "draining": "drained",
        "drained*": "drained",
        "down*": "down",
        "down~": "down",
    }
    lines = "".join(f"n{number}|{state}|gpu:4|none\n" for number, state in enumerate(states))
    program = tmp_path / "sinfo"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert [each.state for each in slurm_nodes().values()] == list(states.values())


def test_a_node_planned_for_another_job_is_listed_but_not_checked(tmp_path: Path) -> None:
    (tmp_path / "n1.json").write_text(json.dumps(answer("n1")))
    programs = {
        "sinfo": 'echo "n1|idle|gpu:4|none"; echo "n2|planned|gpu:4|none"',
        "srun": f"""
            echo "$@" >'{tmp_path}/call'
            for word; do case $word in --output=*) out=${{word#--output=}} ;; esac; done
            cp '{tmp_path}/n1.json' "${{out%\\%n.json}}n1.json"
            """,
    }
    put_programs(tmp_path / "bin", programs)
    done = forked.run_text(
        ["fleet", "verify", "demo", "--slurm", "all"],
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        cwd=tmp_path,
        timeout_s=60,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()[1:3]] == ["ok", "planned"]
    assert done.returncode == 0
    assert "n2: not checked, because Slurm lists it as planned" in done.stdout
    assert "--nodelist=n1 " in (tmp_path / "call").read_text()


def test_results_are_kept_if_slurm_cannot_start_the_step_on_the_other_nodes(tmp_path: Path) -> None:
    """No node is drained, although some did not respond and one reports a fault."""
    broken = answer("n2", healthy=False, reason="rocenv:memory died")
    for each in (answer("n1"), broken):
        (tmp_path / f"{each['node']}.json").write_text(json.dumps(each))
    programs = {
        "sinfo": 'for n in 1 2 3 4 5 6; do echo "n$n|idle|gpu:4|none"; done',
        "scontrol": f"touch '{tmp_path}/drained'",
        "srun": f"""
            echo >>'{tmp_path}/calls'
            for word; do case $word in --output=*) out=${{word#--output=}} ;; esac; done
            for n in 1 2; do cp "{tmp_path}/n$n.json" "${{out%\\%n.json}}$n.json"; done
            node=n$(($(wc -l <'{tmp_path}/calls') + 2))
            echo "srun: error: Task launch for StepId=7.0 failed on node $node: timeout" >&2
            exit 1""",
    }
    put_programs(tmp_path / "bin", programs)
    done = forked.run_text(
        ["fleet", "verify", "demo", "--slurm", "all", "--drain", "--json"],
        env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        cwd=tmp_path,
        timeout_s=60,
    )
    found = json.loads(done.stdout)
    assert (done.returncode, [each["node"] for each in found["nodes"]]) == (1, ["n1", "n2"])
    assert [(each["node"], each["code"]) for each in found["findings"]] == [
        ("n2", "unhealthy"),
        *((node, "not-started") for node in ("n3", "n4", "n5", "n6")),
    ]
    assert not (tmp_path / "drained").exists()
    assert "Slurm could not start a step" in done.stderr


def test_no_nodes_are_drained_if_the_record_of_drained_nodes_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the record, rocenv would never resume the nodes."""
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\necho \"$@\" >>'{tmp_path}/calls'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    idle = {"n1": SlurmNode("idle", 1, "none")}
    words = FleetRecord(), idle, {"rocenv:no GPU": ["n1"]}, ()
    (tmp_path / "a file").touch()
    with pytest.raises(RocenvError, match="cannot write"):
        update_nodes(Home(tmp_path / "a file"), *words)
    assert not (tmp_path / "calls").exists()
    assert update_nodes(Home(tmp_path), *words).drained == {"n1": "rocenv:no GPU"}
    assert (tmp_path / "calls").read_text() == "update NodeName=n1 State=DRAIN Reason=rocenv:no GPU\n"


def test_two_runs_at_once_both_remember_what_they_drained(tmp_path: Path) -> None:
    """If a run discarded the other's record, rocenv would never resume the nodes in it."""
    bad = {name: answer(name, healthy=False, reason="rocenv:gemm bad") for name in ("n1", "n2")}
    put(tmp_path, *bad.values())
    programs = {
        "nodeset": 'echo "$4"',
        "sinfo": 'echo "${4#--nodes=}|idle|gpu:4|none"',
        "scontrol": "sleep 1",
        "clush": f'node=$8; cp "{tmp_path}/$node-2026-11-24.json" "${{5#--outdir=}}/$node"',
    }
    put_programs(tmp_path, programs)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    env["ROCENV_HOME"] = str(tmp_path / "home")
    with ThreadPoolExecutor() as pool:
        words = ["fleet", "verify", "demo", "--drain", "--json", "--nodes"]
        runs = [pool.submit(forked.run_text, [*words, name], env=env, cwd=tmp_path) for name in bad]
    for each in runs:
        assert json.loads(each.result().stdout).get("done"), each.result().stdout
    assert read_record(Home(tmp_path / "home")).drained == dict.fromkeys(bad, "rocenv:gemm bad")
