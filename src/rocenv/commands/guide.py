"""The choices that `rocenv create` offers on a terminal when called without arguments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocenv.commands.output import note, silent
from rocenv.core.errors import Declined, ResolutionImpossible, RocenvError
from rocenv.core.model import Request
from rocenv.core.template import fill

if TYPE_CHECKING:
    from rocenv.context import Context

_EXPLANATION = (
    "rocenv chooses versions that work together, downloads them, and checks the signature or hash of each "
    "file.",
    "Everything goes into one folder in `{envs}`. You do not need root, and your system stays unchanged.",
    "Then rocenv tests the result as thoroughly as this machine allows.",
    "To undo this: {undo}. For other options, see `rocenv create --help`.",
)


def choose_request(context: Context) -> Request:
    """Show the sets that make sense on this machine, and return the one that the user chooses.

    Raises:
        RocenvError: There is no usable GPU, or no set works on it.
    """
    from rocenv.request import complete_request

    offers: list[tuple[str, Request]] = []
    refused: list[RocenvError] = []
    for title, request in _candidates(context):
        try:
            complete = complete_request(request, context, silent if offers or refused else note)
            set_ = _best_set(complete.request, context)
        except ResolutionImpossible as error:
            refused.append(error)
            continue
        offers.append((f"{title}: {set_}", request))
    if not offers:
        raise refused[0]
    names = dict.fromkeys(context.home.unused_name(request.app or "default") for _, request in offers)
    undo = " or ".join(f"`rocenv remove {name}`" for name in names)
    for text in _EXPLANATION:
        note(fill(text, {"envs": context.home.envs, "undo": undo}))
    note("")
    for number, (title, _) in enumerate(offers, 1):
        note(f"  {number}  {title}")
    for refusal in refused:
        # The other hints suggest sets that are already offered.
        elsewhere = (text for text in refusal.hints if "--platform" in text)
        note(f"  -  {'; '.join((refusal.message, *elsewhere))}")
    numbers = [str(number) for number in range(1, len(offers) + 1)]
    answer = click.prompt("Your choice", type=click.Choice([*numbers, "q"]), default="1", err=True)
    if answer == "q":
        raise Declined
    return offers[int(answer) - 1][1]


def _candidates(context: Context) -> list[tuple[str, Request]]:
    from rocenv.resolve.request import NO_TORCH

    found = [("PyTorch", Request(torch="*", platform=""))]
    if app := _app_here(context):
        found.insert(0, (f"the set for {app[1]} in this folder", Request(app=app[0], platform="")))
    return [*found, ("ROCm without PyTorch", Request(torch=NO_TORCH, platform=""))]


def _app_here(context: Context) -> tuple[str, str] | None:
    """Detect an app in the current folder, and return its key and title."""
    from rocenv.apps.recognition import GENERIC, choose
    from rocenv.host import detect

    platform = detect(context.matrix).platform
    row, _ = choose(context.matrix.launcher, "", (), Path.cwd(), platform=platform)
    return None if row.key == GENERIC else (row.key, row.title)


def _best_set(request: Request, context: Context) -> str:
    """List the components of the best set, without checking whether it can be downloaded."""
    from rocenv.resolve import resolve

    best = next(resolve(request, context.matrix))
    parts = (f"{'ROCm' if kind == 'rocm' else kind} {version}" for kind, version in best.versions)
    channel = context.matrix.channels.get(best.rocm.channel)  # AMD's HIP SDK has none
    text = f"{', '.join(parts)} ({channel.title if channel else best.rocm.channel})"
    return text + (f" (with limits: {best.warnings[0]})" if best.warnings else "")
