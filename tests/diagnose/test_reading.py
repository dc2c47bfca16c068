"""Colored, compressed or truncated logs in any encoding, and folders; none causes an exception."""

from __future__ import annotations

import gzip
import io
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.core.errors import RocenvError
from rocenv.core.language import LANGUAGES
from rocenv.data.load import load
from rocenv.diagnose import diagnose, diagnose_bytes, reading
from rocenv.diagnose.reading import Block, LeftOut, read_path, read_stream
from rocenv.diagnose.report import report
from rocenv.diagnose.scanner import scan

if TYPE_CHECKING:
    from typing_extensions import Buffer

MATRIX = load()
LINE = "RuntimeError: HIP error: invalid device function"
CODE = "hip-no-binary-for-gpu"
CASES = Path(__file__).parents[1] / "cases" / "diagnose"


def evidence(data: bytes) -> tuple[int, str]:
    """Find the known line and return its number and text."""
    (finding,) = diagnose_bytes(data, MATRIX).findings
    assert finding.code == CODE
    return finding.evidence[0].line, finding.evidence[0].text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_logs_in_unicode_encodings_are_decoded(encoding: str, end: str) -> None:
    text = end.join(["启动 SD.Next", "加载模型", LINE, "按任意键继续"]) + end
    assert evidence(text.encode(encoding)) == (3, LINE)


@pytest.mark.parametrize(
    ("page", "before"),
    [
        ("cp936", "错误 找不到指定的模块。 模型加载完成"),
        ("cp949", "지정된 모듈을 찾을 수 없습니다. 모델을 불러오는 중"),
        ("cp1251", "Не найден указанный модуль. Загрузка модели"),
    ],
)
def test_logs_in_windows_code_pages_are_decoded(page: str, before: str) -> None:
    line = f"{before}: {LINE}"
    assert evidence(f"Loading\r\n{line}\r\n".encode(page)) == (2, line)


def test_color_codes_and_nul_bytes_inside_words_are_ignored() -> None:
    link = "\x1b]8;;http://x\x07device\x1b]8;;\x07"
    coloured = f"Runtime\x1b[31mError: \x1b[1;36mHIP\x1b[0m error: inv\0alid {link} function"
    assert evidence(f"a\nb\n{coloured}\n".encode()) == (3, LINE)


def test_a_progress_bar_on_the_same_line_is_skipped() -> None:
    bar = "".join(f"\r{n}%|####| {n}/100 [00:01<00:00, 9.9it/s]" for n in range(100))
    assert evidence(f"start\n{bar}\r{LINE}\n".encode()) == (2, LINE)


@pytest.mark.parametrize("kept", [1.0, 0.999])
def test_complete_and_truncated_gzip_files_are_read(kept: float) -> None:
    noise = "".join(f"step {random.Random(n).random()}\n" for n in range(5000))
    packed = gzip.compress(f"{LINE}\n{noise}".encode())
    assert evidence(packed[: int(len(packed) * kept)]) == (1, LINE)


def test_a_last_line_that_ends_within_a_character_is_read() -> None:
    assert evidence(f"Loading\n{LINE}".encode())[0] == 2
    assert evidence("Загрузка\n".encode("utf-16") + f"{LINE} twice".encode("utf-16-le")[:-1])[0] == 2


def test_a_repeated_line_is_one_finding_with_a_count() -> None:
    (finding,) = diagnose_bytes("".join(f"[{n}] {LINE}\n" for n in range(10_000)).encode(), MATRIX).findings
    assert (finding.evidence[0].line, finding.evidence[0].count) == (1, 10_000)


def test_an_error_line_among_30_000_lines_is_found() -> None:
    noise = [f"INFO step {n} loss {n * 7919 % 1000 / 1000}" for n in range(30_000)]
    assert evidence("\n".join([*noise[:21_017], LINE, *noise[21_017:]]).encode()) == (21_018, LINE)


def test_an_error_in_a_line_of_6_mb_is_found() -> None:
    number, text = evidence(b"x" * 3_000_000 + b" " + LINE.encode() + b" " + b"y" * 3_000_000)
    assert number == 1
    assert LINE in text
    assert len(text) <= 300


@given(st.integers(0, 700))
@settings(max_examples=80, deadline=None)
def test_a_match_is_found_across_the_split_of_an_endless_line(shift: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", 640)
        patch.setattr(reading, "MAX_LINE_BYTES", 600)
        coloured = LINE.replace("HIP", "\x1b[1;31mHIP\x1b[0m").replace("device", "dev\x1b[32mice")
        number, text = evidence(b"x" * shift + b" " + coloured.encode() + b" " + b"y" * 900)
    assert (number, LINE in text) == (1, True)


def test_evidence_from_a_folder_includes_the_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.log").write_text("nothing here\n")
    (tmp_path / "b" / "app.log.gz").write_bytes(gzip.compress(f"x\n{LINE}\n".encode()))
    (tmp_path / "picture.png").write_bytes(bytes(range(256)) * 40)
    (finding,) = diagnose(read_path(tmp_path), MATRIX).findings
    assert (Path(finding.evidence[0].file), finding.evidence[0].line) == (Path("b/app.log.gz"), 2)


def test_an_unreadable_log_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(RocenvError, match="cannot read") as raised:
        list(read_path(tmp_path / "nowhere.log"))
    assert "standard input" in raised.value.hints[0]


class Endless(io.RawIOBase):
    """A gzip file with an endless series of members."""

    def __init__(self, first: bytes, again: bytes) -> None:
        self.first, self.again = gzip.compress(first), gzip.compress(again)
        self.left = self.first

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        self.left = self.left or self.again
        room = memoryview(buffer)
        head, self.left = self.left[: len(room)], self.left[len(room) :]
        room[: len(head)] = head
        return len(head)


@pytest.mark.parametrize(
    "again", [b"\0" * 100_000, b"a" * 100_000, b"line\n" * 20_000], ids=["0", "a", "lines"]
)
def test_reading_an_endless_gzip_file_stops_early(monkeypatch: pytest.MonkeyPatch, again: bytes) -> None:
    monkeypatch.setattr(reading, "_MAX_BYTES", 5 << 20)
    left_out: list[LeftOut] = []
    blocks = read_stream(
        io.BufferedReader(Endless(f"{LINE}\n".encode(), again)), left_out=left_out.append, file="a.gz"
    )
    (finding,) = diagnose(blocks, MATRIX).findings
    assert (finding.code, finding.evidence[0].line) == (CODE, 1)
    assert left_out == [LeftOut(path="a.gz", why="too long")]


def pieces_of_logs() -> list[str]:
    """Collect the literals in rules and extractors, and lines that match rules."""
    rules = [text for rule in MATRIX.rule for pattern in rule.pattern for text in pattern.text]
    of_extractors = [text for row in MATRIX.extractor for text in row.text]
    known = [path.read_bytes() for path in sorted(CASES.glob("*/known-*.log"))]
    lines = [line for log in known for line in log.decode("utf-8", "ignore").splitlines() if line.isascii()]
    return [*rules, *of_extractors, *lines]


SEQUENCES = (
    *(
        "\x1b[31m",
        "\x1b[0m",
        "\x1b]0;title\x07",
        "\x1b]8;;x",
        "\x1b[",
        "\x1b",
        "\x1bP",
        "\x9b2J",
        "\x08",
        "\0",
    ),
    *("\ufeff", "\r", "\n", "\r\n", "\n\n", "\x85", "\u2028", "文件", "é", "{gfx}", "{", "%s", "$(x)", "`"),
)
ENCODINGS = ("utf-8", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp936", "cp1251")


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Generate a log with arbitrary text, in one or several encodings."""
    text = st.sampled_from(PIECES) | st.sampled_from(SEQUENCES) | st.text(max_size=10)
    parts = draw(st.lists(st.tuples(st.lists(text, max_size=20), st.sampled_from(ENCODINGS)), max_size=4))
    log = b"".join(
        draw(st.sampled_from(["", "\n"])).join(words).encode(name, "replace") for words, name in parts
    )
    at = draw(st.integers(0, len(log)))
    log = log[:at] + draw(st.binary(max_size=20)) + log[at:]
    return gzip.compress(log)[: draw(st.integers(5, 3000))] if draw(st.integers(0, 9)) == 0 else log


PIECES = pieces_of_logs()


@pytest.mark.slow
def test_a_log_of_arbitrary_bytes_raises_no_exception() -> None:
    """Neither scanning nor rendering the findings in either language raises an exception."""
    found: set[str] = set()

    @settings(max_examples=150, deadline=None)
    @given(logs())
    def look(log: bytes) -> None:
        for finding in diagnose_bytes(log, MATRIX).findings:
            found.add(finding.code)
            assert all(each.text.isprintable() and each.line >= 1 for each in finding.evidence)
            for language in LANGUAGES:
                said = report(finding, MATRIX, language)
                assert said.title
                assert said.steps or said.cause
                commands = "\n".join(said.commands)
                assert not set(commands) & set("\x1b\0\r\x08\x9b")

    look()
    assert len(found) > 1


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *("abcd", "HIP error", "HIP\x1b[31m err\x1b[0mor", "H\0\0IP error", "xHIP", " error", "ü"),
                *("\x1b[0m", "\x1b]0;HIP error\x07", "\0\0", "\r", "\n", "\n\n", "HIP ", "\x1b[1merror"),
            ]
        ),
        max_size=120,
    ),
    st.integers(64, 300),
)
def test_the_result_does_not_depend_on_the_block_size(pieces: list[str], size: int) -> None:
    """The oracle removes escape sequences and NUL bytes, splits the log into lines and searches each line.

    NUL bytes come in pairs, because every second byte being NUL would mean UTF-16. The first block determines
    the encoding, so it has a minimum size.
    """
    data = "".join(pieces).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", size)
        seen = scan(read_stream(io.BytesIO(data)), ["HIP error"])
    plain = re.sub(rb"\x1b\[[0-9;]*m|\x1b\]0;[^\x07]*\x07|\0", b"", data)
    expected = [
        (number, part)
        for number, line in enumerate(plain.split(b"\n"), 1)
        for part in line.split(b"\r")
        if b"HIP error" in part
    ]
    found = seen.by_literal.get("HIP error", [])
    assert {(each.number, each.line) for each in found} <= set(expected)
    assert sum(each.count for each in found) >= len(found)
    assert bool(found) == bool(expected)
    if expected:
        assert (found[0].number, found[0].line) == expected[0]
    assert {each.line for each in found} == {line for _, line in expected}


def test_nearby_lines_are_found_across_blocks() -> None:
    first = Block(data=b"far\nnear before\n", first_line=1)
    second = Block(data=b"HIP error\n", first_line=3)
    third = Block(data=b"near after\n", first_line=4)
    (sighting,) = scan(iter([first, second, third]), ["HIP error"]).by_literal["HIP error"]
    assert sighting.around(1) == b"near before\nHIP error\nnear after"
    assert b"far" in sighting.around(2)


def test_nearby_lines_in_a_different_file_do_not_count() -> None:
    """`near` and `not_near` search only the log that contains the match."""
    out_of_memory = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    amd = b"Device: AMD Radeon RX 6750 XT gfx1031\n"
    apart = [Block(data=amd, first_line=1, file="a"), Block(data=out_of_memory, first_line=1, file="b")]
    assert diagnose(apart, MATRIX).findings == ()
    together = [Block(data=amd, first_line=1, file="b"), Block(data=out_of_memory, first_line=2, file="b")]
    (finding,) = diagnose(together, MATRIX).findings
    assert finding.code == "vram-oom"
    assert (finding.evidence[0].file, finding.evidence[0].line) == ("b", 2)


def test_a_pipe_that_does_not_block_is_read_to_its_end() -> None:
    answers = iter([None, b"HIP error", None, b": out of memory\n", b""])
    pipe = Mock(read=lambda _size: next(answers))
    assert b"".join(block.data for block in read_stream(pipe)) == b"HIP error: out of memory\n"
