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
    "app": App,
    "library": Library,
}
