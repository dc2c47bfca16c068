"""The real program in a home with empty envs that rocenv considers complete."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests import forked

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = Path(sys.executable).with_name("rocenv")


@dataclass
class Lab:
    """One user's rocenv home and environment."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environ = {
            "HOME": str(self.root / "user"),
            "LC_ALL": "C.UTF-8",
            "PATH": f"{PROGRAM.parent}:/usr/bin:/bin",
            "ROCENV_HOME": str(self.home),
        }

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def config(self) -> Path:
        return self.home / "config.toml"

    def env(self, name: str) -> Path:
        prefix = self.home / "envs" / name
        (prefix / ".rocenv").mkdir(parents=True)
        (prefix / ".rocenv" / "record.json").touch()
        return prefix

    def run(
        self,
        *argv: str | bytes,
        cwd: str | Path | bytes | None = None,
        before: Sequence[str] = (),
        **environ: str,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `rocenv ARGV...`; keyword arguments extend its environment."""
        env = {**self.environ, **environ}
        if not before:
            return forked.run(argv, env=env, cwd=cwd or self.root)
        return subprocess.run(
            [*before, str(PROGRAM), *argv],
            env=env,
            cwd=cwd or self.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def modules(self, *argv: str) -> set[str]:
        """Return the modules that a command imports."""
        code = (
            "import sys\nfrom rocenv.cli import main\n"
            "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
            "print('MODULES', *sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *argv],
            env=self.environ,
            capture_output=True,
            check=True,
            timeout=60,
            text=True,
        )
        return set(done.stdout.rpartition("MODULES ")[2].split())


def words(output: bytes) -> str:
    return os.fsdecode(output)
