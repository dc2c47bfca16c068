"""Making a start fit this version of the app, this GPU and its free memory, before the checks look at it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rocenv.launch.ask import is_helper, is_program, program_file, program_words
from rocenv.launch.blas import blas_state
from rocenv.launch.devices import list_devices
from rocenv.launch.flags import SEVERAL, Situation, choose_flags, options_of, takes_them, with_added
from rocenv.launch.layers import Packed, packed_in, room_for
from rocenv.launch.options import Given, Options
from rocenv.system.quoting import shell_join

if TYPE_CHECKING:
    from rocenv.data.apps import Launcher
    from rocenv.launch.context import LaunchContext
    from rocenv.launch.devices import Device, Devices
    from rocenv.launch.flags import Choice
    from rocenv.launch.layers import Room
    from rocenv.launch.start import Start

_ALL = "999"  # layers: more than any model has
_BETWEEN = re.compile("[,/]")  # devices that are named in one argument


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the program, its file and the user say."""

    view: LaunchContext
    users: Given  # what the user has given
    all: Given  # and before that what the program's own file has for it
    packed: Packed
    devices: tuple[Device, ...]  # that are to be used


def fit_start(view: LaunchContext) -> LaunchContext:
    """Return a view whose start has the arguments that hold the app to the env's GPU.

    The program is asked for its arguments and for its GPUs, which may take seconds.

    Raises:
        CommandNotFound: There is no such program.
        CommandNotExecutable: It is no program.
    """
    launcher = view.start.launcher
    if not (launcher.help or launcher.devices) or is_helper(view.start.program, launcher):
        return view
    program = program_words(view.start)
    if not program:
        return _recording(view, is_unknown=True) if launcher.flags else view
    options = options_of(view.start) if launcher.help else Options(problem="it has no help")
    given = Given(
        words=view.start.words[len(program) :],
        environ=view.start.environ,
        options=options,
        behind=launcher.behind_dashes,
    )
    if any(given.has(name) for name in launcher.only_tells):
        return view
    if not is_program(program[-1], launcher):
        if not takes_them(launcher, options):
            return _recording(view, is_unknown=True, options=options)
        view = replace(view, start=replace(view.start, is_taken=True))
    if wish := next((phrase for phrase in launcher.cpu if given.says(phrase)), ""):
        return _telling(view, f"`{wish}` asks for the CPU, so nothing is added for the GPU")
    if wish := next((phrase for phrase in launcher.not_hip if given.says(phrase)), ""):
        return _telling(view, f"`{wish}` asks for no GPU of HIP's, so nothing is added for the env's")
    view = _recording(view, options=options, devices=_listed(view, options))
    view, used = _with_devices(view, given)
    return view if used is None else _fitted(view, given, used)


def _listed(view: LaunchContext, options: Options) -> Devices | None:
    """Return the GPUs that the program lists; None where this version has no way to list them."""
    asked = view.start.launcher.devices
    if asked is None or (not options.problem and asked.arguments[0] not in options):
        return None
    return list_devices(view.start, view.host, view.matrix)


def _with_devices(view: LaunchContext, given: Given) -> tuple[LaunchContext, tuple[Device, ...] | None]:
    """Return a view with what there is to tell of the GPUs, and those to be used.

    None in their place where nothing is to be added for any.
    """
    devices = view.devices
    if devices is None or (devices.problem and not devices.found):
        return view, ()
    names = _named(view.start.launcher, given)
    if not names:
        if not devices.found:
            return view, None if view.needs_gpu else ()  # a check reports it
        used = devices.for_lock(view.start.record.lock)
        if used is None:
            return view, ()  # where one has to be named, that none can be is told
        if used:
            return view, used
        return _recording(view, is_for_others=True), None if view.needs_gpu else ()
    named = devices.named(names)
    others = ", ".join(named.others)
    if others and not named.used and not named.unlisted:
        told = f"`{others}` is none of HIP's GPUs, so the env is not used for it: nothing is added"
        return _telling(_recording(view, devices=None), told), None
    if others:
        view = _telling(view, f"`{others}` is none of HIP's GPUs, so the env is not used for it")
    return _recording(view, named=named), named.used or None


def _named(launcher: Launcher, given: Given) -> tuple[str, ...]:
    """Return the devices that a user has named."""
    flag = next((flag for flag in launcher.flags if "{device}" in flag.words), None)
    name = next((name for name in (flag.words[0], *flag.spellings) if given.has(name)), "") if flag else ""
    return tuple(filter(None, map(str.strip, _BETWEEN.split(given.value(name) or "")))) if name else ()


def _fitted(view: LaunchContext, given: Given, used: tuple[Device, ...]) -> LaunchContext:
    launcher = view.start.launcher
    file = program_file(program_words(view.start), view.start.environ.get("PATH", ""))
    packed = packed_in(file, launcher.carried) if file and launcher.carried else Packed()
    packed = packed.beside(given.words)
    everything = replace(given, words=(*packed.arguments, *given.words))
    asked = _Asked(view=view, users=given, all=everything, packed=packed, devices=used)
    blas, room = blas_state(view, file), room_for(view, everything, used, packed)
    situation = Situation(given=given, conditions=_conditions(asked, room, blas), places=_places(asked, room))
    choice = choose_flags(launcher, situation)
    start, told = _with_own_arguments(view.start, packed, choice)
    start = with_added(start, choice.added)
    view = _recording(view, choice=choice, given=everything, packed=packed, room=room, blas=blas)
    told = (*told, *(each.told for each in choice.added))
    return _telling(replace(view, start=start), *told)


def _telling(view: LaunchContext, *told: str) -> LaunchContext:
    return replace(view, start=replace(view.start, notes=(*view.start.notes, *told)))


def _recording(view: LaunchContext, **facts: Any) -> LaunchContext:
    return replace(view, adaptation=replace(view.adaptation, **facts))


def _with_own_arguments(start: Start, packed: Packed, choice: Choice) -> tuple[Start, tuple[str, ...]]:
    """Return a start with the arguments that its file has for itself, where others would replace them."""
    if not packed.is_replaced or not choice.added or start.words != program_words(start):
        return start, ()
    told = (
        f"given as in the file itself, since it takes others in their place: {shell_join(*packed.arguments)}"
    )
    return replace(start, words=(*start.words, *packed.arguments)), (told,)


def _conditions(asked: _Asked, room: Room, blas: str) -> dict[str, bool]:
    launcher, options, given = asked.view.start.launcher, asked.users.options, asked.users
    by_hand = launcher.fit_misjudges_integrated and room.integrated and room.layers is not None
    fits = bool(launcher.fit) and launcher.fit in options and not by_hand
    has_model = any(asked.all.has(name) for name in (*launcher.model, *launcher.fetched))
    found = {
        "fits-itself": fits and not any(given.says(phrase) for phrase in launcher.fit_off),
        "model-given": has_model or (asked.packed.is_loaded and asked.packed.path is not None),
    }
    return found if blas == "unknown" else found | {"blas-fails": blas == "fails"}


def _places(asked: _Asked, room: Room) -> dict[str, str]:
    usual_mib = asked.view.start.launcher.fit_margin_mib
    places = {
        "target": asked.view.start.record.lock.target,
        "layers": _ALL if room.layers is None else str(room.layers),
        "room": room.why if room.layers is not None else f"all of them, since {room.why}",
    }
    if asked.devices:
        places["device"] = SEVERAL.join(each.name for each in asked.devices)
    if usual_mib and room.unseen_mib is not None:
        more = f", and {room.unseen_mib} MiB more that HIP calls free while others have it"
        places["margin_mib"] = str(usual_mib + room.unseen_mib)
        places["margin"] = f"{usual_mib} MiB" + (more if room.unseen_mib else "")
    return places
