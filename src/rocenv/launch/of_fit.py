"""What is told of a start that was made to fit: what it lacks, and what could not be made to fit."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from rocenv.launch.ask import is_script, program_words
from rocenv.launch.blas import remedies, ways_round
from rocenv.launch.layers import model_path
from rocenv.launch.recognition import GENERIC, name_of, program_at
from rocenv.launch.view import Concern
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.data.apps import Flag
    from rocenv.launch.flags import Added, Choice
    from rocenv.launch.layers import Packed, Room
    from rocenv.launch.options import Given, Options
    from rocenv.launch.view import View

_VARIABLE = re.compile(r"\$([A-Z_]+)")


def not_held(view: View, options: Options | None = None) -> Concern:
    """Return the warning where what is started is not known to take the app's arguments.

    Args:
        view: The start.
        options: What its help lists; None = it was not asked.
    """
    start, launcher = view.start, view.start.launcher
    name = name_of((program_words(start) or (start.program,))[-1])
    wanted = next((flag.words[0] for flag in launcher.flags if flag.required), launcher.flags[0].words[0])
    why = f"is not known as a program of {launcher.title}"
    own = f"name {launcher.title}'s own program in the command"
    is_seen = program_at(start.words, launcher.starters) < len(start.words)
    remedy = own
    if is_seen and not start.is_named:
        remedy += f"; if `{name}` is one, say so: `{_launched(view, launcher.key)}`"
    if options is not None:
        why += (
            f", and asked for its help, {options.problem}"
            if options.problem
            else f", and its help has no `{wanted}`"
        )
    elif is_script(start):
        why, remedy = "is a script, which is not asked for what it knows", own
    return Concern(
        code="not-held",
        severity="warning",
        text=f"`{name}` {why}: nothing was added that would hold it to the GPU, "
        "and nothing is checked or proved",
        remedy=remedy,
    )


def about_version(view: View, options: Options, choice: Choice) -> Iterator[Concern]:
    """Yield what this version of an app does not know, or does not tell."""
    title = view.start.launcher.title
    if options.problem:
        yield _help_unread(view, options)
    for flag in choice.lacking:
        if flag.required:
            yield Concern(
                code="flag-lacking",
                severity="error",
                text=f"this version of {title} has no `{flag.words[0]}`, so nothing would keep it from "
                "going on with the CPU without a word",
                remedy="take a version that has it, or start it as any program: "
                f"`{_launched(view, GENERIC)}`",
            )
    for flag in choice.unfilled:
        if flag.required:
            yield _unfilled(view, flag)
    for word, instead in dict(choice.unknown).items():
        yield Concern(
            code="argument-unknown",
            severity="warning",
            text=f"this version of {title} has no `{word}`",
            remedy=f"it is `{instead}` there" if instead else f"leave `{word}` out",
        )


def _help_unread(view: View, options: Options) -> Concern:
    start = view.start
    asked = (*program_words(start), *start.launcher.help)
    return Concern(
        code="help-unread",
        severity="warning",
        text=f"which arguments this {start.launcher.title} has is not known, so nothing was added that would "
        f"keep it from going on with the CPU: asked for its help, {options.problem}",
        remedy=f"see what it says: `{shell_join('rocenv', 'run', start.prefix.name, '--', *asked)}`",
    )


def _unfilled(view: View, flag: Flag) -> Concern:
    title, name = view.start.launcher.title, flag.words[0]
    found, target = view.devices.found if view.devices else (), view.start.record.lock.target
    why = f"{title} did not list its GPUs"
    if found:
        listed = ", ".join(each.line for each in found)
        why = f"nothing tells which GPU is the {target} of those that {title} lists: {listed}"
    return Concern(
        code="flag-unknown-value",
        severity="error",
        text=f"what `{name}` has to name is not known, since {why}; without it nothing would keep it from "
        "going on with the CPU without a word",
        remedy=f"`rocenv verify {view.env} --app {view.start.launcher.key}` tells more; or give `{name}` "
        f"yourself, or start it as any program: `{_launched(view, GENERIC)}`",
    )


def _launched(view: View, app: str) -> str:
    start = view.start
    both = zip(start.words, start.shown_words, strict=True)
    typed = [shown for word, shown in both if word not in start.added]
    return shell_join("rocenv", "launch", start.prefix.name, "--app", app, "--", *typed)


def about_blas(view: View, choice: Choice, blas: str) -> Iterator[Concern]:
    """Yield what is to be said where the env's BLAS does not work for its target."""
    launcher, target = view.start.launcher, view.start.record.lock.target
    if blas != "fails" or launcher.math_library is None:
        return
    means = [flag for flag in launcher.flags if "blas-fails" in flag.when]
    made = [each for each in choice.added if each.flag in means]
    if not made and not any(flag.words[0] in view.start.words for flag in means):
        yield Concern(
            code=launcher.math_library.code,
            severity="warning",
            text=f"the env's rocBLAS does not work for {target}, and this {launcher.title} has no way round "
            "it: it may end at its first large product",
            remedy="; or ".join([*remedies(view), *ways_round(view)]) or f"rocenv resolve --target {target}",
        )
    for each in made:
        yield from _without_tools(view, each)


def _without_tools(view: View, added: Added) -> Iterator[Concern]:
    environ, starts = view.start.environ, added.flag.starts
    places = [_VARIABLE.sub(lambda found: environ.get(found[1], ""), name) for name in starts]
    if starts and not any(shutil.which(name, path=environ.get("PATH", "")) for name in places):
        yield Concern(
            code="tool-missing",
            severity="warning",
            text=f"`{added.words[0]}` starts `{starts[0]}`, which is not there: looked for "
            + ", ".join(f"`{name}`" for name in starts),
            remedy="; or ".join(["put a HIP compiler on PATH", *remedies(view)]),
        )


def about_room(view: View, room: Room, choice: Choice, given: Given, packed: Packed) -> Iterator[Concern]:
    """Yield the error where no layer fits: with none on the GPU, the CPU would do the work."""
    if room.layers != 0 or not any(each.flag.words[1:] == ("{layers}",) for each in choice.added):
        return
    path = model_path(view, given, packed)
    look = shell_join("rocenv", "mem", *(("--model", str(path)) if path else ()))
    yield Concern(
        code="no-room",
        severity="error",
        text=f"no layer of the model fits the GPU, so the CPU would do all of the work: {room.why}",
        remedy=f"see what it takes: `{look}`; give the number of layers yourself to try all the same",
    )
