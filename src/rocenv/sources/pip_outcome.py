"""How a run of pip ended, and what its messages mean."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocenv.core.errors import FetchError, PrefixError
from rocenv.sources import wheel_errors
from rocenv.sources.wheel_names import wheel_file_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.core.errors import RocenvError
    from rocenv.sources.interpreter import Interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class PipOutcome:
    """How a run of pip ended; `log` has what it looked at and passed over."""

    code: int
    output: str
    log: str = ""

    @property
    def reason(self) -> str:
        """The error as one line: the first that pip reports, and what it says about a conflict."""
        conflict = re.search(r"The conflict is caused by:\n(.*?)\n\n", self.output, re.DOTALL)
        found = re.findall(r"^\s*ERROR: (.*)", self.output, re.MULTILINE)
        last = [line.strip() for line in self.output.splitlines() if line.strip()][-1:]
        head = found[0] if found else "".join(last) or f"pip ended with exit code {self.code}"
        return " ".join(f"{head} {conflict[1]}".split()) if conflict else head

    @property
    def missing(self) -> tuple[str, str, str]:
        """What no fitting version was found for: requirement, who asked for it, the versions there are."""
        # Could not find a version that satisfies the requirement numpy<2 (from torch) (from versions: …)
        pattern = r"satisfies the requirement (.+?)(?: \(from (?!versions)(.*)\))? \(from versions: (.*)\)"
        found = re.search(pattern, self.output)
        if not found:
            return "", "", ""
        return found[1], found[2] or "", "" if found[3] == "none" else found[3]

    @property
    def fitting_pythons(self) -> tuple[str, tuple[str, ...]]:
        """The project that has no wheel for this Python, and the versions it has some for; else empty."""
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

        try:
            wanted = Requirement(self.missing[0])
        except InvalidRequirement:
            return "", ()
        series = []
        # Skipping link: none of the wheel's tags (cp37-cp37m-linux_x86_64) are compatible (…): URL (from …)
        for url in re.findall(r"Skipping link: none of the wheel's tags .*?: (\S+)", self.log):
            try:
                name, version, _, tags = parse_wheel_filename(wheel_file_name(url))
            except InvalidWheelFilename:
                continue
            if name == canonicalize_name(wanted.name) and wanted.specifier.contains(version):
                found = {re.fullmatch(r"cp(\d)(\d+)", tag.interpreter) for tag in tags}
                series += [f"{match[1]}.{match[2]}" for match in found if match]
        pythons = sorted(set(series), key=lambda text: [int(part) for part in text.split(".")])
        return wanted.name, tuple(pythons)

    @property
    def no_answer(self) -> str:
        """Why an address did not answer with what it has; "" if all did, if only that there is nothing."""
        # Could not fetch URL http://host/simple/torch/: connection error: ... - skipping
        for reason in re.findall(r"Could not fetch URL \S+: (.*?)(?: - skipping|$)", self.log, re.MULTILINE):
            if not reason.startswith("404 "):
                # older pips: connection error: HTTPSConnectionPool(…): … (Caused by X('<object>: the cause'))
                cause = re.search(r"^(.*?): HTTPS?Connection.*\(Caused by \w+\((.*)\)\)$", reason)
                return re.sub(r"<[^>]*>: ", "", f"{cause[1]}: {cause[2]}") if cause else str(reason)
        return ""

    def resolution_failure(
        self, requirements: Sequence[str], index_url: str, python: Interpreter
    ) -> RocenvError:
        """Return why an index did not give what was asked of it."""
        what, name = " ".join(requirements), wheel_errors.index_name(index_url)
        if reason := self.no_answer or _refused_host(self.output):
            code = "unreachable" if "connection error" in reason else None
            return FetchError(f"cannot resolve `{what}` from {name}: {reason}", code=code)
        project, pythons = self.fitting_pythons
        if pythons:
            return wheel_errors.other_pythons(index_url, project, pythons, python.series)
        requirement, by, versions = self.missing
        if requirement:
            there = f"there are only {versions}" if versions else "there are no usable wheels of it"
            reason = f"`{requirement}`{f', which {by} needs,' if by else ''} was not found: {there}"
            is_empty = not versions and not re.search("Skipping link: (?!not a file)", self.log)
            return wheel_errors.not_in_index(index_url, what, python.series, reason, is_empty=is_empty)
        if "ResolutionImpossible" in self.output:
            return wheel_errors.not_in_index(index_url, what, python.series, self.reason, is_empty=False)
        return FetchError(f"cannot resolve `{what}` from {name}: {self.reason}")

    def require_installed(self) -> None:
        """Raise what an installation that failed means."""
        if not self.code:
            return
        if re.search(r"\[Errno 28\]|\[WinError 112\]", self.output):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if re.search(r"\[WinError (5|32)\]", self.output):
            raise wheel_errors.in_use(self.reason)
        mismatch = re.search(
            r"^\s+(\S+==\S+) from .*\n\s+Expected sha256 (\w+)\n\s+Got\s+(\w+)", self.output, re.M
        )
        if mismatch:
            raise wheel_errors.not_promised(
                f"{mismatch[1]}: expected sha256 {mismatch[2]}, got {mismatch[3]}"
            )
        if re.search(r"BadZipFile|is invalid\.|Invalid wheel|has an invalid wheel", self.output):
            raise wheel_errors.damaged(self.reason)
        project, pythons = self.fitting_pythons
        if pythons:
            raise wheel_errors.foreign_wheel(project, pythons)
        raise PrefixError(f"cannot install the wheels: {self.reason}", code="venv")


def _refused_host(output: str) -> str:
    """Return what pip says about a server that it does not trust, "" if it trusts all."""
    # WARNING: The repository located at host is not a trusted or secure host and is being ignored. ...
    found = re.search(r"The repository located at (\S+) is not a trusted or secure host", output)
    return f"pip takes nothing from {found[1]}, which is asked without TLS (http)" if found else ""
