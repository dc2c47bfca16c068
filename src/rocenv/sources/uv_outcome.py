"""How a run of uv ended, and what its messages mean."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError, PrefixError
from rocenv.sources import wheel_errors
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.core.errors import RocenvError
    from rocenv.sources.interpreter import Interpreter

# What uv says where no connection came about.
_NO_ANSWER = re.compile(
    "dns error|failed to lookup address|tcp connect error|operation timed out|Connection refused"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run of uv ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def reason(self) -> str:
        """The error and its deepest cause as one line; uv prints a chain, and what it tried, around them."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        heads = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if not heads:
            return lines[-1] if lines else f"uv ended with exit code {self.code}"
        if heads[0].startswith("No solution found"):
            return _conclusion(self.stderr)
        causes = [line.removeprefix("cause: ") for line in lines if line.startswith("cause: ")]
        if not causes or causes[-1].startswith("Querying Python"):
            return heads[0]
        mismatch = re.search(r"Expected:\s+sha256:(\w+)\s+Computed:\s+sha256:(\w+)", self.stderr)
        if mismatch:
            return f"{causes[-1]}: expected sha256 {mismatch[1]}, got {mismatch[2]}"
        return f"{heads[0]}: {causes[-1]}"

    @property
    def fitting_pythons(self) -> tuple[str, tuple[str, ...]]:
        """The project that has no wheel for this Python, and the versions it has some for; else empty."""
        # hint: ... found wheels for `torch` (v2.5.1+rocm6.2) with the following Python ABI tags: `cp310`
        pattern = r"found wheels for `([\w.-]+)` .* the following Python \w+ tags?: (.*)"
        found = re.search(pattern, self.stderr)
        if not found:
            return "", ()
        series = (f"{major}.{minor}" for major, minor in re.findall(r"`cp(\d)(\d+)[a-z]*`", found[2]))
        return found[1], tuple(dict.fromkeys(series))

    def resolution_failure(
        self, requirements: Sequence[str], index_url: str, python: Interpreter
    ) -> RocenvError:
        """Return why an index did not give what was asked of it."""
        what, name = " ".join(requirements), wheel_errors.index_name(index_url)
        project, pythons = self.fitting_pythons
        if pythons:
            return wheel_errors.other_pythons(index_url, project, pythons, python.series)
        if "network was disabled" in self.stderr:
            return FetchError(
                f"offline, and not all of `{what}` from {name} is known from before",
                hints=("run the same command once without `--offline`",),
            )
        if "No solution found" in self.stderr:
            is_empty = "there are no versions of" in self.stderr
            return wheel_errors.not_in_index(index_url, what, python.series, self.reason, is_empty=is_empty)
        code = "unreachable" if _NO_ANSWER.search(self.stderr) else None
        return FetchError(f"cannot resolve `{what}` from {name}: {self.reason}", code=code)

    def require_installed(self) -> None:
        """Raise what an installation that failed means."""
        if not self.code:
            return
        if re.search(r"\(os error (28|112)\)", self.stderr):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if WINDOWS and re.search(r"\(os error (5|32)\)", self.stderr):
            raise wheel_errors.in_use(self.reason)
        if "Hash mismatch" in self.stderr:
            raise wheel_errors.not_promised(self.reason)
        if "Failed to extract" in self.stderr:
            raise wheel_errors.damaged(self.reason)
        project, pythons = self.fitting_pythons
        if pythons:
            raise wheel_errors.foreign_wheel(project, pythons)
        raise PrefixError(f"cannot install the wheels: {self.reason}", code="venv")


def _conclusion(stderr: str) -> str:
    """Return the `Because ...` paragraphs of a failed resolution as one line, without their refrain."""
    text = stderr.partition("cause: ")[2].partition("\n\n")[0]
    text = " ".join(text.split())
    return text.removesuffix(", we can conclude that your requirements are unsatisfiable.").rstrip(".")
