"""`rocenv mem`: the report, the live view, and settings."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from rocenv.commands.mem_show import graph
from tests import forked, shipped
from tests.commands.lab import PROGRAM
from tests.host.roots import GIB
from tests.memory.machines import RX_7900, Machine, apu, card
from tests.users import unprivileged

NUMBER_OR_NONE = (int, type(None))


@pytest.fixture
def environ(machine: Machine, tmp_path: Path) -> dict[str, str]:
    shipped.put_into(tmp_path / "home")
    return {
        "HOME": str(tmp_path / "user"),
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "ROCENV_HOME": str(tmp_path / "home"),
        "ROCENV_SYSROOT": str(machine.path),
        "TERM": "xterm",
        "COLUMNS": "100",
    }


def run(environ: dict[str, str], *words: str, before: tuple[str, ...] = ()) -> Any:
    if not before:
        return forked.run_text(["mem", *words], env=environ)
    return subprocess.run(
        [*before, str(PROGRAM), "mem", *words],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def document_of(environ: dict[str, str], *words: str) -> dict[str, Any]:
    done = run(environ, *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def busy(machine: Machine) -> Machine:
    card(machine).process(1, "init").process(70, "gnome-shell").client(70, vram=GIB)
    return machine.process(80, "ollama").client(80, vram=6 * GIB)


class TestReport:
    def test_a_card_is_shown_with_the_programs_that_use_it(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        busy(machine)
        done = run(environ)
        lines = done.stdout.splitlines()
        assert done.returncode == 0
        assert re.fullmatch(r"GPU 0: .*7900 XTX.* \(gfx1100\), 0000:03:00\.0", lines[0])
        assert "10.0 GiB of 24.0 GiB in use, 14.0 GiB free  (sysfs)" in lines[1]
        assert [line.split()[:3] for line in lines[3:6]] == [
            ["6.0", "GiB", "ollama"],
            ["1.0", "GiB", "gnome-shell"],
            ["3.0", "GiB", "unknown"],
        ]
        assert "can release memory" in done.stdout
        assert "xargs -r -n 1 ollama stop" in done.stdout

    def test_the_report_explains_the_memory_pools_of_an_apu(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        apu(machine, vram=GIB, gtt=60 * GIB, ram=120 * GIB)
        assert (
            "1.0 GiB of this is reserved for the GPU, and 60.0 GiB is system memory shared"
            in run(environ).stdout
        )

    def test_an_apu_with_much_reserved_memory_shows_the_sum_of_gpus(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        apu(machine, vram=96 * GIB, gtt=16 * GIB, ram=32 * GIB)
        assert "can also use 16.0 GiB of system memory (112.0 GiB in all)" in run(environ).stdout

    def test_a_machine_without_a_gpu_is_reported(self, environ: dict[str, str]) -> None:
        done = run(environ)
        assert (done.returncode, done.stdout) == (
            0,
            "no GPU memory to show: this machine has no AMD GPU\n",
        )
        assert document_of(environ)["gpus"] == []

    def test_unknown_figures_are_shown_as_question_marks(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        machine.kernel().cpu().gpu(1, RX_7900, 110000, bus=3, memory=24 * GIB)
        assert "? of 24.0 GiB in use, ? free" in run(environ).stdout

    def test_hidden_processes_are_counted(self, machine: Machine, environ: dict[str, str]) -> None:
        """A non-root user can count these processes but cannot open their folders."""
        busy(machine)
        for pid in (1, 80):
            os.chmod(machine.path / f"proc/{pid}/fd", 0)
        done = run(environ, before=tuple(unprivileged()))
        for pid in (1, 80):
            os.chmod(machine.path / f"proc/{pid}/fd", 0o755)
        assert "no permission to inspect 2 processes owned by other users" in done.stderr
        assert "ollama" not in done.stdout

    def test_a_single_hidden_process_is_reported_in_the_singular(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        busy(machine)
        os.chmod(machine.path / "proc/80/fd", 0)
        done = run(environ, before=tuple(unprivileged()))
        os.chmod(machine.path / "proc/80/fd", 0o755)
        assert "no permission to inspect 1 process owned by other users" in done.stderr

    def test_a_note_that_applies_to_several_gpus_appears_once(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        machine.process(1, "init").kernel().cpu()
        for node in range(1, 10):
            machine.gpu(node, RX_7900, 110000, bus=node, memory=24 * GIB)
        assert "GPU 0-8: the kernel does not report" in run(environ).stderr

    def test_the_json_document_lists_gpus_processes_and_reclaimable_memory(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        busy(machine)
        document = document_of(environ)
        assert set(document) == {"gpus", "processes_not_seen", "reclaimable", "notes"}
        (gpu,) = document["gpus"]
        sizes = {name: value for name, value in gpu.items() if name.endswith("_bytes")}
        assert all(isinstance(value, NUMBER_OR_NONE) for value in sizes.values())
        assert (gpu["total_bytes"], gpu["used_bytes"], gpu["free_bytes"]) == (24 * GIB, 10 * GIB, 14 * GIB)
        assert gpu["unexplained_bytes"] == 3 * GIB
        assert gpu["budget_bytes"] is None and gpu["hip"] is None
        assert [(each["pid"], each["reclaim"]) for each in gpu["holders"]] == [(80, "ollama"), (70, None)]
        (back,) = document["reclaimable"]
        assert set(back) == {"program", "pids", "size_bytes", "text", "command"}

    def test_a_missing_env_is_an_error(self, environ: dict[str, str]) -> None:
        done = run(environ, "nope", "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]) == (1, "env-missing")

    @pytest.mark.parametrize(
        "words",
        [
            ("watch", "demo"),
            ("--limit", "5GiB"),
            ("--watch",),
            ("probe", "--memory", "5GiB"),
            ("model",),
            ("model", "m.gguf", "--context", "0"),
            ("settings",),
            ("settings", "cycles", "--memory", "much"),
        ],
    )
    def test_invalid_arguments_are_usage_errors(
        self, environ: dict[str, str], words: tuple[str, ...]
    ) -> None:
        assert run(environ, *words).returncode == 2


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("--watch", "--json"), "rocenv mem watch --json"),
        (("sd", "--probe", "--limit", "6GiB"), "rocenv mem probe sd --limit 6GiB"),
        (("--model", "my model.gguf", "sd"), "rocenv mem model 'my model.gguf' sd"),
        (("--for=cycles",), "rocenv mem settings cycles"),
    ],
)
def test_a_removed_option_suggests_its_replacement(
    environ: dict[str, str], words: tuple[str, ...], command: str
) -> None:
    done = run(environ, *words)
    assert done.returncode == 2
    assert f"hint: {command}\n" in done.stderr


class TestWatch:
    def test_watch_writes_one_line_per_second_to_a_pipe(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        busy(machine)
        code, lines = watched(environ, [], enough=2)
        assert code == 130
        assert all(
            re.fullmatch(r"\d\d:\d\d:\d\d  GPU 0: .*14\.0 GiB free  \(sysfs\)", line) for line in lines
        )

    def test_watch_writes_one_json_document_per_line(self, machine: Machine, environ: dict[str, str]) -> None:
        busy(machine)
        code, lines = watched(environ, ["--json"], enough=2)
        first, second = (json.loads(line) for line in lines[:2])
        assert code == 130
        assert first["time"] < second["time"]
        assert first["gpus"] == second["gpus"]

    def test_watch_writes_one_json_line_without_a_gpu(self, environ: dict[str, str]) -> None:
        done = run(environ, "watch", "--json")
        (line,) = done.stdout.splitlines()
        document = json.loads(line)
        assert (done.returncode, document["gpus"]) == (0, [])
        assert document["time"]
        assert document["notes"] == ["this machine has no AMD GPU"]

    def test_watch_redraws_the_terminal(self, machine: Machine, environ: dict[str, str]) -> None:
        """The graph grows and the figures change."""
        busy(machine)
        with on_terminal([str(PROGRAM), "mem", "watch"], environ) as (pid, terminal):
            shown = read_until(terminal, "42% in use")
            machine.pools("0000:03:00.0", vram_used=20 * GIB)
            shown += read_until(terminal, "83% in use")
            os.kill(pid, signal.SIGINT)
            shown += read_until(terminal, "interrupted")
            _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 130
        assert "▄▇" in shown
        assert "\x1b[2K" in shown  # rocenv overwrites earlier lines
        assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is visible again

    def test_a_narrow_terminal_shows_the_newest_figures(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        busy(machine)
        environ["COLUMNS"] = "40"
        with on_terminal([str(PROGRAM), "mem", "watch"], environ) as (pid, terminal):
            shown = read_until(terminal, "▄▄| 42% in use")
            os.kill(pid, signal.SIGINT)
            os.waitpid(pid, 0)
        assert "▄▄| 42% in use" in shown

    def test_a_config_path_with_any_bytes_is_printed_unchanged(self, environ: dict[str, str]) -> None:
        """Scripts read paths from the output, even in the C locale."""
        home = os.fsencode(environ["ROCENV_HOME"]) + b"-\xff\xe9"
        done = subprocess.run(
            [str(PROGRAM), "config", "path"],
            env={**environ, "LC_ALL": "C", "ROCENV_HOME": os.fsdecode(home)},
            capture_output=True,
            timeout=60,
            check=True,
        )
        assert done.stdout.startswith(home)

    def test_the_graph_uses_ascii_on_an_ascii_terminal(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        busy(machine).process(90, "jeu été").client(90, vram=GIB)
        environ |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        with on_terminal([str(PROGRAM), "mem", "watch"], environ) as (pid, terminal):
            shown = read_until(terminal, "jeu")
            os.kill(pid, signal.SIGINT)
            shown += read_until(terminal, "interrupted")
            os.waitpid(pid, 0)
        assert "42% in use" in shown
        assert "failed unexpectedly" not in shown

    def test_watch_writes_lines_to_a_dumb_terminal(self, machine: Machine, environ: dict[str, str]) -> None:
        busy(machine)
        environ["TERM"] = "dumb"
        with on_terminal([str(PROGRAM), "mem", "watch"], environ) as (pid, terminal):
            shown = read_until(terminal, "free")
            os.kill(pid, signal.SIGINT)
            os.waitpid(pid, 0)
        assert "\x1b" not in shown

    def test_watch_ends_immediately_without_a_gpu(self, environ: dict[str, str]) -> None:
        assert run(environ, "watch").returncode == 0


def watched(environ: dict[str, str], words: list[str], *, enough: int) -> tuple[int, list[str]]:
    """Interrupt `mem watch` after this many lines; return its exit code and lines."""
    child = subprocess.Popen(
        [str(PROGRAM), "mem", "watch", *words],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        lines = [child.stdout.readline().rstrip("\n") for _ in range(enough)]
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=20)
        return child.returncode, lines
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def on_terminal(argv: list[str], environ: dict[str, str]) -> Any:
    """Start a program in a 100-column pseudo-terminal; yield its process ID and the terminal's other end."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.execve(argv[0], argv, environ)
        finally:
            os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    try:
        yield pid, terminal
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, text: str, limit_s: float = 20) -> str:
    shown, until = "", time.monotonic() + limit_s
    while text not in shown:
        assert time.monotonic() < until, shown
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:  # the program closed its end of the terminal
            break
    return shown


class TestSettings:
    def test_settings_match_the_gpu_in_this_machine(self, machine: Machine, environ: dict[str, str]) -> None:
        card(machine, total=8 * GIB, used=GIB)
        done = run(environ, "settings", "SDnext")
        assert done.stdout.startswith("sdnext on GPU 0, ")
        assert "  --medvram\n" in done.stdout
        assert "  export PYTORCH_ALLOC_CONF='garbage_collection_threshold" in done.stdout

    def test_the_user_can_specify_a_memory_size(self, environ: dict[str, str]) -> None:
        done = run(environ, "settings", "sdnext", "--memory", "8GiB", "--json")
        document = json.loads(done.stdout)
        assert (document["arguments"], document["total_bytes"]) == (["--medvram"], 8 * GIB)
        assert (document["gpu"], document["notes"], done.stderr) == (None, [], "")

    def test_settings_are_shown_with_their_conditions_if_there_is_no_gpu(
        self, environ: dict[str, str]
    ) -> None:
        document = document_of(environ, "settings", "comfyui")
        assert document["arguments"] == ["--reserve-vram", "1"]
        assert "no AMD GPU" in document["notes"][0]
        assert any(each["state"] == "if" for each in document["settings"])

    def test_the_json_document_lists_gpus_processes_and_reclaimable_memory(
        self, machine: Machine, environ: dict[str, str]
    ) -> None:
        card(machine)
        document = document_of(environ, "settings", "pytorch")
        assert {
            "program",
            "platform",
            "gpu",
            "settings",
            "variables",
            "arguments",
            "conflicts",
            "unset",
        } <= set(document)
        assert all(each["source"] and each["status"] for each in document["settings"])
        assert len(document["variables"]) == 3

    def test_the_users_own_setting_takes_precedence(self, environ: dict[str, str]) -> None:
        done = run(environ | {"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True"}, "settings", "pytorch")
        assert "export PYTORCH" not in done.stdout
        assert "PYTORCH_HIP_ALLOC_CONF in your environment contains expandable_segments" in done.stderr

    def test_the_output_asks_the_user_to_unset_conflicting_variables(self, environ: dict[str, str]) -> None:
        both = {
            "PYTORCH_ALLOC_CONF": "max_split_size_mb:64",
            "PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True",
        }
        done = run(environ | both, "settings", "pytorch")
        assert "unset PYTORCH_ALLOC_CONF\n" in done.stdout
        assert "unset PYTORCH_HIP_ALLOC_CONF\n" in done.stdout

    def test_an_unknown_program_is_an_error(self, environ: dict[str, str]) -> None:
        done = run(environ, "settings", "\x1b[2Jx", "--json")
        assert done.returncode == 1
        document = json.loads(done.stdout)
        assert document["error"] == "program-unknown"
        assert "rocenv mem settings cycles" in document["hints"]
        assert "\x1b" not in done.stderr

    def test_lines_that_set_variables_can_be_pasted_into_the_shell(self, environ: dict[str, str]) -> None:
        """The test runs the printed lines in a shell."""
        script = (
            f'eval "$("{PROGRAM}" mem settings pytorch 2>/dev/null | grep "^  export ")";'
            f' "{sys.executable}" -c "import os; print(os.environ[\'PYTORCH_ALLOC_CONF\'])"'
        )
        done = subprocess.run(
            ["bash", "-c", script], env=environ, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == "garbage_collection_threshold:0.80,max_split_size_mb:512\n"


def test_program_names_are_completed(environ: dict[str, str]) -> None:
    record = Path(environ["ROCENV_HOME"], "envs", "demo", ".rocenv", "record.json")
    record.parent.mkdir(parents=True)
    record.touch()

    def complete(*words: str) -> set[str]:
        done = subprocess.run(
            [str(PROGRAM), "complete", "mem", *words],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return {line.partition("\t")[0] for line in done.stdout.splitlines()}

    assert {"show", "watch", "probe", "model", "settings", "demo"} <= complete("")
    assert complete("d") == {"demo"}
    programs = {"cycles", "redshift", "octane", "pytorch", "sdnext", "comfyui", "llama.cpp"}
    assert programs <= complete("settings", "")
    assert "8GiB" in complete("settings", "cycles", "--memory", "")
    assert {"80%", "8GiB"} <= complete("probe", "--limit", "8")
    assert "--json" in complete("--")


def test_the_graph_shows_levels_and_gaps() -> None:
    assert graph([0.0, 1.0, None, 0.5], "abcdefgh") == "ah e"
