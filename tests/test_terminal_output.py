"""Transcripts of what users see at a terminal with 80 or 120 columns, in `tests/ui/80` and `tests/ui/120`.

ROCENV_WRITE_GOLDEN=1 updates them. Read changes in the transcripts as a new user would.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rocenv.core.wrap import columns_of
from tests import shipped
from tests.host.roots import GIB, Root
from tests.launch.lab import Terminal
from tests.loopback import Loopback
from tests.mini import Mini
from tests.probe.conftest import standin_libraries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GOLDEN = Path(__file__).with_name("ui")
WIDTHS = (80, 120)
SHOWN_HOME = "/home/somebody"  # as long as the path of a `Place`
LOG = """\
Loading the model on GPU 0: AMD Radeon RX 6750 XT (gfx1031)
Traceback (most recent call last):
  File "/opt/app/main.py", line 7, in <module>
    image = model(prompt)
torch.OutOfMemoryError: HIP out of memory. Tried to allocate 3.25 GiB. GPU 0 has a total capacity of \
11.98 GiB of which 120.00 MiB is free. Of the allocated memory 9.31 GiB is allocated by PyTorch.
RuntimeError: HIP error: no kernel image is available for execution on the device
"""


# The disk may be nearly full, which `doctor` would report.
ROOM = """\
import shutil
usage = shutil.disk_usage("/")._replace(free=1 << 40)
shutil.disk_usage = lambda _path: usage
"""


class Place(NamedTuple):
    """A folder, and the environment of the program."""

    folder: Path
    env: dict[str, str]

    def machine(self) -> Root:
        """Start describing a machine."""
        root = Root(self.folder / "machine")
        root.path.mkdir()
        self.env["ROCENV_SYSROOT"] = str(root.path)
        return root


def no_gpu(place: Place) -> None:
    place.machine().card("0000:01:00.0", 0x2782, vendor=0x10DE, driver="nvidia")


def card(place: Place) -> None:
    place.machine().kernel().cpu().gpu(1, 0x744C, 110000, units=96, memory=24 * GIB)


def igpu_and_card(place: Place) -> None:
    root = place.machine().kernel().cpu().gpu(1, 0x164E, 100306, units=2, memory=GIB // 2)
    root.gpu(2, 0x744C, 110000, units=96, memory=24 * GIB)
    (place.folder / "app.log").write_text(LOG)


def node(place: Place) -> None:
    root = place.machine().kernel(dkms="6.10.5").cpu()
    for number in range(1, 9):
        root.gpu(number, 0x74A1, 90402, units=304, memory=192 * GIB)


def blocked(place: Place) -> None:
    """Create a container without `/dev/kfd` and with a wrong setting."""
    root = place.machine().kernel().cpu().gpu(1, 0x73DF, 100301, units=40, memory=12 * GIB)
    (root.path / "dev/kfd").unlink()
    place.env["HSA_OVERRIDE_GFX_VERSION"] = "11.0.0"


def mirror(place: Place) -> Iterator[None]:
    """Create a machine with a mirror of tiny sets that contain fake libraries."""
    root = place.folder / "mini"
    root.mkdir()
    with Loopback(folder=root / "www") as server:
        mini = Mini.build(root, server, standin_libraries())
        profile = root / "profiles/mini.toml"
        profile.write_text(profile.read_text().replace('hip = "5.7.1"', 'hip = "6.4"'))
        place.env.update(mini.env, HOME=str(place.folder), ROCENV_HOME=place.env["ROCENV_HOME"])
        yield


# Transcript -> its machine and commands; variables precede the command.
TRANSCRIPTS: dict[str, tuple[Callable[[Place], Iterator[None] | None], tuple[str, ...]]] = {
    "help": (no_gpu, ("rocenv help",)),
    "gpus-igpu-and-card": (igpu_and_card, ("rocenv gpus",)),
    "gpus-node": (node, ("rocenv gpus",)),
    "gpus-none": (no_gpu, ("rocenv gpus", "rocenv create")),
    "gpus-blocked": (blocked, ("rocenv gpus",)),
    "create": (
        mirror,
        ("rocenv create demo --rocm 5.7", "rocenv ls", "rocenv show demo", "rocenv rm demo"),
    ),
    "verify": (
        mirror,
        (
            "rocenv create demo --rocm 5.7 --no-verify -y",
            "rocenv verify demo",
            "ROCENV_STANDIN_FAIL=compile=abort rocenv verify demo",
            "ROCENV_STANDIN_DEVICES=0 rocenv verify demo",
        ),
    ),
    "diagnose": (igpu_and_card, ("rocenv diagnose app.log", "rocenv diagnose --lang zh app.log")),
    "doctor": (card, ("rocenv doctor",)),
    "doctor-blocked": (blocked, ("rocenv doctor", "rocenv doctor --lang zh")),
    "explain": (card, ("rocenv explain gfx1031", "rocenv explain vram-oom", "rocenv matrix")),
    "errors": (
        card,
        (
            "rocenv show x",
            "rocenv install",
            "rocenv create demo --rocm 99",
            "rocenv create --target foo",
        ),
    ),
}
ASKS = ("rocenv create demo --rocm 5.7", "rocenv rm demo")


@pytest.fixture
def place() -> Iterator[Place]:
    """A folder whose path always has the same length, because the length affects line breaks."""
    folder = Path(tempfile.mkdtemp(prefix="g", dir="/tmp"))
    home = folder / "rocenv"
    home.mkdir()
    shipped.put_into(home)
    (folder / "sitecustomize.py").write_text(ROOM)
    paths = {
        "HOME": str(folder),
        "ROCENV_HOME": str(home),
        "PYTHONPATH": str(folder),
        "PATH": os.environ.get("PATH", os.defpath),
    }
    yield Place(folder, {**paths, "LC_ALL": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1"})
    shutil.rmtree(folder)


def shown(place: Place, command: str, width: int) -> str:
    """Run a command at a terminal, answer yes to its question, and return the terminal output."""
    setting, _, argv = command.rpartition(" rocenv ")
    env = place.env | dict([setting.split("=", 1)] if setting else [])
    program = [sys.executable, "-m", "rocenv", *argv.removeprefix("rocenv ").split()]
    terminal = Terminal.start(program, env, place.folder, (24, width))
    if command in ASKS:
        terminal.wait_for(b"]: ")
        terminal.type(b"y\n")
    code = terminal.end()
    text = terminal.shown.decode().replace("\r\n", "\n")
    return f"$ {command}\n{masked(text, place)}[exit {code}]\n\n"


def masked(text: str, place: Place) -> str:
    """Replace text that varies by machine or day with text of the same length."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = text.replace(str(place.folder), SHOWN_HOME)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:00000", text)
    text = re.sub(r" +\d+\.\d\d s", lambda found: "0.00 s".rjust(len(found[0])), text)
    # Rates and results for random input vary in length, which affects line breaks.
    text = re.sub(r"(?m)^(  (?:gemm|blas) .* s  ).*(?:\n {20,}.*)*", r"\1…", text)
    text = re.sub(r"\d+(\.\d)? [kMG]?B\b", "0.0 MB", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ][\d:+.Z]+", "2026-01-01T00:00:00Z", text)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_output_matches_the_transcript(name: str, width: int, place: Place) -> None:
    machine, commands = TRANSCRIPTS[name]
    assert len(str(place.folder)) == len(SHOWN_HOME)
    with contextlib.contextmanager(lambda: machine(place) or iter([None]))():
        text = "".join(shown(place, command, width) for command in commands).rstrip() + "\n"
    golden = GOLDEN / str(width) / f"{name}.txt"
    if os.environ.get("ROCENV_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()


# Only lines of text meant for pasting may be too long.
PASTED = re.compile(
    r" *(?:hint: |more: +|详情： +|activate it: +|or run one command: +|line \d+: |- )?"
    r"(?:`[^`]+`|[^\s\u2e80-\uffff]+|\[\S+|(?:rocenv|sudo|export|grep|\.) .*)"
)


def test_lines_fit_the_terminal() -> None:
    too_long = [
        f"{file.parent.name}/{file.name}: {line}"
        for width in WIDTHS
        for file in sorted((GOLDEN / str(width)).iterdir())
        for line in file.read_text().splitlines()
        if columns_of(line) > width and not line.startswith("$ ") and not PASTED.fullmatch(line)
    ]
    assert not too_long, "\n".join(too_long)


def test_every_transcript_is_compared() -> None:
    for width in WIDTHS:
        assert {file.stem for file in (GOLDEN / str(width)).iterdir()} == set(TRANSCRIPTS)
