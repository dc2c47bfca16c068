"""Format a request as command-line options, as a command or as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.core.model import Request

NO_TORCH = "none"  # from `--no-torch`; with ZLUDA, PyTorch is the default

_OPTIONS = ("rocm", "zluda", "torch", "python", "target", "channel", "driver", "app")


def options(request: Request, here: str = "linux") -> str:
    """Format a request as command-line options for a machine with the platform `here`."""
    parts = [f"--platform {request.platform}"] if request.platform != here else []
    for name in _OPTIONS:
        value = _torch_option(request) if name == "torch" else getattr(request, name)
        if name == "target":
            value = ",".join(filter(None, request.targets))
        if value == NO_TORCH:
            parts.append("--no-torch")
        elif value == "*":
            parts.append(f"--{name}")
        elif value:
            parts.append(f"--{name} {shell_join(value)}")
    parts += [option for option, given in (("--dev", request.dev), ("--no-guard", request.no_guard)) if given]
    return " ".join(parts)


def _torch_option(request: Request) -> str:
    """Return the value for `--torch`, or "" for the default (with ZLUDA: any release)."""
    if not request.zluda:
        return request.torch
    return {"*": "", "": NO_TORCH}.get(request.torch, request.torch)


def create_command(name: str, request: Request, here: str = "linux") -> str:
    """Return the command that creates an env for a request; see `options`."""
    return f"rocenv create {shell_join(name)} {options(request, here)}".rstrip()


def rebuild_command(name: str, lock_file: str) -> str:
    """Return the command that creates an env from a lock."""
    return shell_join("rocenv", "create", name, "--from", lock_file)


def resolve_command(request: Request, here: str = "linux") -> str:
    """Return the command that plans a set for a request; see `options`."""
    return f"rocenv resolve {options(request, here)}".rstrip()


def no_set(request: Request) -> str:
    """Format the error for an impossible request: `No ROCm and PyTorch combination works on gfx1033`.

    If the request includes versions, a set that rocenv does not know about could work, so the error is
    `rocenv has no set with ROCm 6.4.9 for …`.
    """
    if any(spec not in ("", "*") for spec in (request.rocm, request.zluda, request.torch)):
        return f"rocenv has no set with {_components(request)} for {_place(request)}"
    noun = "combination" if request.zluda or request.torch else "release"
    return f"No {_components(request)} {noun} works on {_place(request)}"


def _components(request: Request) -> str:
    rocm = "HIP SDK" if request.zluda else "ROCm"
    specs = [(rocm, request.rocm or "*"), ("ZLUDA", request.zluda), ("PyTorch", request.torch)]
    *first, last = [name if spec == "*" else f"{name} {spec}" for name, spec in specs if spec]
    return f"{', '.join(first)} and {last}" if first else last


def _place(request: Request) -> str:
    """List the target and the other constraints on the set."""
    given = ["Windows"] if request.platform == "windows" else []
    for name in ("Python", "driver", "channel", "app"):
        if value := getattr(request, name.lower()):
            given.append(f"{name} {value}")
    return ", ".join(request.targets) + (f" ({', '.join(given)})" if given else "")
