"""Running the compiler: once, with a clock on display, leaving nothing behind that is half done."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError
from rocenv.system.command_lines import as_typed
from rocenv.system.processes import describe_exit, group_options, handled, kill_group

if TYPE_CHECKING:
    from pathlib import Path

    from rocenv.compilers import Toolchain
    from rocenv.kernels.recipe import Job
    from rocenv.progress import Progress

_LOOK_EVERY_S = 0.2
_LONGEST_S = 3600.0
_LAST_LINES = 12
_ASKED_IN_S = 60.0
_OTHERS = ("cannot find ROCm device library", "unsupported HIP gpu architecture", "unknown target CPU")


def command(toolchain: Toolchain, job: Job, output: Path) -> list[str]:
    """Return the command line that compiles a kernel.

    It is what `hipcc --genco` makes of an app's own command: code for the GPU alone, in a bundle.
    """
    own = ["-x", "hip", "--cuda-device-only", f"--offload-arch={job.target}"]
    if toolchain.device_libs is not None:
        own.append(f"--rocm-device-lib-path={toolchain.device_libs}")
    if toolchain.include is not None:
        own.append(f"--rocm-path={toolchain.include.parent}")
    return toolchain.run_argv(toolchain.clang, *own, *job.flags, str(job.file), "-o", str(output))


def compiler_version(toolchain: Toolchain) -> str:
    """Return what a compiler says it is; raise RocenvError where it does not start."""
    argv = toolchain.run_argv(toolchain.clang, "--version")
    try:
        asked = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_ASKED_IN_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RocenvError(
            f"the compiler of `{toolchain.name}` does not start: {_said(error)}",
            hints=(f"rocenv repair {as_typed(toolchain.env)}",) if toolchain.env else (),
            code="kernels-no-compiler",
        ) from error
    return asked.stdout.decode(errors="replace").partition("\n")[0].strip()


def _said(error: Exception) -> str:
    said = getattr(error, "stderr", b"") or b""
    return said.decode(errors="replace").strip()[-300:] or str(error)


def compile_kernel(
    toolchain: Toolchain, job: Job, folder: Path, log: Path, progress: Progress, usual_s: float
) -> bytes:
    """Return a compiled kernel.

    Args:
        toolchain: The compiler.
        job: What to compile.
        folder: An empty folder for files on the way; the caller removes it.
        log: Where the compiler's words go.
        progress: Where the clock is shown.
        usual_s: What it takes, as far as is known; 0 = unknown.

    Raises:
        RocenvError: The compiler failed; names the log and repeats its last lines.
    """
    output = folder / "kernel"
    argv = command(toolchain, job, output)
    environ = {**os.environ, "TMPDIR": str(folder), "TMP": str(folder), "TEMP": str(folder)}
    with log.open("wb") as out:
        out.write(f"$ {' '.join(map(as_typed, argv))}\n".encode(errors="surrogateescape"))
        out.flush()
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environ, **group_options()
            )
        except OSError as error:
            raise _failed(job, f"it cannot be started: {error.strerror}", log) from error
        code = _waited(child, f"compiling the {job.title}", progress, usual_s)
    if code != 0:
        raise _failed(job, describe_exit(code), log)
    try:
        return output.read_bytes()
    except FileNotFoundError as error:
        raise _failed(job, "it ended well and wrote nothing", log) from error


def _waited(child: subprocess.Popen[bytes], title: str, progress: Progress, usual_s: float) -> int:
    try:
        with handled(dict.fromkeys(("SIGTERM", "SIGHUP"), _stop)), progress.wait(title, usual_s) as stage:
            end = time.monotonic() + _LONGEST_S
            while True:
                try:
                    return child.wait(_LOOK_EVERY_S)
                except subprocess.TimeoutExpired:
                    stage.tick()
                    if time.monotonic() > end:
                        return -9  # as of a child that was killed, which it now is
    finally:
        kill_group(child)


def _stop(number: int, _frame: object) -> None:
    """End this process in order: the compiler in its own group would go on without it."""
    raise SystemExit(128 + number)


def _failed(job: Job, why: str, log: Path) -> RocenvError:
    text = log.read_text(errors="replace")
    lines = [line for line in text.splitlines()[1:] if line.strip()]
    errors = [line for line in lines if "error:" in line] or lines
    # A full disk is the compiler's words only.
    full = ("No space left on device" in text) or ("no space left" in text)
    hints = ["free some space: `rocenv gc` shows what no env needs"] if full else []
    if any(each in text for each in _OTHERS):
        hints.append(f"this compiler does not know {job.target}: leave `--env` out, and the newest is taken")
    return RocenvError(
        f"the compiler failed on the {job.title}: {why}\n"
        + "\n".join(f"  {each}" for each in errors[-_LAST_LINES:]),
        hints=(*hints, f"all that it said: {log}"),
        code="kernels-compiler",
    )
