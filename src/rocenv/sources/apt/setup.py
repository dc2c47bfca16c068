"""How the machine's own apt is set up: its mirrors, its keyrings, and two of its settings.

A distribution's mirror is taken from here and nowhere else, so that what works for the machine's owner works
for rocenv. Both forms of source lists are read: one-line `*.list` and deb822 `*.sources`.

Source: sources.list(5), apt.conf(5)
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

from rocenv.sources.apt.control import parse_fields
from rocenv.system import list_folder, machine_path, read_text

SOURCES = "/etc/apt/sources.list"
SOURCES_FOLDER = "/etc/apt/sources.list.d"
_ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One suite of one mirror, as the machine's apt knows it."""

    uri: str  # without a trailing slash
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""  # path of a keyring; "" = apt's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the owner has told apt about checking and reaching mirrors."""

    check_valid_until: bool = True
    http_proxy: str = ""


def entries() -> tuple[Entry, ...]:
    """Return the enabled entries for binary packages, in apt's order."""
    found = _one_line_entries(read_text(SOURCES) or "")
    for name in list_folder(SOURCES_FOLDER):
        text = read_text(f"{SOURCES_FOLDER}/{name}") or ""
        if name.endswith(".list"):
            found += _one_line_entries(text)
        elif name.endswith(".sources"):
            found += _deb822_entries(text)
    return tuple(entry for entry in found if entry.uri.startswith(("http://", "https://")))


def mirrors_of(suites: frozenset[str]) -> tuple[Entry, ...]:
    """Return one entry for each mirror that carries one of `suites`, the machine's order kept."""
    by_uri: dict[str, Entry] = {}
    for entry in entries():
        if entry.suite in suites and "main" in entry.components:
            by_uri.setdefault(entry.uri, entry)
    return tuple(by_uri.values())


def settings() -> Settings:
    """Return apt's own settings; the defaults where there is no apt."""
    program = shutil.which("apt-config")
    if program is None:
        return Settings()
    try:
        dump = subprocess.run(
            [program, "dump"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return Settings()
    values = dict(re.findall(r'^(\S+) "([^"]*)";$', dump, re.MULTILINE))
    checked = values.get("Acquire::Check-Valid-Until", "true").lower() not in ("false", "no", "0", "off")
    dated = values.get("Acquire::Check-Date", "true").lower() not in ("false", "no", "0", "off")
    proxy = values.get("Acquire::http::Proxy", "")
    return Settings(check_valid_until=checked and dated, http_proxy="" if proxy == "DIRECT" else proxy)


def keyring_bytes(path: str) -> bytes | None:
    """Return the content of a keyring of the examined machine, or None where it cannot be read."""
    try:
        return machine_path(path).read_bytes()
    except OSError:
        return None


def _one_line_entries(text: str) -> list[Entry]:
    found = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.partition("#")[0].strip())
        if match is None:
            continue
        options = dict(option.split("=", 1) for option in (match["options"] or "").split() if "=" in option)
        found.append(
            Entry(
                uri=match["uri"].rstrip("/"),
                suite=match["suite"],
                components=tuple(match["components"].split()),
                signed_by=options.get("signed-by", ""),
            )
        )
    return found


def _deb822_entries(text: str) -> list[Entry]:
    found = []
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", plain):
        fields = parse_fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in (
            "no",
            "false",
        ):
            continue
        signed_by = fields.get("signed-by", "")
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                found.append(
                    Entry(
                        uri=uri.rstrip("/"),
                        suite=suite,
                        components=tuple(fields.get("components", "").split()),
                        signed_by=signed_by if signed_by.startswith("/") else "",
                    )
                )
    return found
