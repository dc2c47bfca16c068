"""Making a start fit this version of the app, this GPU and its free memory, before the checks look at it."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocenv.launch.ask import program_words
from rocenv.launch.blas import CODE, blas_state, remedies, ways_round
from rocenv.launch.devices import list_devices
from rocenv.launch.flags import SEVERAL, Choice, Situation, choose_flags, options_of, with_added
from rocenv.launch.layers import Packed, Room, model_path, packed_in, program_file, room_for
from rocenv.launch.options import Given, Options
from rocenv.launch.view import Concern
from rocenv.system.command_lines import as_typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocenv.launch.devices import Device, Devices
    from rocenv.launch.flags import Added
    from rocenv.launch.start import Start
    from rocenv.launch.view import View
    from rocenv.matrix.apps import Flag, Launcher

_ALL = "999"  # layers: more than any model has
_VARIABLE = re.compile(r"\$([A-Z_]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the program, its file and the user say."""

    view: View
    users: Given  # what the user has given
    all: Given  # and before that what the program's own file has for it
    packed: Packed
    devices: tuple[Device, ...]  # that are to be used


def fit_start(view: View) -> View:
    """Return a view whose start has the arguments that hold the app to the env's GPU.

    The program is asked for its arguments and for its GPUs, which may take seconds.

    Raises:
        CommandNotFound: There is no such program.
        CommandNotExecutable: It is no program.
    """
    start, launcher = view.start, view.start.launcher
    program = program_words(start)
    users = start.words[len(program) :]
    if not program or not (launcher.help or launcher.devices) or set(users) & set(launcher.only_tells):
        return view
    options = options_of(start) if launcher.help else Options(problem="it has no help")
    given = Given(words=users, environ=start.environ, options=options)
    if wish := _wants_cpu(launcher, given):
        return _telling(view, f"`{wish}` asks for the CPU, so nothing is added for the GPU")
    devices = _listed(start, options)
    if devices is not None and (other := _other_device(launcher, given, devices)):
        return _telling(
            view, f"`{other}` is none of HIP's GPUs, so the env is not used for it: nothing is added"
        )
    view = replace(view, devices=devices)
    if devices is not None and not devices.problem and not devices.found:
        return view  # which a check tells: it is not started
    file = program_file(program, start.environ.get("PATH", ""))
    packed = packed_in(file, launcher.carried) if file and launcher.carried else Packed()
    used = devices.for_lock(start.record.lock, view.host) if devices else ()
    asked = _Asked(
        view=view,
        users=given,
        all=replace(given, words=(*packed.arguments, *users)),
        packed=packed,
        devices=used,
    )
    return _fitted(asked, "works" if not launcher.flags else blas_state(view, file))


def _fitted(asked: _Asked, blas: str) -> View:
    view, launcher = asked.view, asked.view.start.launcher
    room = room_for(view, asked.all, asked.devices, asked.packed)
    conditions = _conditions(asked, room, blas)
    places = _places(asked, room)
    choice = choose_flags(launcher, Situation(given=asked.users, conditions=conditions, places=places))
    start, told = _with_own_arguments(view.start, asked.packed, choice)
    start = with_added(start, choice.added)
    concerns = [*_about_version(asked, choice), *_about_blas(view, choice, blas)]
    if room.layers == 0 and any(each.flag.words[1:] == ("{layers}",) for each in choice.added):
        concerns.append(_no_room(asked, room))
    told = (*told, *(each.told for each in choice.added))
    return replace(_telling(replace(view, start=start), *told), concerns=tuple(concerns))


def _telling(view: View, *told: str) -> View:
    return replace(view, start=replace(view.start, notes=(*view.start.notes, *told)))


def _with_own_arguments(start: Start, packed: Packed, choice: Choice) -> tuple[Start, tuple[str, ...]]:
    """Return a start with the arguments that its file has for itself, where others would replace them."""
    if not packed.is_replaced or not choice.added or start.words != program_words(start):
        return start, ()
    told = f"given as in the file itself, since it takes others in their place: {as_typed(*packed.arguments)}"
    return replace(start, words=(*start.words, *packed.arguments)), (told,)


def _wants_cpu(launcher: Launcher, given: Given) -> str:
    return next((phrase for phrase in launcher.cpu if given.says(phrase)), "")


def _other_device(launcher: Launcher, given: Given, devices: Devices) -> str:
    """Return the device of another kind that a user has named; "" where it is none."""
    flag = next((flag for flag in launcher.flags if "{device}" in flag.words), None)
    named = (given.value(flag.words[0]) if flag else "") or ""
    return named if named and any(line.startswith(f"{named}:") for line in devices.others) else ""


def _listed(start: Start, options: Options) -> Devices | None:
    """Return the GPUs that the program lists; None where this version has no way to list them."""
    asked = start.launcher.devices
    if asked is None or (not options.problem and asked.arguments[0] not in options):
        return None
    return list_devices(start)


def _conditions(asked: _Asked, room: Room, blas: str) -> dict[str, bool]:
    launcher, options, given = asked.view.start.launcher, asked.users.options, asked.users
    # Of an APU only the machine's free memory is seen there, and not what the GPU may use.
    # Source: ggml-org/llama.cpp#26932
    by_hand = room.integrated and room.layers is not None
    fits = bool(launcher.fit) and launcher.fit in options and not by_hand
    has_model = any(asked.all.has(name) for name in (*launcher.model, *launcher.fetched))
    found = {
        "fits-itself": fits and not any(given.says(phrase) for phrase in launcher.fit_off),
        "layers-known": room.layers is not None,
        "model-given": has_model or asked.packed.path is not None,
    }
    if blas != "unknown":
        found |= {"blas-works": blas == "works", "blas-fails": blas == "fails"}
    return found


def _places(asked: _Asked, room: Room) -> dict[str, str]:
    places = {
        "{target}": asked.view.start.record.lock.target,
        "{layers}": _ALL if room.layers is None else str(room.layers),
        "{room}": room.why if room.layers is not None else f"all of them, since {room.why}",
    }
    if asked.devices:
        places["{device}"] = SEVERAL.join(each.name for each in asked.devices)
    if room.margin_mib is not None:
        places["{margin_mib}"] = str(room.margin_mib)
    return places


def _about_version(asked: _Asked, choice: Choice) -> Iterator[Concern]:
    options, title = asked.users.options, asked.view.start.launcher.title
    if options.problem:
        yield Concern(
            code="help-unread",
            severity="warning",
            text=f"which arguments this {title} has is not known, so nothing was added that would keep it "
            f"from going on with the CPU: asked for its help, {options.problem}",
            remedy="see what it says: "
            + " ".join((*program_words(asked.view.start), *asked.view.start.launcher.help)),
        )
    for flag in choice.lacking:
        if flag.required:
            yield Concern(
                code="flag-lacking",
                severity="error",
                text=f"this version of {title} has no `{flag.words[0]}`, so nothing would keep it from "
                "going on with the CPU without a word",
                remedy="take a version that has it, or start it as any program: "
                f"`rocenv launch {asked.view.env} --app generic`",
            )
    for word, instead in dict(choice.unknown).items():
        yield Concern(
            code="argument-unknown",
            severity="warning",
            text=f"this version of {title} has no `{word}`",
            remedy=f"it is `{instead}` there" if instead else f"leave `{word}` out",
        )


def _about_blas(view: View, choice: Choice, blas: str) -> Iterator[Concern]:
    title, target = view.start.launcher.title, view.start.record.lock.target
    # An app whose profile has nothing about BLAS, such as a renderer, does not use it.
    if blas != "fails" or all(row.code != CODE for row in view.start.launcher.fallbacks):
        return
    means = [flag for flag in view.start.launcher.flags if "blas-fails" in flag.when]
    made = [each for each in choice.added if each.flag in means]
    if not made and not _given_already(view, means):
        yield Concern(
            code=CODE,
            severity="warning",
            text=f"the env's rocBLAS does not work for {target}, and this {title} has no way round it: "
            "it may end at its first large product",
            remedy="; or ".join([*remedies(view), *ways_round(view)]) or f"rocenv resolve --target {target}",
        )
    for each in made:
        yield from _without_tools(view, each)


def _given_already(view: View, flags: list[Flag]) -> bool:
    return any(flag.words[0] in view.start.words for flag in flags)


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


def _no_room(asked: _Asked, room: Room) -> Concern:
    """Return the error where no layer fits: with none on the GPU, the CPU would do the work."""
    path = model_path(asked.view, asked.all, asked.packed)
    model = as_typed("--model", str(path)) if path else ""
    return Concern(
        code="no-room",
        severity="error",
        text=f"no layer of the model fits the GPU, so the CPU would do all of the work: {room.why}",
        remedy=f"see what it takes: `{f'rocenv mem {model}'.strip()}`; "
        "give the number of layers yourself to try all the same",
    )
