"""Parsing suggested command lines the way the program does."""

from __future__ import annotations

import shlex
from typing import Any

from msgspec.structs import replace

from rocenv.commands.resolve import command as resolve_command
from rocenv.core.model import Request
from rocenv.resolve.request import NO_TORCH

_NAMES = ("rocm", "zluda", "torch", "python", "target", "channel", "platform", "driver")


def asked(command: str) -> Request:
    """Return the request that a `rocenv resolve …` command makes on Linux without configuration."""
    words = shlex.split(command)
    assert words[:2] == ["rocenv", "resolve"]
    given = resolve_command.make_context("resolve", words[2:]).params
    wanted: dict[str, Any] = {name: given[name] or "" for name in _NAMES}
    request = Request(**wanted)
    target, *more = request.target.split(",")
    request = replace(request, platform=request.platform or "linux", target=target, more_targets=tuple(more))
    request = replace(request, dev=given["dev"])
    if given["no_torch"] or request.torch == NO_TORCH:
        assert not given["torch"]
        return replace(request, torch="")
    # With ZLUDA, torch is the default.
    return replace(request, torch="*") if request.zluda and not request.torch else request
