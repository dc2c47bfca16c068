"""Programs that keep memory while idle, and commands that make them release it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from rocenv.memory.gpus import GpuMemory
from rocenv.memory.holders import Holder
from rocenv.memory.reclaim import Reclaimable, find_reclaimable
from tests.host.roots import GIB
from tests.memory.machines import Machine, card

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocenv.data.rows import Matrix
    from rocenv.memory.gpus import Usage

    Back = Callable[[], tuple[Reclaimable, ...]]
    ReadMemory = Callable[..., Usage]


@pytest.fixture
def back(machine: Machine, read_memory: ReadMemory, matrix: Matrix) -> Callable[[], tuple[Reclaimable, ...]]:
    """A function that finds the programs on the simulated machine that can release memory."""
    card(machine).process(1, "init")
    return lambda: find_reclaimable(read_memory().gpus, matrix.reclaim, windows=False)


def app(machine: Machine, folder: str, *files: str) -> None:
    for file in files:
        machine.put(f"{folder.lstrip('/')}/{file}", "")


def test_programs_without_memory_are_not_listed(machine: Machine, back: Back) -> None:
    machine.process(70, "ollama").process(71, "firefox").client(71, vram=GIB)
    assert back() == ()


def test_ollama_is_found_by_process_name(machine: Machine, back: Back) -> None:
    machine.process(70, "ollama").client(70, vram=GIB).process(71, "ollama").client(71, vram=5 * GIB)
    (found,) = back()
    assert (found.row.program, found.pids, found.size_bytes) == ("ollama", (70, 71), 6 * GIB)
    assert "ollama stop" in found.command("bash")


def test_comfyui_is_found_by_files_next_to_its_script(machine: Machine, back: Back) -> None:
    app(machine, "/home/u/Comfy UI", "main.py", "comfy/model_management.py")
    machine.process(70, "python3", "python3", "main.py", "--port", "8200", folder="/home/u/Comfy UI")
    machine.client(70, vram=8 * GIB)
    (found,) = back()
    words = shlex.split(found.command("bash"))
    assert words[:4] == ["curl", "-sS", "-X", "POST"]
    assert words[-1] == "http://127.0.0.1:8200/free"
    assert words[-2] == '{"unload_models": true, "free_memory": true}'


def test_other_scripts_called_main_py_are_ignored(machine: Machine, back: Back) -> None:
    app(machine, "/home/u/other", "main.py")
    machine.process(70, "python3", "python3", "/home/u/other/main.py").client(70, vram=GIB)
    machine.process(71, "python3", "python3", "main.py").client(
        71, vram=GIB
    )  # the working directory of the process is unknown
    assert back() == ()


@pytest.mark.parametrize(
    ("files", "program"),
    [
        (("installer.py", "modules/shared_defaults.py", "modules/launch_utils.py"), "sdnext"),
        (("modules/launch_utils.py",), "webui-amdgpu"),
    ],
)
def test_related_programs_are_distinguished(
    machine: Machine, back: Back, files: tuple[str, ...], program: str
) -> None:
    app(machine, "/srv/app", *files)
    machine.process(70, "python", "/srv/app/venv/bin/python", "-u", "/srv/app/launch.py", "--port=7861")
    machine.client(70, vram=GIB)
    (found,) = back()
    assert (found.row.program, found.port) == (program, 7861)
    assert found.command("bash").endswith("http://127.0.0.1:7861/sdapi/v1/unload-checkpoint")


@pytest.mark.parametrize("said", ["--port 99999", "--port 1;reboot", "--port", "--port -1", "--import 80"])
def test_a_malformed_port_is_ignored(machine: Machine, back: Back, said: str) -> None:
    app(machine, "/srv/c", "comfy/model_management.py")
    machine.process(70, "python3", "python3", "/srv/c/main.py", *said.split(" ", 1)).client(70, vram=GIB)
    assert back()[0].port == 8188


def test_programs_on_windows_are_found_by_their_full_path(
    machine: Machine, matrix: Matrix, read_memory: ReadMemory
) -> None:
    """The working directory of a process is unknown on Windows, so only a full path identifies a script."""
    card(machine)
    gpu = read_memory().gpus[0]
    holder = Holder(pid=9, name="ollama.exe", vram_bytes=GIB, command=("C:\\x\\ollama.exe", "serve"))
    (found,) = find_reclaimable([GpuMemory(gpu=gpu.gpu, holders=(holder,))], matrix.reclaim, windows=True)
    assert found.command("powershell").startswith("ollama ps | Select-Object")
    assert found.command("cmd") == f'powershell -NoProfile -Command "{found.command("powershell")}"'


def test_commands_are_quoted_for_cmd(matrix: Matrix) -> None:
    row = next(row for row in matrix.reclaim if row.program == "comfyui")
    found = Reclaimable(row=row, port=8188, pids=(1,), size_bytes=1)
    (argument,) = re.findall(r'-Command "(.*)"$', found.command("cmd"))
    assert argument.replace('\\"', '"') == found.command("powershell")
    assert '"' not in argument.replace('\\"', "")
