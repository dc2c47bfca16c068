"""Turn the output of a failed uv command into rocenv's errors."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import ArchiveError, FetchError, PrefixError, ResolutionImpossible
from rocenv.core.logins import shown
from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocenv.core.errors import RocenvError

# uv's messages for failed connections.
_UNREACHABLE = re.compile(
    "dns error|failed to lookup address|tcp connect error|operation timed out|Connection refused"
)
_NO_NAME = re.compile("dns error|failed to lookup address")
# No connection, on any system: the name does not resolve, nothing is listening, or there is no route.
_NO_SERVER = re.compile(r"dns error|failed to lookup address|\(os error (111|101|113|10061|10051|10065|61)\)")

# In errors: "... for url (http://host/x)", "Failed to fetch: `http://host/x`"
# In the log: "Sending fresh GET request for: http://host/x", "HTTP 302 Found. Redirecting to `http://host/x`"
_PLAIN_HTTP = re.compile(
    r"(?:url \(|Failed to (?:fetch|download): `?|^DEBUG .*request for: |^DEBUG .*Redirecting to `)"
    r"(http://[^)`\s]+)",
    re.MULTILINE | re.IGNORECASE,
)


def index_name(index_url: str) -> str:
    """Return an index's name for messages, without the password in its URL."""
    return shown(index_url) if index_url else "the default package index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A uv command's exit code and output."""

    code: int
    stdout: str
    stderr: str

    @property
    def reason(self) -> str:
        """The error and its deepest cause in one line, without the rest of uv's error chain."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        heads = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if not heads:
            return lines[-1] if lines else f"uv exited with code {self.code}"
        if heads[0].startswith("No solution found"):
            return _conclusion(self.stderr)
        causes = [line.removeprefix("cause: ") for line in lines if line.startswith("cause: ")]
        if not causes or causes[-1].startswith("Querying Python"):
            return heads[0]
        if heads[0].startswith("Failed to fetch: "):  # the caller reports the index
            return causes[-1]
        return f"{heads[0]}: {causes[-1]}"

    @property
    def may_succeed_later(self) -> bool:
        """Whether a request failed for a temporary reason, such as a timeout or an overloaded server."""
        return bool(self.code) and "Failed to fetch" in self.stderr and not _NO_SERVER.search(self.stderr)

    def resolution_error(
        self, requirements: Sequence[str], index_url: str, series: str, *, offline: bool = False
    ) -> RocenvError:
        """Explain why uv could not resolve requirements from an index for Python `series`."""
        wanted, name = " ".join(requirements), index_name(index_url)
        project, pythons = self._supported_pythons()
        if pythons:
            return ResolutionImpossible(
                f"{name} has `{project}` for Python {', '.join(pythons)}, not for {series}",
                hints=(f"--python {pythons[-1]}",),
            )
        if offline:
            return FetchError(
                f"offline, but `{wanted}` from {name} is not fully cached",
                hints=("run the command once without `--offline`",),
            )
        if "No solution found" in self.stderr:
            hint = f"open {name} in a browser: a proxy or your ISP may show its own page instead"
            is_empty = "there are no versions of" in self.stderr
            return ResolutionImpossible(
                f"{name} does not have `{wanted}` for Python {series}: {self.reason}",
                hints=(hint,) if is_empty else (),
            )
        if _UNREACHABLE.search(self.stderr):
            reason = "no such host, or no network" if _NO_NAME.search(self.stderr) else self.reason
            return FetchError(
                f"cannot reach {name} ({reason}) while downloading `{wanted}`", code="unreachable"
            )
        return FetchError(f"cannot resolve `{wanted}` from {name}: {self.reason}")

    @property
    def unencrypted(self) -> str:
        """The first `http://` URL that uv requested, or ""."""
        found = _PLAIN_HTTP.search(self.stderr)
        return found[1] if found else ""

    def require_protected(self, index_url: str, environ: Mapping[str, str], *, plain_http: bool) -> None:
        """Raise FetchError if a certificate is not trusted or, unless `plain_http`, a URL is unencrypted."""
        name = index_name(index_url)
        if self.code and "invalid peer certificate" in self.stderr:
            unused = [each for each in ("UV_INSECURE_HOST", "PIP_TRUSTED_HOST") if environ.get(each)]
            raise FetchError(
                f"the certificate of {name} is not trusted: {self.reason}",
                hints=(
                    "behind a proxy that inspects TLS, set REQUESTS_CA_BUNDLE to its certificate",
                    *(f"rocenv ignores {each} and verifies every certificate" for each in unused),
                ),
                code="certificate",
            )
        if self.unencrypted and not plain_http:
            raise FetchError(
                f"refusing to follow a link from {name} to `{shown(self.unencrypted)}`: "
                "the connection is not encrypted",
                hints=("use an index or mirror that links to https:// URLs",),
                code="unencrypted",
            )

    def require_installed(self) -> None:
        """If the installation failed, raise an error that explains why."""
        if not self.code:
            return
        if re.search(r"\(os error (28|112)\)", self.stderr):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if WINDOWS and re.search(r"\(os error (5|32)\)", self.stderr):
            raise PrefixError(
                f"cannot replace a file in the env because a program is using it: {self.reason}",
                hints=("close the programs started from this env, then run the command again",),
                code="in-use",
            )
        if "Failed to extract" in self.stderr or "Hash mismatch for " in self.stderr:
            raise ArchiveError(f"a wheel is damaged: {self.reason}")
        project, pythons = self._supported_pythons()
        if pythons:
            raise PrefixError(
                f"the {project} wheel is for Python {', '.join(pythons)}, not for the venv's Python",
                hints=(f"--python {pythons[-1]}",),
                code="venv",
            )
        raise PrefixError(f"cannot install the wheels: {self.reason}", code="venv")

    def _supported_pythons(self) -> tuple[str, tuple[str, ...]]:
        """Find the project that has no wheel for this Python, and the Python versions that it supports."""
        # hint: ... found wheels for `torch` (v2.5.1+rocm6.2) with the following Python ABI tags: `cp310`
        pattern = r"found wheels for `([\w.-]+)` .* the following Python \w+ tags?: (.*)"
        found = re.search(pattern, self.stderr)
        if not found:
            return "", ()
        series = (f"{major}.{minor}" for major, minor in re.findall(r"`cp(\d)(\d+)[a-z]*`", found[2]))
        return found[1], tuple(dict.fromkeys(series))


def _conclusion(stderr: str) -> str:
    """Join the `Because ...` lines of a failed resolution into one line, without the conclusion."""
    text = stderr.partition("cause: ")[2].partition("\n\n")[0]
    text = " ".join(text.split())
    return text.removesuffix(", we can conclude that your requirements are unsatisfiable.").rstrip(".")
