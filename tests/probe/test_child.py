"""Child processes that misbehave, as seen by their parent."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocenv.probe import ladder
from tests.probe.conftest import Rig, compile_library

if TYPE_CHECKING:
    from pathlib import Path

GOOD = json.dumps({"status": "passed", "detail": "well", "no_device": False})


@pytest.mark.parametrize(
    ("script", "status", "detail"),
    [
        (f"echo '{GOOD}'", "passed", "well"),
        ("true", "crashed", "ended without a result; it printed nothing"),
        (f"echo '{GOOD}'; echo '{GOOD}'", "crashed", "it printed `{"),
        (f"echo 'hello'; echo '{GOOD}'", "crashed", "it printed `hello"),
        ("echo garbage", "crashed", "it printed `garbage"),
        ("head -c 300000 /dev/urandom", "crashed", "it printed too much"),
        ("echo '[1]'", "crashed", "it printed `[1]"),
        ("""echo '{"status": "excellent", "detail": ""}'""", "crashed", "it printed `{"),
        ("""echo '{"status": "passed", "detail": 3}'""", "crashed", "it printed `{"),
        (f"echo '{GOOD}'; exit 3", "crashed", "ended without a result: exit code 3"),
        (f"echo '{GOOD}'; kill -SEGV $$", "crashed", "crashed: SIGSEGV"),
        ("kill -KILL $$", "crashed", "crashed: SIGKILL"),
        ("echo 'error loading libz.so' >&2; exit 127", "crashed", "last output: error loading"),
        ("sleep 60", "timeout", "no result within 1 s"),
        ("exec 0<&-; exec 1>&-; sleep 60", "timeout", "no result within 1 s"),
    ],
)  # fmt: skip
def test_a_misbehaving_child_is_reported_as_a_result(rig: Rig, script: str, status: str, detail: str) -> None:
    stub = rig.work / "python"
    stub.write_text(f"#!/bin/sh\n{script}\n")
    stub.chmod(0o755)
    result = ladder.run_rung(replace(rig.probe(), python=(str(stub),), timeout_s=1.0), "load")
    assert result.status == status, result
    assert detail in result.detail
    assert result.elapsed_s < 10


def test_a_child_that_cannot_start_is_reported_as_a_result(rig: Rig) -> None:
    probe = replace(rig.probe(), python=(str(rig.work / "ld-linux-x86-64.so.2"),))
    result = ladder.run_rung(probe, "load")
    assert result.status == "failed"
    assert "cannot be started: " in result.detail
    assert "ld-linux-x86-64.so.2" in result.detail


def test_the_child_uses_this_rocenv_even_in_isolated_mode(rig: Rig, tmp_path: Path) -> None:
    # This interpreter cannot import rocenv, as if rocenv came from `pip install --user` or PYTHONPATH.
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=60)
    result = ladder.run_rung(replace(rig.probe(), python=(str(bare / "bin" / "python"),)), "load")
    assert result.status == "passed", result


def test_only_the_end_of_a_long_log_is_kept(rig: Rig) -> None:
    stub = rig.work / "python"
    stub.write_text(f"#!/bin/sh\nyes noise | head -c 240000 >&2; echo last >&2; echo '{GOOD}'\n")
    stub.chmod(0o755)
    result = ladder.run_rung(replace(rig.probe(), python=(str(stub),)), "load")
    assert result.stderr_tail.endswith("noise\nlast\n")
    assert len(result.stderr_tail) <= 4096
    assert (rig.work / "load.log").stat().st_size >= 240000


def test_library_output_is_not_mistaken_for_a_result(rig: Rig) -> None:
    # Vendor libraries print such lines, which belong in the log.
    source = rig.work / "chatty.c"
    source.write_text(
        "#include <stdio.h>\n"
        '__attribute__((constructor)) static void hello(void) { printf("hello from a library\\n"); }\n'
    )
    chatty = rig.work / "libchatty.so"
    compile_library(chatty, source)
    probe = rig.probe()
    task = replace(
        probe.task,
        libraries={**probe.task.libraries, "rocblas": str(chatty)},
        allowed_outside=("libchatty.so",),
    )
    result = ladder.run_rung(replace(probe, task=task), "load")
    assert result.status == "passed", result
    assert "hello from a library" in (rig.work / "load.log").read_text()
