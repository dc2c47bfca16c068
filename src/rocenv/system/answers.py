"""What a machine answered when it was asked: kept while it is recorded, given in its place later."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

Plain = str | int | bool | None  # what a try may end in


@dataclass(slots=True)
class Answers:
    """The answers of one machine, by what was asked; a number is an errno, 0 = none."""

    windows: bool = False  # it is a Windows machine
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    folders: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)  # going by the mode alone
    real: dict[str, str] = field(default_factory=dict)  # paths without the links in them
    tried: dict[tuple[str, str], Plain] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, object]] = field(default_factory=dict)  # of copies that are JSON objects

    def keep_file(self, path: str, text: str, error: int) -> None:
        """Keep what reading a file gave; of two reads that of more."""
        path = plain_path(path)
        if len(text) >= len(self.files.get(path, ("", 0))[0]):
            self.files[path] = (text, error)

    def keep_folder(self, path: str, names: tuple[str, ...], error: int) -> None:
        """Keep what listing a folder gave."""
        self.folders[plain_path(path)] = (names, error)

    def file(self, path: str) -> tuple[str, int]:
        """Return the text of a file, or the errno that kept it from being read."""
        return self.files.get(plain_path(path), ("", errno.ENOENT))

    def folder(self, path: str) -> tuple[tuple[str, ...], int]:
        """Return the names in a folder, or the errno that kept it from being listed."""
        return self.folders.get(plain_path(path), ((), errno.ENOENT))


class Variables(Mapping[str, str]):
    """The variables of a machine's environment, each look at one told to whoever records it.

    Going through all of them shows only those that have to do with GPUs, or a recording would hold everything
    that a person has in their environment.
    """

    def __init__(
        self,
        values: Mapping[str, str],
        *,
        windows: bool = False,
        seen: Callable[[str, str], None] = lambda _name, _value: None,
        shown: Callable[[str], bool] = lambda _name: True,
    ) -> None:
        """Make it.

        Args:
            values: All variables.
            windows: Case does not count in their names.
            seen: Told of name and value of each that was looked at.
            shown: Tells which are there for somebody who goes through all.
        """
        self._values = {name.upper() if windows else name: value for name, value in values.items()}
        self._windows, self._seen, self._shown = windows, seen, shown

    def __getitem__(self, name: str) -> str:
        key = name.upper() if self._windows else name
        value = self._values[key]
        self._seen(key, value)
        return value

    def __iter__(self) -> Iterator[str]:
        return filter(self._shown, self._values)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def plain_path(path: str) -> str:
    """Return the one spelling under which an absolute path is kept."""
    return path if "\\" in path else posixpath.normpath("/" + path.lstrip("/"))
