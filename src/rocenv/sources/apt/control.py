"""Package stanzas and what they say about other packages.

Source: deb-control(5), deb822(5), Debian Policy 7
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RELATION = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9.+-]*)(?::(?P<arch>[a-z0-9-]+))?"
    r"\s*(?:\(\s*(?P<operator><<|<=|>=|>>|=|<|>)\s*(?P<version>\w[^\s)]*)\s*\))?"
    r"\s*(?:\[(?P<only>[^\]]*)\])?\s*(?:<[^>]*>\s*)*$"
)


@dataclass(frozen=True, slots=True)
class Relation:
    """One alternative of a dependency: a package name, perhaps with a bound on its version."""

    name: str
    operator: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.operator} {self.version})" if self.operator else self.name


Clause = tuple[Relation, ...]  # alternatives, the packager's favourite first


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package of an index."""

    name: str
    version: str
    depends: tuple[Clause, ...] = ()  # Pre-Depends included
    conflicts: tuple[Relation, ...] = ()  # Breaks included
    provides: tuple[Relation, ...] = ()  # with operator "=" where the provided version is named
    filename: str = ""
    sha256: str = ""
    size_bytes: int = 0
    installed_bytes: int = 0
    repo: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def parse_fields(stanza: str) -> dict[str, str]:
    """Return the fields of one stanza, names in lower case, continued lines joined by newlines."""
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line[:1] in (" ", "\t"):
            if name:
                fields[name] += "\n" + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.lower()
            fields[name] = value.strip()
    return fields


def parse_package(stanza: str, repo: str) -> Package:
    """Return the package that one stanza of an index describes.

    Args:
        stanza: The text of the stanza.
        repo: The repository that it stands in.

    Raises:
        ValueError: A size is no number, or the name or version is missing.
    """
    fields = parse_fields(stanza)
    if not fields.get("package") or not fields.get("version"):
        raise ValueError("a package without a name or a version")
    clauses = parse_clauses(fields.get("pre-depends", "")) + parse_clauses(fields.get("depends", ""))
    against = parse_clauses(fields.get("conflicts", "")) + parse_clauses(fields.get("breaks", ""))
    return Package(
        name=fields["package"],
        version=fields["version"],
        depends=clauses,
        conflicts=tuple(clause[0] for clause in against),
        provides=tuple(clause[0] for clause in parse_clauses(fields.get("provides", ""))),
        filename=fields.get("filename", ""),
        sha256=fields.get("sha256", "").lower(),
        size_bytes=int(fields.get("size") or 0),
        installed_bytes=int(fields.get("installed-size") or 0) * 1024,
        repo=repo,
    )


def parse_clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a dependency field, without relations that do not apply to this architecture.

    Raises:
        ValueError: A relation cannot be understood.
    """
    clauses = []
    for part in text.replace("\n", " ").split(","):
        if part.strip():
            relations = tuple(found for found in map(_relation, part.split("|")) if found is not None)
            if relations:
                clauses.append(relations)
    return tuple(clauses)


def _relation(text: str) -> Relation | None:
    match = _RELATION.match(text)
    if match is None:
        raise ValueError(f"cannot understand the relation `{text.strip()}`")
    if match["only"] and not _applies(match["only"]):
        return None
    operator = {"<": "<=", ">": ">="}.get(match["operator"] or "", match["operator"] or "")
    # What must be of another architecture is nothing that this index offers.
    foreign = match["arch"] not in (None, "any", "native", "all", "amd64")
    name = f"{match['name']}:{match['arch']}" if foreign else match["name"]
    return Relation(name, operator, match["version"] or "")


def _applies(architectures: str) -> bool:
    names = architectures.split()
    if names[0].startswith("!"):
        return "!amd64" not in names and "!linux-any" not in names
    return any(name in ("amd64", "any", "linux-any", "any-amd64") for name in names)
