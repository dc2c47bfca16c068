"""Read this machine's apt configuration: the distribution's mirrors, keyrings, and some settings.

rocenv does not use other mirrors of the distribution, so a mirror that works for apt works for rocenv. Both
source list formats are supported: one-line `*.list` and deb822 `*.sources`.

Source: sources.list(5), apt.conf(5), apt-transport-mirror(1)
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from rocenv.core.logins import shown
from rocenv.sources.apt.control import parse_fields
from rocenv.sources.apt.signature import fingerprints_in
from rocenv.system import process
from rocenv.system.machine import list_folder, machine_path, read_text, sysroot
from rocenv.system.programs import system_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock
    from rocenv.data.releases import Repo
    from rocenv.net import Network

# These bases stand for mirrors in apt's configuration: Debian's, or the system's own.
DEBIAN = "debian:"
HOST = "host:"
ARCHITECTURE = "amd64"
_NO = ("no", "false", "without", "off", "disable", "0")  # Source: apt, strutl.cc, StringToBool
_ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>.*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A suite on a mirror in the system's apt sources."""

    uri: str  # without a trailing slash
    suite: str
    components: tuple[str, ...]
    signed_by: tuple[str, ...] = ()  # keyring paths, fingerprints, or a key; () for apt's own keyrings
    is_dateless: bool = False  # whether apt accepts an expired index
    is_undated: bool = False  # whether apt accepts an index dated in the future; implies `is_dateless`


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The system's apt settings for verifying and contacting mirrors."""

    check_valid_until: bool = True
    check_date: bool = True
    http_proxy: str = ""


# ---------------------------------------------------------------- mirrors of a repository


def relocated(lock: Lock, context: Context) -> Lock:
    """Point a lock's Debian packages at the mirrors that this machine's apt uses."""

    def moved(artifact: Artifact) -> Artifact:
        repo = context.matrix.repos.get(artifact.repo)
        if repo is None or not artifact.path or not is_symbolic(repo):
            return artifact
        bases = tuple(map(shown, addresses(repo, context.network)))
        if not bases or any(artifact.url == join(base, artifact.path) for base in bases):
            return artifact
        return structs.replace(artifact, url=join(bases[0], artifact.path))

    parts = [structs.replace(part, artifacts=tuple(map(moved, part.artifacts))) for part in lock.components]
    return structs.replace(lock, components=tuple(parts))


def addresses(repo: Repo, network: Network) -> tuple[str, ...]:
    """List the base URLs of a distribution's repository on this machine, starting with the user's mirrors."""
    return with_mirrors(repo, mirrors_of(repo), network).candidates(repo.base)


def join(base: str, path: str) -> str:
    """Join a base URL, which may be symbolic, and a relative path."""
    return base + path if base.endswith(":") else f"{base.rstrip('/')}/{path}"


def with_mirrors(repo: Repo, entries: Sequence[Entry], network: Network) -> Network:
    """Add apt's mirrors to a network, after those that the user has configured."""
    mirrors = dict(network.mirrors)
    both = (*mirrors.get(repo.base, ()), *(entry.uri for entry in entries))
    mirrors[repo.base] = tuple(dict.fromkeys(both))
    return replace(network, mirrors=tuple(mirrors.items()))


def is_symbolic(repo: Repo) -> bool:
    """Whether a repository's location comes from the system's apt configuration."""
    return repo.base in (DEBIAN, HOST)


def mirrors_of(repo: Repo) -> tuple[Entry, ...]:
    """List the apt entries that are mirrors of a distribution.

    Other archives use the same suite names with different keys, so an entry that specifies a key is used only
    if the key belongs to the distribution.
    """
    if not is_symbolic(repo):
        return ()
    found = entries_with(frozenset((own_release(),))) if repo.base == HOST else ()
    # Users who track `stable` do not name the release in their sources, but their mirror contains it.
    found = found or entries_with(frozenset(repo.suites_known))
    return tuple(entry for entry in found if _has_key_of(repo, entry))


def _has_key_of(repo: Repo, entry: Entry) -> bool:
    if set(entry.signed_by) & set(repo.keyrings):
        return True
    known = frozenset[str]().union(*map(fingerprints_in, keyrings(repo)))
    if not entry.signed_by:
        return bool(known)  # on another distribution, `stable` means a different release
    named = set[str]()
    for word in entry.signed_by:
        if word.startswith("/"):
            named |= fingerprints_in(keyring_bytes(word) or b"")
        else:
            named |= {word.upper().rstrip("!")} | fingerprints_in(word.encode())
    return bool(known & named)


def own_release() -> str:
    """Return the codename of the system's release, or ""."""
    match = re.search(r"^VERSION_CODENAME=(.*)$", read_text("/etc/os-release") or "", re.MULTILINE)
    return match[1].strip().strip('"') if match else ""


def keyrings(repo: Repo) -> tuple[bytes, ...]:
    """Read a repository's keyrings, skipping any that this machine does not have."""
    return tuple(ring for ring in map(keyring_bytes, repo.keyrings) if ring is not None)


def keyring_bytes(path: str) -> bytes | None:
    """Read a keyring on the inspected machine, or return None if that fails."""
    try:
        return machine_path(path).read_bytes()
    except OSError:
        return None


# ---------------------------------------------------------------- source lists


def entries_with(suites: frozenset[str]) -> tuple[Entry, ...]:
    """List one entry for each mirror that has one of `suites`, in apt's order."""
    by_uri: dict[str, Entry] = {}
    for entry in all_entries():
        if entry.suite in suites and "main" in entry.components:
            by_uri.setdefault(entry.uri, entry)
    return tuple(by_uri.values())


def all_entries() -> tuple[Entry, ...]:
    """List the enabled entries for binary packages of this architecture, in apt's order."""
    found = _one_line_entries(read_text("/etc/apt/sources.list") or "")
    folder = "/etc/apt/sources.list.d"
    for name in list_folder(folder):
        if name.endswith(".list"):
            found += _one_line_entries(read_text(f"{folder}/{name}") or "")
        elif name.endswith(".sources"):
            found += _deb822_entries(read_text(f"{folder}/{name}") or "")
    return tuple(
        replace(entry, uri=uri.rstrip("/"))
        for entry in found
        for uri in _addresses(entry.uri)
        if uri.startswith(("http://", "https://"))
    )


def _addresses(uri: str) -> list[str]:
    """List a URI's URLs: several if it names a mirror list, as in Debian's cloud images."""
    kind, _, path = uri.partition(":")
    if kind != "mirror+file":
        return [uri]
    # http://mirror.example.org/debian<TAB>priority:1
    lines = (read_text("/" + path.lstrip("/")) or "").splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def _one_line_entries(text: str) -> list[Entry]:
    found = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.partition("#")[0].strip())
        if match is None:
            continue
        options = dict(option.split("=", 1) for option in (match["options"] or "").split() if "=" in option)
        if _is_for_us(options.get("arch", "").split(",")):
            found.append(
                Entry(
                    uri=match["uri"],
                    suite=match["suite"],
                    components=tuple(match["components"].split()),
                    signed_by=tuple(filter(None, options.get("signed-by", "").split(","))),
                    **_unchecked(options),
                )
            )
    return found


def _deb822_entries(text: str) -> list[Entry]:
    found = []
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n[ \t]*\n", plain):
        fields = parse_fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "").lower() in _NO:
            continue
        if not _is_for_us(fields.get("architectures", "").split()):
            continue
        found += [
            Entry(
                uri=uri,
                suite=suite,
                components=tuple(fields.get("components", "").split()),
                signed_by=_signed_by(fields.get("signed-by", "")),
                **_unchecked(fields),
            )
            for uri in fields.get("uris", "").split()
            for suite in fields.get("suites", "").split()
        ]
    return found


def _unchecked(options: dict[str, str]) -> dict[str, bool]:
    until, date = (options.get(name, "").lower() in _NO for name in ("check-valid-until", "check-date"))
    return {"is_dateless": until or date, "is_undated": date}


def _is_for_us(architectures: list[str]) -> bool:
    return not any(architectures) or ARCHITECTURE in architectures


def _signed_by(value: str) -> tuple[str, ...]:
    if "-----BEGIN" not in value:
        return tuple(value.split())
    # A dot represents an empty line. Source: deb822(5)
    return ("\n".join("" if line == "." else line for line in value.strip().splitlines()),)


# ---------------------------------------------------------------- settings


def apt_settings() -> Settings:
    """Read the settings from `apt-config`, or use the defaults if it is not installed."""
    values = dict(re.findall(r'^(\S+) "([^"]*)";$', _apt_dump(), re.MULTILINE))
    until, date = (
        values.get(f"Acquire::{name}", "true").lower() not in _NO
        for name in ("Check-Valid-Until", "Check-Date")
    )
    proxy = values.get("Acquire::http::Proxy", "")
    return Settings(
        check_valid_until=until and date,
        check_date=date,
        http_proxy="" if proxy == "DIRECT" else proxy,
    )


def _apt_dump() -> str:
    program = system_program("apt-config")
    if program is None:
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as first_read:
        environ = dict(os.environ)
        if str(sysroot()) != "/":
            first_read.write(f'Dir "{sysroot()}";\n')
            first_read.flush()
            environ["APT_CONFIG"] = first_read.name
        return process.run([program, "dump"], environ=environ, timeout_s=10).text
