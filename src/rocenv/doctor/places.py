"""Paths of a machine without the names that its people gave to folders: `/p1/rocm/lib`.

A name that is no part of a system or of a known program has a word of its own instead, the same in the whole
pack, so that one path still lies in another.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rocenv.system.machine import Answers

# What a check looks for in a list of folders.
MATTERS = re.compile(r"rocm|hip|zluda|amd|cuda|nvidia|rocenv", re.IGNORECASE)
# What is the same on every machine, and asked for by its name.
SYSTEM = re.compile(
    r"/(?:sys|proc|dev|etc|lib|lib64|boot|windows|wsl)(?:/|$)|/usr(?!/local)(?:/|$)|/var/(?:lib|log|cache)/|/run/(?!media/)"
    r"|/\.[^/]*$|[A-Za-z]:[\/]+Windows(?:[\/]|$)",
    re.IGNORECASE,
)
_NAMES = """
    bin sbin lib lib64 lib32 libexec include share local opt usr var tmp home root mnt media srv data run dev
    proc sys etc cache config state log x86_64-linux-gnu venv env envs site-packages dist-packages scripts
    store own db kernels miopen torch torchinductor triton hip rocm amd amdgpu zluda cuda nvidia rocenv
    rocenv-home comfyui comfyui-zluda sdnext stable-diffusion-webui stable-diffusion-webui-forge
    stable-diffusion-webui-amdgpu automatic blender ollama models llvm hub core core-lib runtime windows
    system32 syswow64 program programs files users user other public appdata roaming locallow temp desktop
    documents downloads onedrive python drivers gpu extra kernel updates dkms prefix huggingface
    volumes
"""
_KNOWN = frozenset(_NAMES.split()) | {"program files", "program files (x86)", "documents and settings"}
# A known name with a release behind it, a file of a library, a drive, a number.
_PLAIN = re.compile(
    r"(rocm|hip|zluda|cuda|python|amdgpu|gfx|lib|miopen|torch)?[-_]?v?[0-9]+([._-][0-9]+)*"
    r"|[a-z]:|~|\.{1,2}|lib(amd|hip|roc|hsa|miopen|cu|nv|drm)\w*\.so[.0-9]*|gfx[0-9a-f]+|renderd[0-9]+",
    re.IGNORECASE,
)
_TOLD_BY = re.compile(r"rocm|amdgpu|zluda|onedrive", re.IGNORECASE)  # stays in front of what stands instead
_PEOPLE = frozenset({"home", "users", "media", "volumes", "documents and settings", "(home)"})
_LISTS = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "PYTHONPATH")
_LONG = 5  # from so many letters on, a name of a folder is hidden outside of paths too


class Places:
    """Hides the names of folders."""

    def __init__(self, paths: Iterable[str], names: Collection[str], fixed: Collection[str]) -> None:
        """Make it.

        Args:
            paths: All that the pack will have.
            names: Of people and machines, which are hidden otherwise.
            fixed: Words that must stay, in small letters.
        """
        divided = {path: [part for part in re.split(r"[/\\]+", path) if part] for path in sorted(set(paths))}
        kept = {name.casefold() for name in (*names, *fixed)}
        kept |= {part.casefold() for path, parts in divided.items() if SYSTEM.match(path) for part in parts}
        self._instead: dict[str, str] = {}
        spelled: set[str] = set()
        for path, parts in divided.items():
            pairs = () if SYSTEM.match(path) else zip(["", *parts], parts, strict=False)
            for before, part in pairs:
                key = part.casefold()
                if before.casefold() not in _PEOPLE and key not in kept and not _is_known(part):
                    self._instead.setdefault(key, _word(part, len(set(self._instead.values())) + 1))
                    forms = (part, key, *(unicodedata.normalize(form, part) for form in ("NFC", "NFD")))
                    self._instead |= dict.fromkeys((form.casefold() for form in forms), self._instead[key])
                    spelled.update(forms)
        every = sorted(spelled, key=lambda form: (-len(form), form))
        inside = "|".join(map(re.escape, every))
        alone = "|".join(re.escape(each) for each in every if len(each) >= _LONG)
        patterns = [rf"(?<=[/\\])(?:{inside})(?=[/\\\s\"',;:)\]<>|*]|$)"] if inside else []
        patterns += [rf"(?<!\w)(?:{alone})(?!\w)"] if alone else []
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None

    def text(self, text: str) -> str:
        """Return a text with other names in its paths."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: self._instead.get(found[0].casefold(), found[0]), text)


def _is_known(part: str) -> bool:
    return len(part) < 2 or part.casefold().lstrip(".") in _KNOWN or _PLAIN.fullmatch(part) is not None


def _word(part: str, number: int) -> str:
    told_by = _TOLD_BY.search(part)
    return f"{told_by[0].lower()}-p{number}" if told_by else f"p{number}"


def needed_variables(answers: Answers, home: str, libraries: re.Pattern[str]) -> dict[str, str]:
    """Return the variables of a machine, of lists of folders only those that checks look into.

    Args:
        answers: Of the machine.
        home: Where rocenv's own things lie.
        libraries: Names of files by which a folder matters, whatever it is called.
    """
    found = {}
    for name, value in sorted(answers.variables.items()):
        if name.upper() in _LISTS:
            between = ";" if answers.windows else ":"
            kept = [each for each in value.split(between) if _matters(each, answers, home, libraries)]
            value = between.join(kept)
        found[name] = value
    return found


def needed_rows(answers: Answers, path: str, row: Mapping[str, object]) -> dict[str, object]:
    """Return the rows of a copy that checks look into: of folders those that hold something, or should."""
    if not path.endswith("/folders.json"):
        return dict(row)
    named = "\n".join(value for name, value in answers.variables.items() if name.upper() != "PATH").casefold()
    return {
        folder: names
        for folder, names in row.items()
        if names or MATTERS.search(folder) or re.sub(r"[\\/]+bin[\\/]*$", "", folder.casefold()) in named
    }


def _matters(entry: str, answers: Answers, home: str, libraries: re.Pattern[str]) -> bool:
    folder = entry.strip().strip('"')
    if not folder:
        return False
    if MATTERS.search(folder) or folder.startswith(home):
        return True
    names = answers.folder(folder)[0] if not answers.windows else ()
    rows = answers.rows.get("/windows/folders.json", {})
    return any(map(libraries.search, names)) or bool(rows.get(folder))
