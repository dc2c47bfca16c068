"""Review a lock for hosts, variables and commands that do not come from rocenv's data.

The hashes in a lock guarantee that everyone gets the same files, not that the files are safe: the author of
the lock chose them. Everything that rocenv writes to a lock comes from the data, so users have to judge any
other content. A lock can never change certain variables.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import structs
from packaging.utils import canonicalize_name

from rocenv.core.errors import DataError, ResolutionImpossible, RocenvError
from rocenv.core.model import EnvChange
from rocenv.core.variables import OVERRIDE, VISIBLE, overridden_target
from rocenv.core.versions import joined, series
from rocenv.data.environment import machine_variables
from rocenv.sources.apt.mirrors import addresses, is_symbolic, relocated
from rocenv.sources.general_index import from_first, general_indices
from rocenv.sources.uv import Uv

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rocenv.context import Context
    from rocenv.core.model import Artifact, Lock, Program
    from rocenv.data.rows import Matrix

    # `https://host` or `*.domain`, and `/path/`
    Place = tuple[str, str]

# Variables that decide which programs and libraries run, or which code a shell or Python runs first.
_NEVER = re.compile(r"(LD|DYLD|BASH|GIT)_\w+|PATH|PYTHON\w*|PROMPT\w*|ENV|IFS|PS[0-4]|PATHEXT|COMSPEC")
_HOST = re.compile(r"([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
_MAX_LOOKUPS = 100  # a set has about 30 wheels
_SEPARATORS = {"linux": ":", "windows": ";"}
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Contents of a lock that do not come from the data.

    Attributes:
        hosts: Hosts found neither in the data nor in this machine's settings, each with its files.
        variables: Known variables whose values are not in the data.
        commands: Other differences in how programs run, as sentences.
        files: Names of files in the lock's bundle whose origin this machine cannot confirm.
    """

    hosts: Mapping[str, tuple[str, ...]]
    variables: tuple[EnvChange, ...] = ()
    commands: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @property
    def is_foreign(self) -> bool:
        """Whether the user has to confirm anything."""
        return bool(self.hosts or self.variables or self.commands or self.files)

    @property
    def lines(self) -> tuple[str, ...]:
        """All findings for the user, one line each."""
        hosts = (
            f"downloads {joined(files, 3)} from `{host}`, which is unknown to rocenv"
            for host, files in self.hosts.items()
        )
        contained = f"contains {joined(self.files, 3)} from an unknown author"
        brought = (contained,) if self.files else ()
        return (*hosts, *brought, *map(_change_text, self.variables), *self.commands)


def review(lock: Lock, context: Context) -> tuple[Lock, Review]:
    """Adapt a lock's URLs to this machine, and compare the lock with the data.

    A lock contains the mirrors of the machine that wrote it. Debian packages get URLs on this machine's
    mirror. A wheel from an unknown host gets the URL from this machine's index, if the index lists the same
    name, version and hash. A wheel that was already downloaded may have any URL.

    The URL of a file in a bundle says nothing about its origin. Therefore, the review lists the file unless
    its hash is in this home, in rocenv's data, or in an index that its distributor signed. Even if the hash
    is in one of these places, the URL must have a known origin, because the env keeps it for repairs.
    Exceptions are wheels that were already downloaded, and bundled packages from the distribution, whose
    URL depends on this machine's mirror.

    Raises:
        DataError: The lock changes a variable that locks are not allowed to change.
    """
    places = [*known_places(context.matrix), *_places_of_machine(context)]
    published = {row.sha256 for row in context.matrix.file_hash} | context.proven
    symbolic = {repo.name for repo in context.matrix.repo if is_symbolic(repo)}
    lock = relocated(lock, context)
    files = {
        each.sha256: each.name
        for each in lock.artifacts
        if each.sha256 in context.bundled and each.sha256 not in published and not _is_here(each, context)
    }
    known = {
        each
        for each in lock.artifacts
        if each.sha256 in files or (each.sha256 in context.bundled and each.path and each.repo in symbolic)
    }
    parts = []
    for part in lock.components:
        foreign = [
            each
            for each in part.artifacts
            if part.python and each.kind == "wheel" and _foreign_host(each.url, places)
        ]
        here = {each for each in foreign if _is_here(each, context)}
        wanted = [each for each in foreign if each not in here | known]
        moved = _from_index(wanted, series(part.python), context)
        known |= here | set(moved.values())
        artifacts = tuple(moved.get(each, each) for each in part.artifacts)
        parts.append(structs.replace(part, artifacts=artifacts))
    lock = structs.replace(lock, components=tuple(parts))
    return lock, replace(compared(lock, context.matrix, places, known), files=tuple(files.values()))


def _is_here(artifact: Artifact, context: Context) -> bool:
    """Whether this home contains a file with this hash."""
    places = (context.home.artifacts / artifact.sha256, context.home.store / artifact.sha256)
    return any(place.exists() for place in places)


def _from_index(wheels: Sequence[Artifact], python: str, context: Context) -> dict[Artifact, Artifact]:
    """Look up wheels in the configured package index, and map each to the same wheel with a URL there."""
    pins = sorted({f"{each.name}=={each.version}" for each in wheels})
    if not pins or len(pins) > _MAX_LOOKUPS:
        return {}
    uv = Uv.for_context(context)
    listed: dict[tuple[str, str, str], str] = {}

    def look_up(*pins: str) -> None:
        indices = general_indices(os.environ, context.network)
        listed.update(from_first(indices, lambda url: uv.listed(pins, index_url=url, series=python), uv))

    with context.progress.wait("Looking up the lock's wheels"):
        try:
            look_up(*pins)
        except ResolutionImpossible:  # a wheel is missing, or there are two versions of a project
            for pin in pins:
                with contextlib.suppress(RocenvError):
                    look_up(pin)
        except RocenvError as error:
            context.note(f"cannot look up the lock's wheels: {shorten(error.message, 200, placeholder=' …')}")
    keys = {each: (canonicalize_name(each.name), each.version, each.sha256) for each in wheels}
    return {each: structs.replace(each, url=listed[key]) for each, key in keys.items() if key in listed}


def compared(
    lock: Lock, matrix: Matrix, places: Sequence[Place], known: Collection[Artifact] = frozenset()
) -> Review:
    """Compare a lock with the data.

    Args:
        lock: A lock of any origin.
        matrix: The data.
        places: The allowed origins of files.
        known: Files that may have any origin.

    Raises:
        DataError: See `review`.
    """
    hosts: dict[str, list[str]] = {}
    symbolic = {repo.base for repo in matrix.repo if is_symbolic(repo)}
    for part in lock.components:
        for artifact in part.artifacts:
            if any(artifact.url.startswith(base) for base in symbolic):
                continue  # resolved only through this machine's mirrors
            # On Windows, rocenv uses an installed HIP SDK, whatever the lock contains.
            is_sdk = lock.platform == "windows" and part.artifacts[0].kind in ("installer", "folder")
            is_folder = artifact.kind == "folder" and not is_sdk
            if artifact in known:
                continue
            if host := artifact.path if is_folder else _foreign_host(artifact.url, places):
                hosts.setdefault(host, []).append(artifact.name)
    return Review(
        hosts={host: tuple(dict.fromkeys(files)) for host, files in sorted(hosts.items())},
        variables=tuple(_foreign_changes(lock, matrix)),
        commands=tuple(_foreign_commands(lock, matrix)),
    )


# ---------------------------------------------------------------- origins of files


def known_places(matrix: Matrix) -> Iterator[Place]:
    """Yield the origins in the data: repositories, indexes, releases, and installers."""
    for repo in matrix.repo:
        yield from _place(repo.base.partition("{")[0])
    # An index's pages link to files in sibling folders.
    for index in (*(row.index for row in matrix.torch), *(row.index for row in matrix.rocm_wheels)):
        for origin, path in _place(index):
            yield origin, "/".join(path.split("/")[:2]).rstrip("/") + "/"
    urls = [row.url for row in matrix.zluda]
    urls += [row.url for row in matrix.pack]
    urls += [row.url for row in matrix.hip_sdk]
    for url in (url for row in matrix.index for url in (row.url, *row.published_at)):
        if url.startswith("*."):
            domain, _, path = url.partition("/")
            yield domain, f"/{path}"
        else:
            urls.append(url)
    for url in urls:
        head = url.partition("{")[0]
        yield from _place(head[: head.rfind("/") + 1])


def _places_of_machine(context: Context) -> Iterator[Place]:
    """Yield the origins in this machine's settings."""
    network = context.network
    for _, bases in network.mirrors:
        for base in bases:
            yield from _place(base)
    for repo in filter(is_symbolic, context.matrix.repo):
        for base in addresses(repo, network):
            yield from _place(base)


def _place(url: str) -> Iterator[Place]:
    """Yield a URL's server and folder, or nothing if it has no server."""
    origin, path = _split(url)
    if origin:
        yield origin, path.rstrip("/") + "/"


def _split(url: str) -> Place:
    """Split a URL into server and path; both are "" if the server has an unusual form.

    Two parsers can extract different servers from an unusual URL, so only plain URLs are compared.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # such as `http://[::1/`
        return "", ""
    host = parts.netloc.rpartition("@")[2].lower()
    if parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host) or re.search(r"[\\\s]", url):
        return "", ""
    return f"{parts.scheme}://{host.removesuffix(_DEFAULT_PORTS[parts.scheme])}", parts.path


def _foreign_host(url: str, places: Sequence[Place]) -> str:
    """Return a URL's server if the URL is outside all known origins, otherwise ""."""
    origin, path = plain_place(url)
    if origin:
        for known, folder in places:
            if _is_at(origin, known) and path.startswith(folder):
                return ""
    return _split(url)[0] or repr(url)


def plain_place(url: str) -> Place:
    """Split a URL into server and path; both are "" if parsers could disagree about them."""
    origin, path = _split(url)
    is_plain = origin and "@" not in urlsplit(url).netloc and _is_plain(path)
    return (origin, path) if is_plain else ("", "")


def _is_at(origin: str, known: str) -> bool:
    if known.startswith("*."):  # the lock contains the packages' hashes, so encryption is optional
        return re.fullmatch(rf"https?://([a-z0-9-]+\.)+{re.escape(known[2:])}", origin) is not None
    return origin == known


def _is_plain(path: str) -> bool:
    """Whether all parsers extract the same folder from a path."""
    hidden = re.search("%2f|%5c|%25", path, re.IGNORECASE)
    return not hidden and not {".", ".."} & set(unquote(path).split("/"))


# ---------------------------------------------------------------- variables


def _foreign_changes(lock: Lock, matrix: Matrix) -> Iterator[EnvChange]:
    """Yield changes that do not come from the data; raise DataError for variables forbidden in locks."""
    listed = {_same(name, lock.platform) for name in _listed(matrix)}
    given = {(name, value) for program in _programs(matrix) for name, value in program.environment.items()}
    names = {name for name, _ in given}
    own = machine_variables(matrix)
    for change in lock.environment:
        if change.name in own and change.action == "set":
            continue  # replaced by this machine's own value
        if not _is_given(change, lock.platform, matrix):
            _require_listed(change.name, lock.platform, listed)
            yield change
    for program in (each for part in lock.components if part.layout for each in part.layout.programs):
        for name, value in program.environment.items():
            is_own_file = any(_is_below(value, place, lock.platform) for place in ("{tree}", "{bin}"))
            if (name, value) not in given and not (name in names and is_own_file):
                _require_listed(name, lock.platform, listed | names)
                yield EnvChange(action="set", name=name, value=value)


def _require_listed(name: str, platform: str, listed: set[str]) -> None:
    same = _same(name, platform)
    decides = _NEVER.fullmatch(same.upper())
    if same in listed and not decides:
        return
    why = "which determines what programs run" if decides else "which is unknown to rocenv"
    raise DataError(
        f"the lock changes the variable `{name}`, {why}; locks are not allowed to change it",
        hints=("remove it from the lock, or ask the author for a lock written by `rocenv lock`",),
        code="lock-refused",
    )


def _is_given(change: EnvChange, platform: str, matrix: Matrix) -> bool:
    """Whether the data contains this change, or one that differs only in the folder inside the env."""
    if change.name == OVERRIDE:
        return change.action == "set" and bool(overridden_target(change.value))
    for row in matrix.environment:
        pattern = re.escape(row.change.name).replace(re.escape("{series}"), "[0-9]+")
        if row.platform != platform or row.change.action != change.action:
            continue
        if re.fullmatch(pattern, change.name) is None:
            continue
        if row.change.value == change.value:
            return True
        if row.change.value.startswith("{") and _is_below(change.value, "{prefix}", platform):
            return True
    return False


def _is_below(value: str, place: str, platform: str) -> bool:
    """Whether a value is a single path, at or below `place`."""
    path = value.replace("\\", "/") if platform == "windows" else value
    below = path.startswith(f"{place}/") or path == place
    return below and ".." not in path.split("/") and _SEPARATORS[platform] not in path


def _listed(matrix: Matrix) -> Iterator[str]:
    """Yield the names of the variables in the data, except rocenv's own."""
    yield from (OVERRIDE, VISIBLE)
    yield from (row.change.name for row in matrix.environment)
    yield from (row.name for row in matrix.watched)
    yield from (name for row in matrix.setting for name in row.variables)
    for row in matrix.variable:  # `ROCM_HOME / HIP_HOME`
        if row.by != "rocenv":
            yield from re.findall(r"(?<![\w/])[A-Z]\w+", row.name)


def _same(name: str, platform: str) -> str:
    return name.upper() if platform == "windows" else name


def _change_text(change: EnvChange) -> str:
    if change.action == "unset":
        return f"unsets `{change.name}`; rocenv would not"
    verb = "prepends `{1}` to `{0}`" if change.action == "prepend" else "sets `{0}={1}`"
    return f"{verb.format(change.name, change.value)}; rocenv would not"


# ---------------------------------------------------------------- commands


def _foreign_commands(lock: Lock, matrix: Matrix) -> Iterator[str]:
    """Describe program arguments and torch settings that do not come from the data."""
    arguments = {program.arguments for program in _programs(matrix)}
    switches = {(row.name, row.how, row.value) for row in matrix.torch_switch}
    for part in lock.components:
        for program in part.layout.programs if part.layout else ():
            if program.arguments and program.arguments not in arguments:
                words = " ".join(program.arguments)
                yield f"runs `{program.path}` with `{words}`; rocenv would not"
        for switch in part.shims.switches if part.shims else ():
            if (switch.name, switch.how, switch.value) not in switches:
                yield f"changes `torch.{switch.name}`; rocenv would not"


def _programs(matrix: Matrix) -> Iterable[Program]:
    for rows in (matrix.rocm, matrix.rocm_wheels, matrix.compiler):
        yield from (program for row in rows for program in row.layout.programs)
    yield from (program for row in matrix.app_packages for program in row.programs)
