"""A fake machine for checks, made of files, variables and envs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from rocenv.checks.context import CheckContext, Env
from rocenv.checks.run import checks_for, run
from rocenv.checks.table import CHECKS
from rocenv.core.model import Component, Lock, Record, Request
from rocenv.data.load import load
from rocenv.home import Home
from rocenv.host import detect
from rocenv.prefix import Prefix
from tests.host.roots import GIB, Root

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from rocenv.checks.table import Check
    from rocenv.data.rows import Matrix
    from rocenv.findings import Finding

PLACE = re.compile(r"\{\w+(?:\|[^{}]*)?\}")
RX_7900, RX_6800, RX_9070, PHOENIX, RAPHAEL = 0x744C, 0x73BF, 0x7550, 0x15BF, 0x164E


@cache
def matrix() -> Matrix:
    """rocenv's own data."""
    return load()


def _shape(text: str) -> re.Pattern[str]:
    """Return a pattern that matches the message with any values in its placeholders."""
    return re.compile(".*".join(map(re.escape, PLACE.split(text))), re.DOTALL)


def checks_of(module: ModuleType) -> tuple[Check, ...]:
    """The checks that a module defines."""
    return tuple(check for check in CHECKS if check.function.__module__ == module.__name__)


@dataclass
class Scenery:
    """A fake machine; add devices and files to it through `root`."""

    root: Root
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    envs: list[Env] = field(default_factory=list)
    elsewhere: bool = True

    def healthy(self) -> Scenery:
        """Make this a machine with one card and no problems."""
        self.root.kernel("6.14.0-27-generic").cpu().gpu(1, RX_7900, 110000, units=96, memory=24 * GIB)
        self.root.put("proc/meminfo", "MemTotal:       65000000 kB\n")
        self.root.put("proc/cmdline", "BOOT_IMAGE=/vmlinuz ro quiet\n")
        self.root.put(
            "var/log/kern.log", "[    0.0] Linux version 6.14.0\n[    1.0] amdgpu: Topology: Add CPU node\n"
        )
        self.environ.update(HOME="/home/user", USER="user")
        return self

    def env(self, name: str, rocm: str = "", torch: str = "") -> Env:
        """Add a complete env with these versions but no files."""
        parts = {"rocm": rocm, "torch": torch}
        components = tuple(
            Component(kind=kind, name=kind, version=version, channel="amd", why="")  # type: ignore[arg-type]
            for kind, version in parts.items()
            if version
        )
        lock = Lock(
            request=Request(), platform="linux", target="gfx1100", components=components, environment=()
        )
        record = Record(
            name=name,
            created="2026-11-20T00:00:00+00:00",
            rocenv_version="1",
            lock=lock,
        )
        env = Env(prefix=Prefix(self.folder / "home" / "envs" / name), record=record)
        self.envs.append(env)
        return env

    def context(self, env: Env | None = None) -> CheckContext:
        return CheckContext(
            host=detect(matrix()),
            matrix=matrix(),
            environ=self.environ,
            home=Home(self.folder / "home"),
            envs=tuple(self.envs),
            env=env,
            elsewhere=self.elsewhere,
        )

    def sees(self, check: str) -> Finding | None:
        """Run a check in both languages, assert that its finding is complete, and return it."""
        context = self.context()
        checks = checks_for(context, (check,))
        english, chinese = run(context, checks, "en"), run(context, checks, "zh")
        assert len(english) == len(chinese) <= 1
        for finding in (*english, *chinese):
            assert finding.code != "check-failed", finding.detail
            assert finding.title != finding.code and finding.detail
            told = (finding.title, finding.detail, *finding.instructions, *finding.commands)
            assert not any(PLACE.search(text) for text in told), told
            assert finding.steps, "the finding has no instructions"
        if not english:
            return None
        assert [step.commands for step in english[0].steps] == [step.commands for step in chinese[0].steps]
        assert not (lost := self._lost(english[0])), f"steps without their commands: {lost}"
        return english[0]

    def _lost(self, finding: Finding) -> set[str]:
        """List the steps whose command is missing because a value in it could not be quoted."""
        rows = [row for row in matrix().advice if row.code == finding.code]
        remedies = [remedy for row in rows for remedy in row.remedy]
        lost: set[str] = set()
        for step in finding.steps:
            alike = [each for each in remedies if _shape(each.text.en).fullmatch(step.text)]
            counts = {len(each.commands) for each in alike}
            before = {each for other in finding.steps for each in other.commands}
            if step.commands or not counts or 0 in counts:
                lost |= {step.text} if counts and len(step.commands) not in counts else set()
            elif not any(set(each.commands) & before for each in alike):
                lost.add(step.text)
        return lost

    def all(self) -> list[Finding]:
        context = self.context()
        return run(context, checks_for(context), "en")
