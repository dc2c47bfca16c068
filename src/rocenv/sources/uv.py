"""uv as a child process: isolated from the user's own uv settings, its errors cut down to what matters."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.errors import RocenvError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# How to reach a server may come from outside; which packages are taken may not.
_KEPT = frozenset(
    {
        "UV_HTTP_CONNECT_TIMEOUT",
        "UV_HTTP_RETRIES",
        "UV_HTTP_TIMEOUT",
        "UV_INSECURE_HOST",
        "UV_NATIVE_TLS",
        "UV_PYTHON_DOWNLOADS_JSON_URL",
        "UV_PYTHON_INSTALL_MIRROR",
        "UV_SYSTEM_CERTS",
    }
)
_DROPPED = re.compile(r"(UV_|PIP_|PYTHON|CONDA_).*|VIRTUAL_ENV")


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


def _conclusion(stderr: str) -> str:
    """Return the `Because ...` paragraphs of a failed resolution as one line, without their refrain."""
    text = stderr.partition("cause: ")[2].partition("\n\n")[0]
    text = " ".join(text.split())
    return text.removesuffix(", we can conclude that your requirements are unsatisfiable.").rstrip(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """How uv is run.

    Attributes:
        cache: uv's cache; what it unpacks there is linked into the venvs.
        pythons: Where interpreters go that uv fetches.
        environ: The environment to start from; what could change the choice of packages is taken out.
        offline: Never open a connection.
        tell: Called with a line of text whenever uv starts a download, or something is done differently
            from what was asked.
    """

    cache: Path
    pythons: Path
    environ: Mapping[str, str]
    offline: bool
    tell: Callable[[str], None]

    @property
    def may_fetch_python(self) -> bool:
        """Whether an interpreter that is not here may be downloaded; uv's own variable can forbid it."""
        return not self.offline and self.environ.get("UV_PYTHON_DOWNLOADS") not in ("never", "manual")

    def run(self, *arguments: str, offline: bool = False) -> Outcome:
        """Run uv to its end and return how that went; a non-zero exit is the caller's to judge."""
        argv = [_binary(), "--no-config", "--no-progress", "--color=never", f"--cache-dir={self.cache}"]
        if offline or self.offline:
            argv.append("--offline")
        environ = {k: v for k, v in self.environ.items() if k in _KEPT or not _DROPPED.fullmatch(k)}
        environ |= {"UV_PYTHON_DOWNLOADS": "manual", "UV_PYTHON_INSTALL_DIR": str(self.pythons)}
        environ["UV_NO_WRAP"] = "1"  # `Outcome` reads lines
        if bundle := environ.get("REQUESTS_CA_BUNDLE"):
            environ.setdefault("SSL_CERT_FILE", bundle)  # what rocenv's own connections trust
        lines = []
        with (
            tempfile.TemporaryFile() as stdout,
            subprocess.Popen(
                [*argv, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.PIPE,
                env=environ,
                encoding="utf-8",
                errors="replace",
            ) as child,
        ):
            for line in child.stderr or ():
                lines.append(line)
                if line.startswith("Downloading "):
                    self.tell(line.strip())
            code = child.wait()
            stdout.seek(0)
            return Outcome(code=code, stdout=stdout.read().decode("utf-8", "replace"), stderr="".join(lines))


def _binary() -> str:
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError) as error:
        raise RocenvError(
            "uv, which installs the wheels, is missing beside rocenv",
            hints=("python -m pip install --force-reinstall uv",),
            code="uv-missing",
        ) from error
