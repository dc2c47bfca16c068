"""Ways to bury a log in noise, because real logs are long, come from several threads, or are re-encoded.

"Telling" noise is output from other programs that mentions versions and the system. "Quiet" noise adds no
facts, so it shows whether a result changed because of facts or only because of the log's length.
"""

from __future__ import annotations

import gzip
import random
import re
from typing import TYPE_CHECKING

from diagnose_score.noise import BAR, CHINESE, PLAIN, TELLING, interleaved, lines

if TYPE_CHECKING:
    from collections.abc import Callable

_GAP = 5  # the maximum number of lines between two log lines
TIMES = 10_000
_MAX_BYTES = 8_000_000  # of a repeated log
_WINDOWS = re.compile(
    r"\b[A-Za-z]:[\\/]|\.dll\b|\.exe\b|win_amd64|WinError|\bWindows[ -]1[01]|0x[Cc]0000[0-9A-Fa-f]{3}"
)


class Noise:
    """Generated noise, and the ways to bury a log in it."""

    def __init__(self, count: int, seed: int) -> None:
        self.quiet = lines(count, seed)
        self.telling = {system: lines(count, seed, telling=True, system=system) for system in TELLING}
        self.seed = seed

    def around(self, log: str) -> list[str]:
        """Return noise that matches a log's system."""
        return self.telling["windows" if _WINDOWS.search(log) else "linux"]

    def block(self, log: str) -> bytes:
        """Put a log in the middle of all the noise."""
        return _joined(self.around(log), _lines(log)).encode()

    def quietly(self, log: str) -> bytes:
        """Put a log in the middle of quiet noise."""
        return _joined(self.quiet, _lines(log)).encode()

    def scattered(self, log: str) -> bytes:
        """Mix the lines of a log with lines from other threads, and add some noise before and after them."""
        chance = random.Random(self.seed)
        rest = iter(self.around(log))
        mixed = [next(rest, "") for _ in range(200)]
        for line in _lines(log):
            mixed += [line, *(next(rest, "") for _ in range(chance.randint(0, _GAP)))]
        return "\n".join([*mixed, *(next(rest, "") for _ in range(200)), ""]).encode()

    def colored(self, log: str) -> bytes:
        """Add terminal colors to a log, and progress bars on the same lines."""
        chance = random.Random(self.seed)
        shown = [_in_colors(line, chance) for line in _lines(log)]
        return _joined(self.around(log)[:400], shown).encode()

    def repeated(self, log: str) -> bytes:
        """Repeat a log many times."""
        data = log.encode() + b"\n"
        return data * min(TIMES, _MAX_BYTES // len(data) + 1)

    def powershell(self, log: str) -> bytes:
        """Encode a log as PowerShell's `>` does."""
        return ("\ufeff" + _joined(self.around(log), _lines(log)).replace("\n", "\r\n")).encode("utf-16-le")

    def packed(self, log: str) -> bytes:
        """Compress a log with gzip."""
        return gzip.compress(self.block(log), compresslevel=1, mtime=0)

    def chinese(self, log: str) -> bytes:
        """Put a log between quiet lines in Chinese, in the encoding used by Chinese Windows."""
        noise = interleaved([CHINESE, *PLAIN.values()], 2000, random.Random(self.seed))
        return _joined(noise, _lines(log)).replace("\n", "\r\n").encode("cp936", "replace")


# Title in the table -> function. Without --all, only the first USUAL functions are used.
WAYS: dict[str, Callable[[Noise, str], bytes]] = {
    "a block in noise that mentions the system": Noise.block,
    "scattered through noise that mentions the system": Noise.scattered,
    "with colors and progress bars": Noise.colored,
    f"{TIMES:,} times, or {_MAX_BYTES // 1_000_000} MB": Noise.repeated,
    "in UTF-16": Noise.powershell,
    "compressed with gzip": Noise.packed,
    "in code page 936": Noise.chinese,
    "a block in quiet noise": Noise.quietly,
}
USUAL = 3


def _joined(noise: list[str], log: list[str]) -> str:
    half = len(noise) // 2
    return "\n".join([*noise[:half], *log, *noise[half:], ""])


def _lines(log: str) -> list[str]:
    return log.rstrip("\n").split("\n")


def _in_colors(line: str, chance: random.Random) -> str:
    words = line.split(" ")
    at = chance.randrange(len(words))
    words[at] = f"\x1b[1;31m{words[at]}\x1b[0m"
    bars = "".join(f"\r{part:3d}%|{BAR[: part // 5]}| {part}/100" for part in range(0, 100, 20))
    start = f"{bars}\x1b[K\r" if chance.random() < 0.5 else "\x1b[32m"
    return f"{start}{' '.join(words)}\x1b[0m"
