"""Check one node of a cluster within a time limit, even if something hangs.

The watchdog runs the check in a child process, which prints each result as a line of JSON. At the time limit,
the watchdog reports the results so far, even if the kernel cannot kill the child.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import queue
import re
import socket
import sys
import threading
import time
from collections import deque
from typing import IO, TYPE_CHECKING, Any

from rocenv import __version__
from rocenv.system import process

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from rocenv.context import Context
    from rocenv.core.model import RungResult, Verification
    from rocenv.host import Host
    from rocenv.prefix import Prefix
    from rocenv.verify import Level

PREFIX = "rocenv:"  # prefix of every drain reason that rocenv sets
MAX_REASON = 19  # characters that `sinfo -R` shows
TIMEOUT_S = 50  # Slurm kills a HealthCheckProgram after 60 s
_STOP_S = 0.5  # after SIGTERM, and again after SIGKILL
_RESULT_S = 1.0  # to read the child's result after its last rung
_MAX_LINE_BYTES = 1 << 20
_STATUSES = {"failed": "bad", "crashed": "died", "timeout": "hung"}
_CODES = {
    "data-invalid": "env damaged",
    "env-incomplete": "env damaged",
    "env-missing": "no env",
    "env-moved": "env moved",
    "no-temp": "no space",
}
# Text in the details of `blas`, such as "float32 within the bound, 123 GFLOP/s at 4096x4096".
_RATE = re.compile(r"(\w+) within the bound, ([\d.e+]+) GFLOP/s at (\d+x\d+)")


def node_name() -> str:
    """Return this machine's node name in the cluster."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


# ---------------------------------------------------------------- the watchdog


def watch(env: str, level: Level, timeout_s: float) -> dict[str, Any]:
    """Check this node within `timeout_s`, and return what `verify --node --json` prints.

    Args:
        env: The env's name. This process does not check whether it exists, because a hung file server would
            block the check.
        level: How thorough the check is.
        timeout_s: The time limit, including the child's termination.
    """
    start = time.monotonic()
    stop_s = min(_STOP_S, timeout_s / 8)
    for_child = timeout_s - min(2 * stop_s + _RESULT_S, timeout_s / 2)
    argv = [sys.executable, *process.own_child("rocenv.fleet.node", env, level, f"{for_child - _RESULT_S:g}")]
    document: dict[str, Any] = {
        "schema": 1,
        "rocenv": __version__,
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "host": socket.gethostname(),
        "node": node_name(),
        "env": env,
        "level": level,
        "healthy": False,
        "reason": f"{PREFIX}error",
        "detail": "",
        "elapsed_s": 0.0,
        "lock_sha256": None,
        "target": None,
        "driver": None,
        "gpus": None,
        "rungs": [],
        "gflops": {},
    }
    with process.handled({"SIGTERM": process.exit_by_signal}):
        try:
            child = process.start_group(
                argv, None, stdin=process.DROP, stdout=process.KEEP, stderr=process.KEEP
            )
        except OSError as error:  # for example, too many processes
            return document | {"detail": f"cannot start the check: {error.strerror}"}
        try:
            _collect(document, child, start + for_child, f"{timeout_s:g} s")
        finally:
            process.stop_group(child, stop_s)
    document["elapsed_s"] = round(time.monotonic() - start, 3)
    return document


def _collect(document: dict[str, Any], child: subprocess.Popen[bytes], deadline: float, limit: str) -> None:
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    errors: deque[bytes] = deque(maxlen=9)  # the last lines
    assert child.stdout is not None
    assert child.stderr is not None
    for stream, put in ((child.stdout, lines.put), (child.stderr, errors.append)):
        threading.Thread(target=_read, args=(stream, put), daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            last = document["rungs"][-1]["rung"] if document["rungs"] else ""
            after = f" after the check `{last}`" if last else ""
            document |= {"reason": f"{PREFIX}timed out", "detail": f"no response within {limit}{after}"}
            return
        if not line:
            if not document["detail"] and not document["healthy"]:
                end = b"".join(errors)[-4096:].decode("utf-8", "replace").strip().splitlines()[-1:]
                document["detail"] = "; ".join(["the check ended without a result", *end])
            return
        try:
            found = json.loads(line)
        except ValueError:  # the child was killed while writing
            continue
        document["rungs"] += found.pop("rungs", [])
        document |= found


def _read(stream: IO[bytes], put: Any) -> None:
    with contextlib.suppress(OSError, ValueError):
        while line := stream.readline(_MAX_LINE_BYTES):
            put(line)
    put(b"")


# ---------------------------------------------------------------- the child


def main(env: str, level: Level, seconds: str) -> int:
    """Check the node, in the watchdog's child process."""
    until = time.monotonic() + float(seconds)
    for found in _check(env, level, until):
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    return 0


def _check(env: str, level: Level, until: float) -> Iterator[dict[str, Any]]:
    from rocenv.context import Context, limit_umask
    from rocenv.core.errors import RocenvError
    from rocenv.core.lock import lock_text
    from rocenv.host import detect
    from rocenv.prefix import prefix_of

    limit_umask()
    try:
        context = Context()
        prefix = prefix_of(context.home, env)
        lock = prefix.record().lock
        yield {"lock_sha256": hashlib.sha256(lock_text(lock).encode()).hexdigest(), "target": lock.target}
        yield _machine(detect(context.matrix))
        yield from _ladder(context, prefix, level, until)
    except RocenvError as error:
        yield {"reason": PREFIX + _CODES.get(error.code, "error"), "detail": error.message}


def _machine(host: Host) -> dict[str, Any]:
    from rocenv.host.linux import firmware

    gpus = [
        {
            "target": gpu.target or None,
            "name": gpu.name,
            "pci_id": gpu.pci_id or None,
            "address": gpu.address or None,
            "vram_bytes": gpu.vram_bytes,
            "usable": gpu.usable,
            "why_not": gpu.why_not or None,
            "firmware": firmware(gpu.address) if gpu.address else {},
        }
        for gpu in host.gpus
    ]
    driver = host.driver
    names = {"kernel": driver.kernel, "amdgpu": driver.amdgpu, "display": driver.display}
    return {"driver": {name: version or None for name, version in names.items()}, "gpus": gpus}


def _ladder(context: Context, prefix: Prefix, level: Level, until: float) -> Iterator[dict[str, Any]]:
    from rocenv.core.codec import verification_to_plain
    from rocenv.core.model import Verification
    from rocenv.verify import verify

    def report(result: RungResult) -> None:
        (rung,) = verification_to_plain(Verification(results=(result,)))["rungs"]
        sys.stdout.write(json.dumps({"rungs": [rung]}) + "\n")
        sys.stdout.flush()

    verdict = verify(prefix, context.matrix, context.progress, report=report, level=level, until=until)
    yield {"target": verdict.target, **outcome(verdict)}


def outcome(verdict: Verification) -> dict[str, Any]:
    """Return the fields that a verification contributes: health, drain reason, detail, and rates."""
    details = "; ".join(result.detail for result in verdict.results if result.rung == "blas")
    rates = {f"{name} {size}": float(rate) for name, rate, size in _RATE.findall(details)}
    reason, detail = "ok", ""
    if verdict.broken:
        worst = verdict.broken[0]
        reason, detail = f"{worst.rung} {_STATUSES[worst.status]}", f"`{worst.rung}`: {worst.detail}"
    elif verdict.no_device:
        reason = "no GPU"
        detail = next(result.detail for result in verdict.results if result.no_device)
    return {
        "healthy": reason == "ok",
        "reason": (PREFIX + reason)[:MAX_REASON],
        "detail": detail,
        "gflops": rates,
    }
