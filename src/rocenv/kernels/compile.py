"""Run the compiler and show its progress; if it fails, only its log remains."""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING

from rocenv.core.errors import RocenvError
from rocenv.system import process
from rocenv.system.exit_codes import describe_exit
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocenv.compilers import Toolchain
    from rocenv.core.progress import Progress
    from rocenv.kernels.recipe import Job

_TIMEOUT_S = 3600.0
_VERSION_TIMEOUT_S = 60.0
_SHOWN_LINES = 12
_SHOWN_WIDTH = 300
_SEARCHED_WIDTH = 4096
_SEARCHED_BYTES = 16 << 20  # at the end of a log
_TARGET_ERRORS = (
    "cannot find ROCm device library",
    "unsupported HIP gpu architecture",
    "unknown target CPU",
)


def command(toolchain: Toolchain, job: Job, output: Path) -> list[str]:
    """Build a command line that creates a bundle with only GPU code, like `hipcc --genco`."""
    options = ["-x", "hip", "--cuda-device-only", f"--offload-arch={job.target}"]
    if toolchain.device_libs is not None:
        options.append(f"--rocm-device-lib-path={toolchain.device_libs}")
    options.append(f"--rocm-path={toolchain.include.parent}")
    return [str(toolchain.clang), *options, *job.flags, str(job.file), "-o", str(output)]


def compiler_version(toolchain: Toolchain) -> str:
    """Get a compiler's version; raise RocenvError if the compiler does not start."""
    answer = process.run(
        [str(toolchain.clang), "--version"], stderr=process.MERGE, timeout_s=_VERSION_TIMEOUT_S
    )
    lines = [line.strip()[:_SHOWN_WIDTH] for line in answer.lines]
    if not answer.ok:
        last = f", last line: `{lines[-1]}`" if lines else ""
        raise RocenvError(
            f"the compiler of `{toolchain.name}` does not start: {answer.end}{last}",
            hints=(f"rocenv repair {shell_join(toolchain.env)}",),
            code="kernels-no-compiler",
        )
    # The loader can print warnings before it.
    return next((line for line in lines if "version" in line), lines[0] if lines else "")


def compile_kernel(toolchain: Toolchain, job: Job, folder: Path, log: Path, progress: Progress) -> bytes:
    """Compile a kernel and return the compiled bytes.

    Args:
        toolchain: The compiler.
        job: What to compile.
        folder: An empty folder for temporary files; the caller removes it.
        log: The file that receives the compiler's output.
        progress: Shows the elapsed time.

    Raises:
        RocenvError: The compiler failed; the error shows the log's path and its last lines.
    """
    output = folder / "kernel"
    argv = command(toolchain, job, output)
    environ = {**os.environ, "TMPDIR": str(folder), "TMP": str(folder), "TEMP": str(folder)}
    with log.open("wb") as out:
        out.write(f"$ {' '.join(map(shell_join, argv))}\n".encode(errors="surrogateescape"))
        out.flush()
        with progress.wait(f"compiling the {job.title}", float(job.recipe.seconds)) as stage:
            done = process.run(
                argv, environ=environ, stdout=out, stderr=out, timeout_s=_TIMEOUT_S, on_wait=stage.tick
            )
    if not done.ok:
        raise _failed(job, done.problem or describe_exit(done.code or 0), log)
    try:
        return output.read_bytes()
    except FileNotFoundError as error:
        raise _failed(job, "it reported success but wrote nothing", log) from error


def _failed(job: Job, why: str, log: Path) -> RocenvError:
    lines: deque[str] = deque(maxlen=_SHOWN_LINES)
    errors: deque[str] = deque(maxlen=_SHOWN_LINES)
    disk_full = unknown_target = False
    for line in _last_lines(log):
        lines.append(line[:_SHOWN_WIDTH])
        if "error:" in line:
            errors.append(line[:_SHOWN_WIDTH])
        # The compiler reports a full disk only in its output.
        disk_full = disk_full or "no space left" in line.lower()
        unknown_target = unknown_target or any(each in line for each in _TARGET_ERRORS)
    hints = ["free disk space: `rocenv gc` lists what no env needs"] if disk_full else []
    if unknown_target:
        hints.append(
            f"this compiler does not support {job.target}; without `--env` rocenv uses the newest one"
        )
    return RocenvError(
        f"the compiler failed on the {job.title}: {why}\n"
        + "\n".join(f"  {each}" for each in errors or lines),
        hints=(*hints, f"complete output: {log}"),
        code="kernels-compiler",
    )


def _last_lines(log: Path) -> Iterator[str]:
    """Yield a log's last non-empty lines, and truncate long ones."""
    with log.open("rb") as file:
        file.readline()  # the command
        file.seek(max(file.tell(), file.seek(0, os.SEEK_END) - _SEARCHED_BYTES))
        at_line_start = True
        while piece := file.readline(_SEARCHED_WIDTH):
            line = piece.decode(errors="replace").strip()
            if at_line_start and line:
                yield line
            at_line_start = piece.endswith(b"\n")
