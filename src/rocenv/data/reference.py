"""Rows that are there to be told and to build with; no resolution depends on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rocenv.data.known import Known


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident(Known):
    """A report that taught something. Table `incident`."""

    code: str
    title: str
    text: str
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Known):
    """Something to know about a subject. Table `fact`."""

    about: str  # "override", "hip-sdk", "pack", "zluda", "torch", "repository" …
    text: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Known):
    """An environment variable that matters. Table `variable`."""

    name: str
    meaning: str
    by: Literal["rocm", "zluda"]
    value: str = ""  # its default, or what it is set to
    set_by: str = ""
    fragile: bool = False  # what lies there breaks on network or read-only homes
    folder: str = ""  # below the env, where it can be put


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim(Known):
    """Which file of a ZLUDA build takes the place of which CUDA file. Table `shim`."""

    app: str
    file: str
    stands_for: str
    torch_flavour: str
    location: str
    method: str
    condition: str
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DllNames(Known):
    """The CUDA libraries inside a torch flavour. Table `dll_names`."""

    torch_flavour: str
    names: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DllNeeds(Known):
    """What a file of a ZLUDA build loads. Table `dll_needs`."""

    file: str
    needs: str
    crate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DllHash(Known):
    """A known file of a ZLUDA build. Table `dll_hash`."""

    project: str
    tag: str
    file: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension(Known):
    """An unofficial addition to a HIP SDK. Table `extension`."""

    name: str
    rocm: str
    zluda: str
    contents: str
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(Known):
    """What an app pins. Table `pin`."""

    app: str
    torch: str
    when: str
    index: str
    python: tuple[str, ...] = ()
    torchvision: str = ""
    torchaudio: str = ""
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class App(Known):
    """How an app uses ZLUDA or HIP on Windows. Table `app`."""

    name: str
    repo: str
    launch: str
    zluda_dir: str
    shim: str
    zluda: str
    torch: str
    per_gpu: str
    check: str
    hip: tuple[str, ...] = ()
    hip_unsupported: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Library(Known):
    """What the libraries of a component are called. Table `library`."""

    component: str
    linux: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    note: str = ""


TABLES: dict[str, type[Known]] = {
    "incident": Incident,
    "fact": Fact,
    "variable": Variable,
    "shim": Shim,
    "dll_names": DllNames,
    "dll_needs": DllNeeds,
    "dll_hash": DllHash,
    "extension": Extension,
    "pin": Pin,
    "app": App,
    "library": Library,
}
