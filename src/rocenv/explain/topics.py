"""Explain incidents, exit codes, variables and topics."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rocenv.core.variables import OVERRIDE
from rocenv.core.versions import lowest, newest_first
from rocenv.explain import rows
from rocenv.explain.page import Explanation, Line, Step, sections
from rocenv.explain.parts import release_names, torch_names, zluda_names
from rocenv.explain.phrases import OUTCOMES, in_order, listed, target_key
from rocenv.explain.selection import Filters, select
from rocenv.explain.sets import sets_for, step
from rocenv.system.exit_codes import describe_exit, is_known_exit, meaning_of_exit, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rocenv.data.apps import AppBuild, Launcher
    from rocenv.data.knowledge import EnvRow, Incident, Variable, Verdict
    from rocenv.data.rows import Matrix


_ALIASES = {
    "pytorch": "torch",
    "packs": "pack",
    "hip sdk": "hip-sdk",
    "libraries": "pack",
    "wsl2": "wsl",
    "wsl 2": "wsl",
    "llama": "llama.cpp",
    "llamacpp": "llama.cpp",
    "llm": "llama.cpp",
    "vulkan": "llama.cpp",
}
# Topic -> its title, the table of its rows, and the names of its versions.
_SUBJECTS: Mapping[str, tuple[str, str, Callable[[Matrix], list[str]] | None]] = {
    "torch": ("PyTorch wheels", "torch", torch_names),
    "zluda": ("ZLUDA: CUDA programs on AMD GPUs, on Windows", "zluda", zluda_names),
    "rocm": ("ROCm releases", "rocm", release_names),
    "hip-sdk": ("HIP SDK: AMD's ROCm for Windows", "hip_sdk", None),
    "pack": ("Library packs: third-party kernels for GPUs without kernels in a HIP SDK", "pack", None),
    "wsl": ("WSL 2: ROCm in Linux on Windows", "wsl", None),
    "override": (f"{OVERRIDE}: running as another GPU", "override", None),
    "gpu-names": ("GPU names and their targets", "", None),
    "repository": ("AMD's package repositories", "", None),
    "shim": ("ZLUDA files in PyTorch", "", None),
    "therock": ("AMD's Python wheels, built by its TheRock project", "", None),
    "torch-setting": ("PyTorch settings under ZLUDA", "", None),
    "ollama": ("Ollama on AMD GPUs", "", None),
}
_WSL_STEPS = (
    Step(
        command="rocenv create --torch",
        gives='create an env for your GPU; if Windows does not report it, add `--target "RX 9070 XT"`',
    ),
    Step(command="rocenv gpus", gives="list the GPUs and the display driver that Windows reports"),
    Step(command="rocenv doctor", gives="check this machine for missing requirements"),
    Step(command="wsl.exe --update", gives="update WSL; restart it with `wsl.exe --shutdown`"),
)
_SIDES = {"rocm": "ROCm", "zluda": "ZLUDA", "rocenv": "rocenv"}
_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_SERIES = "{series}"  # placeholder in variable names: HIP_PATH_{series} matches HIP_PATH_57
_SET_BY_ROCENV = "set only in envs whose set has no kernels for the GPU, if a value below works with that set"


# --------------------------------------------------------------------------------- incidents, exit codes


def code_names(matrix: Matrix) -> list[str]:
    """List the codes of verdicts and incidents."""
    return sorted({row.code for row in matrix.verdict if row.code} | {row.code for row in matrix.incident})


def code_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the code that a query matches, such as `sdnext#3414`, 0xc0000005, 3221225477 or -1073741819."""
    code = re.sub(r"[#\s_]+", "-", thing)
    if re.fullmatch(r"0x[0-9a-f]{8}|-?[0-9]{8,10}", code):
        number = unsigned(int(code, 16 if code.startswith("0x") else 10))
        name = f"0x{number:08X}"
        is_reported = any(name in f"{row.text} {row.facts}" for row in matrix.incident)
        return [name] if is_known_exit(number) or is_reported else []
    return [code] if code in code_names(matrix) else []


def explain_code(name: str, matrix: Matrix) -> Explanation:
    """Explain an incident or a verdict: what happened, where, and what to do."""
    if name.startswith("0x"):
        return _explain_exit_code(name, matrix)
    incidents = [row for row in matrix.incident if row.code == name]
    verdicts = [row for row in matrix.verdict if row.code == name]
    root = next((code for code in code_names(matrix) if name.startswith(f"{code}-")), name)
    related = [row for row in matrix.incident if row.code != name and row.code.startswith(root)]
    title = incidents[0].title if incidents else f"a combination that {OUTCOMES[verdicts[0].verdict]}"
    return Explanation(
        thing=name,
        kind="code",
        title=f"{name}: {title}",
        answer=tuple(_code_answer(incidents, verdicts)),
        sections=sections(
            ("What rocenv does", [Line(text=_consequence(row), rows=(row,)) for row in verdicts]),
            ("Related", [_pointer(row) for row in related]),
            (
                "What was reported",
                [
                    Line(label=label, text=text, rows=(row,))
                    for row in incidents
                    for label, text in row.facts.items()
                ],
            ),
        ),
        steps=tuple(_ways_out(verdicts, matrix)),
        steps_title="A set that avoids this",
    )


def _code_answer(incidents: list[Incident], verdicts: list[Verdict]) -> Iterator[Line]:
    for incident in incidents:
        yield Line(text=incident.text, rows=(incident,))
    for row in verdicts:
        if not incidents:
            yield Line(label=OUTCOMES[row.verdict], text=rows.combination(row), rows=(row,))
        elif row.remedy:
            yield Line(label="remedy", text=row.remedy, rows=(row,))


def _consequence(row: Verdict) -> str:
    if row.verdict == "broken" and not row.only_if:
        return f"never combines {rows.combined(row)}"
    case = f" if {row.only_if}" if row.only_if else ""
    return f"allows sets with {rows.combined(row)}, but adds a note{case}"


def _pointer(row: Incident) -> Line:
    return Line(text=f"{row.title}: {row.text} (`rocenv explain {row.code}`)", rows=(row,))


def _ways_out(verdicts: list[Verdict], matrix: Matrix) -> Iterator[Step]:
    for row in verdicts:
        for target in in_order(row.targets)[:1]:
            zluda = "*" if row.platform == "windows" and not row.on_wheels else ""
            found = sets_for(matrix, target, row.platform, zluda=zluda)
            if found.best is not None:
                yield step(found, matrix, f"{row.platform.capitalize()}, {target}")


def _explain_exit_code(name: str, matrix: Matrix) -> Explanation:
    """Explain a Windows exit code, with related incidents and combinations."""
    meaning = meaning_of_exit(int(name, 16))
    incidents = [row for row in matrix.incident if name in f"{row.text} {row.facts}"]
    verdicts = [row for row in matrix.verdict if name in row.what and row.code]
    return Explanation(
        thing=name,
        kind="code",
        title=describe_exit(int(name, 16)),
        answer=(Line(text=f"The program ended because {meaning}" if meaning else "A Windows exit code"),),
        sections=sections(
            ("Known cases", [*map(_pointer, incidents), *rows.lines("verdict", verdicts)]),
        ),
        steps=(
            Step(
                command="rocenv help launch",
                gives="how to start the program in an env and diagnose a crash",
            ),
            Step(command="rocenv help diagnose", gives="how to find the cause in a log"),
        ),
    )


# -------------------------------------------------------------------------------------------- variables


def variable_names(matrix: Matrix) -> list[str]:
    """List the environment variables; a row can cover several."""
    found = [name for row in matrix.variable for name in _NAME.findall(row.name)]
    found += [row.change.name for row in matrix.environment] + [row.name for row in matrix.watched]
    return sorted({name for name in found if _SERIES not in name})


def variable_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the variable that a query matches; it may be written as `$NAME` or `NAME=value`."""
    name = re.sub(r"=(?!=).*", "", thing.removeprefix("$"), count=1).upper()
    return [name] if name in variable_names(matrix) else []


def explain_variable(name: str, matrix: Matrix) -> Explanation:
    """Explain an environment variable and how rocenv uses it."""
    known = [row for row in matrix.variable if name in _NAME.findall(row.name)]
    changes = [row for row in matrix.environment if _sets(row, name)]
    watched = [row for row in matrix.watched if row.name == name]
    facts = [row for row in matrix.fact if name == OVERRIDE and row.about == "override"]
    does = [
        Line(
            label=f"{row.change.action}, {row.when}",
            text=f"{row.change.value or 'nothing'}: {row.reason}",
            rows=(row,),
        )
        for row in changes
    ]
    does += [Line(label="set", text=_SET_BY_ROCENV)] if name == OVERRIDE else []
    does += [Line(label="reported if set", text=row.reason, rows=(row,)) for row in watched]
    overrides = [
        Line(label=row.target, text=rows.override_use(row), rows=(row,))
        for row in sorted(matrix.override, key=lambda row: (target_key(row.target), row.value))
    ]
    return Explanation(
        thing=name,
        kind="variable",
        title=name,
        answer=tuple(Line(label=_SIDES[row.by], text=row.meaning, rows=(row,)) for row in known)
        or tuple(Line(text=line.text, rows=line.rows) for line in does),
        sections=sections(
            ("Values", [line for row in known for line in _values(row)]),
            ("What rocenv does with it", does),
            ("By target", overrides if name == OVERRIDE else []),
            ("Good to know", rows.lines("fact", sorted(facts, key=lambda row: (row.key, row.text)))),
        ),
    )


def _sets(row: EnvRow, name: str) -> bool:
    pattern = re.escape(row.change.name).replace(re.escape(_SERIES), "[0-9]+")
    return re.fullmatch(pattern, name) is not None


def _values(row: Variable) -> Iterator[Line]:
    texts = {
        "value": row.value,
        "set by": row.set_by,
        "note": "its files break on network shares and in read-only home directories" if row.fragile else "",
    }
    yield from (Line(label=label, text=text, rows=(row,)) for label, text in texts.items() if text)


# --------------------------------------------------------------------------------------------- subjects


def subject_names(matrix: Matrix) -> list[str]:
    """List the topics: kinds of parts, apps, and the subjects of facts."""
    return sorted({*_SUBJECTS, *_apps(matrix), *(row.about for row in matrix.fact)})


def subject_meant(thing: str, matrix: Matrix) -> list[str]:
    """Find the topic that a query matches; apps also match by title."""
    titles = {row.title.casefold(): key for key, row in _apps(matrix).items()}
    name = _ALIASES.get(thing, titles.get(thing, thing))
    return [name] if name in subject_names(matrix) else []


def _apps(matrix: Matrix) -> dict[str, Launcher]:
    return {row.key: row for row in matrix.launcher if row.programs or row.signs}


def _steps(app: Launcher, builds: Iterable[AppBuild]) -> tuple[Step, ...]:
    vulkan = [
        Step(
            command=each.command,
            gives=each.gives,
            label=f"{build.platform.capitalize()}, Vulkan",
            vulkan_on=build.platform,
        )
        for build in builds
        for each in build.steps
    ]
    label = "ROCm" if vulkan else ""
    return (*vulkan, *(replace(step, label=label) for step in _app_steps(app)))


def _app_steps(app: Launcher) -> Iterator[Step]:
    gives = f"create an env with what {app.title} needs on this GPU"
    yield Step(command=f"rocenv create --app {app.key}", gives=gives)
    if app.repository:
        yield Step(
            command=f"git clone {app.repository}", gives=f"download {app.title}, unless you already have it"
        )
    program = next(iter(app.entries), "")
    if app.command or program:
        words = "" if app.command else f" -- {program}"
        gives = "start it in its folder, with the env's GPU libraries" if app.command else "start it"
        yield Step(command=f"rocenv launch {app.key}{words}", gives=gives)


def explain_subject(name: str, matrix: Matrix) -> Explanation:
    """Explain a topic: its newest rows and its facts, plus how to get and start it if it is an app."""
    # Facts without a key come first; after a fact with a key, they would seem to belong to it.
    facts = sorted((row for row in matrix.fact if row.about == name), key=lambda row: (row.key, row.text))
    app = _apps(matrix).get(name)
    known = (f"{app.title} on AMD GPUs" if app else f"{name}: a rocenv term", "", None)
    title, table, names = _SUBJECTS.get(name, known)
    builds = [row for row in matrix.app_build if row.app == name]
    builds.sort(key=lambda row: (bool(row.targets), row.platform))
    answer = rows.lines("app_build", (row for row in builds if not row.targets))
    if name == "wsl":
        general = [row for row in facts if row.key in ("", "GPUs")]
        answer, facts = rows.lines("fact", general), [row for row in facts if row not in general]
    newest: Sequence[Any] = select(matrix, Filters()).get(table, [])
    if name == "wsl":
        newest = sorted(matrix.wsl, key=lambda row: newest_first(lowest(row.rocm) or "0"))
    releases = [Line(label="releases", text=listed(names(matrix)))] if names else []
    heading = "Requirements by release" if name == "wsl" else "Available versions"
    return Explanation(
        thing=name,
        kind="topic",
        title=title,
        answer=tuple(answer),
        sections=sections(
            (heading, [*rows.lines(table, newest), *releases]),
            ("Good to know", rows.lines("fact", facts)),
            ("Builds with ROCm", rows.lines("app_build", (row for row in builds if row.targets))),
        ),
        steps=_WSL_STEPS if name == "wsl" else _steps(app, builds) if app else (),
    )
