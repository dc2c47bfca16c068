"""Redact the names of people, machines and folders, and numbers that identify a device.

This is for unstructured text: evidence from checks, and output from programs.
"""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import os
import platform
import re
import sys
from typing import TYPE_CHECKING

from rocenv.core.logins import mask_logins
from rocenv.system.machine import machine_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_USER, _OTHER, _HOST = "user", "other", "host"
_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER")
_HOST_VARIABLES = ("HOSTNAME", "HOST", "COMPUTERNAME", "USERDOMAIN", "USERDNSDOMAIN", "LOGONSERVER")
_ORDINARY_UIDS = range(1000, 65000)  # Source: login.defs(5), UID_MIN, UID_MAX
# Account and host names that do not identify anyone or are common words in the text.
_COMMON_WORDS = """
root user users other host localhost home admin administrator guest system windows linux ubuntu debian fedora
arch amd amdgpu radeon rocm hip gpu kfd drm pci ring reset render video device driver kernel error test
"""
_COMMON = frozenset(_COMMON_WORDS.split())
# A path, whose components may contain spaces. The last one is captured; vendor folders on Windows are kept.
_PATH = re.compile(
    r"(?P<vendor>[A-Z]:[\\/]+(?:Windows|Program Files(?: \(x86\))?[\\/]+AMD)[\\/][^\s:;,\"'<>|]*)"
    r"|(?<![\w.\\/~-])(?<!https:)(?<!http:)"
    r"(?!/(?:sys|proc|dev|etc|usr|lib|lib64|opt/rocm[-0-9.]*|bin|sbin)(?![\w-]))"
    r"(?:[A-Z]:)?[\\/]+(?:[^\s\\/:;,\"'<>|`][^\\/:;,\"'<>|\r\n`]*[\\/]+)*(?P<name>[^\\/\s:;,\"'<>|`)]*)",
    re.IGNORECASE,
)
# Source: the files in ROCm, ZLUDA, MIOpen and PyTorch
_FILE_NAME = re.compile(
    r"[\w.+-]+\.(?:so(?:\.[0-9]+)*|dll|exe|py|u?k?db|toml|json|bat|cmd|sh|co|hsaco|log|conf|bin)"
)
_SENSITIVE = (
    r"[\w.-]{0,40}(?:token|secret|passw|pwd|api[_-]?key|access[_-]?key|signature|credential|cookie|auth)"
    r"[\w.-]{0,40}"
)
_SERIAL = (
    r"(?:serial(?:[ _-]?(?:number|num|no))?|uuid|guid|(?:unique|hive|machine)[ _-]?id|asset[ _-]?tag|s/?n)"
)
_DOMAIN = r"(?:com|net|org|io|dev|de|cn|fr|uk|eu|jp|box|lan|local|home|internal|intranet|corp|example)"
_PUBLIC = r"(?:[\w-]+\.)*(?:github|amd|radeon|pytorch|kernel|freedesktop|microsoft|python)\.(?:com|org)\b"
_REPLACEMENTS = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+", "name@example.org"),
        (r"\([\w.+-]+@[\w.-]+\)", "(name@host)"),  # a kernel's builder
        (rf"([?&;]{_SENSITIVE}=)[^&\s\"'<>]+", r"\1x"),
        (rf"(\b{_SENSITIVE}[\"']?\s*[=:]\s*[\"']?)[^\s\"',;<>]+", r"\1x"),
        # Source: the documentation of the services that issue these tokens
        (r"(?<![a-z0-9])(?:hf_|sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|AKIA|pypi-|npm_)[\w-]{3,}", "x"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "00000000-0000-0000-0000-000000000000"),
        (r"\bS-1-5-21(?:-[0-9]+)+", "S-1-5-21-0"),
        (rf"(\b\w*{_SERIAL}[\"']?\s*[:=>]?[ \t]*[\"']?)(?<=[\s:=>\"'])[^\s\"',;<>\[\]{{}}&\\]+", r"\g<1>0"),
        (r"(\bby-id/)[^\s\"']+", r"\1disk"),
        (r"\b[0-9a-f]{32,}\b", "0" * 32),
        (r"(?<![0-9a-f:-])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![0-9a-f:-])", "0:0"),
        (r"(\b[ug]id=[0-9]+)\([^)\n]*\)", rf"\1({_OTHER})"),
        # Process names may contain spaces.
        (r"(\b(?:process|thread)\s+)(?!information)\S[^\n]{0,60}?(\s+pid\b\s*)[0-9]*", r"\1x\g<2>0"),
        (r"(\bcomm[:=]\s*)\S+", r"\1x"),
        # Windows derives the last part of a device's name from numbers that identify the machine.
        (r"(\b(?:PCI|USB)\\+[^\s\"\\;]+\\+)[^\s\"\\<;]+", r"\g<1>0"),
        (
            rf"(?:(?<=//)|(?<![\w@.\\/-]))(?!{_PUBLIC}|example\.org)(?:[a-z0-9][\w-]*\.)+{_DOMAIN}(?![\w-]|\.\w)",
            "host.example.org",
        ),
    )
)
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104
_OWN_ADDRESSES = ("127.0.0.1", "::1", "::", _ANY_ADDRESS)
# A version can look like an IP address: "Linux version 6.6.87.2-microsoft-standard-WSL2".
_ADDRESS = re.compile(
    r"(?<![\w.:])(?<!ersion )(?<!ersion: )(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f:]*:[0-9a-f:.]*)"
    r"(?![\w:]|-micro)",
    re.IGNORECASE,
)


class Redactor:
    """Redacts text from this machine, and always replaces a name with the same placeholder."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        """Add placeholders for more names or folders; they take precedence over the machine's own."""
        words = machine_names() | {name: word for name, word in (names or {}).items() if name}
        self._instead = {name.casefold(): word for name, word in words.items()}
        ordered = sorted(words, key=len, reverse=True)
        pattern = "|".join(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])" for name in ordered)
        self._names = re.compile(pattern, re.IGNORECASE) if pattern else None

    def text(self, text: str) -> str:
        """Redact text, and reduce paths outside of system folders to their file names."""
        text = mask_logins(text)
        if self._names is not None:
            text = self._names.sub(lambda found: self._instead[found[0].casefold()], text)
        text = _PATH.sub(_short_path, text)
        for pattern, replacement in _REPLACEMENTS:
            text = pattern.sub(replacement, text)
        return _ADDRESS.sub(_address, text)


def machine_names() -> dict[str, str]:
    """The names of this machine and its users, each with its placeholder."""
    names: dict[str, str] = {}
    users = own_users()
    for name, full_name, number in _accounts():
        if number in _ORDINARY_UIDS or name in users:
            parts = (name, full_name, *(part for part in full_name.split() if len(part) > 2))
            names |= dict.fromkeys(parts, _USER if name in users else _OTHER)
    names |= dict.fromkeys(_host_names(), _HOST)
    names |= dict.fromkeys(users, _USER)
    return {name: word for name, word in names.items() if len(name) > 1 and name.casefold() not in _COMMON}


def own_users() -> frozenset[str]:
    """The current user's names, from the environment, the account, and the home folder."""
    names = {os.environ.get(name, "") for name in _USER_VARIABLES}
    with contextlib.suppress(KeyError, OSError, ImportError):
        names.add(getpass.getuser())
    names.add(os.path.basename(os.path.expanduser("~")))
    return frozenset(filter(None, names))


def _host_names() -> Iterator[str]:
    texts = [platform.node(), *(os.environ.get(name, "") for name in _HOST_VARIABLES)]
    with contextlib.suppress(OSError):
        texts.append(machine_path("/etc/hostname").read_text("utf-8", "replace"))
    for text in (text.strip().strip("\\") for text in texts):
        yield from (text, text.partition(".")[0])


def _accounts() -> Iterator[tuple[str, str, int]]:
    """The name, full name and number of each account."""
    with contextlib.suppress(OSError):
        for line in machine_path("/etc/passwd").read_text("utf-8", "replace").splitlines():
            fields = line.split(":")
            if len(fields) > 4 and fields[2].isdecimal():
                yield fields[0], fields[4].partition(",")[0].strip(), int(fields[2])
    if sys.platform != "win32":
        import pwd

        with contextlib.suppress(KeyError):
            own = pwd.getpwuid(os.getuid())  # may be on a directory server instead of in /etc/passwd
            yield own.pw_name, own.pw_gecos.partition(",")[0].strip(), own.pw_uid


def _short_path(found: re.Match[str]) -> str:
    name = found["name"]
    if found["vendor"] or not re.search(r"[^\\/\s]", found[0]):
        return found[0]  # a vendor's path, or a lone slash
    return f"…/{name}" if _FILE_NAME.fullmatch(name) else "…"


def _address(found: re.Match[str]) -> str:
    text = found[0].rstrip(".:")
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return found[0]
    return found[0] if text in _OWN_ADDRESSES else found[0].replace(text, _ANY_ADDRESS)
