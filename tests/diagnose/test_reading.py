"""Logs as they come: encodings, colours, packed, cut, in folders, and never an exception."""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.diagnose import diagnose, diagnose_bytes, reading
from rocenv.diagnose.reading import Block, read_bytes, read_path, read_stream
from rocenv.diagnose.sieve import sift
from rocenv.errors import RocenvError
from rocenv.matrix.load import load

MATRIX = load()
LINE = "RuntimeError: HIP error: invalid device function"
CODE = "hip-no-binary-for-gpu"


def evidence(data: bytes) -> tuple[int, str]:
    """Return where and with which words the known line was found."""
    (finding,) = diagnose_bytes(data, MATRIX).findings
    assert finding.code == CODE
    return finding.evidence[0].line, finding.evidence[0].text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_unicode_of_every_kind(encoding: str, end: str) -> None:
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
def test_code_pages_of_windows(page: str, before: str) -> None:
    line = f"{before}: {LINE}"
    assert evidence(f"Loading\r\n{line}\r\n".encode(page)) == (2, line)


def test_colours_and_nul_bytes_within_the_words() -> None:
    link = "\x1b]8;;http://x\x07device\x1b]8;;\x07"
    coloured = f"Runtime\x1b[31mError: \x1b[1;36mHIP\x1b[0m error: inv\0alid {link} function"
    assert evidence(f"a\nb\n{coloured}\n".encode()) == (3, LINE)


def test_a_progress_bar_before_it_in_the_same_line() -> None:
    bar = "".join(f"\r{n}%|####| {n}/100 [00:01<00:00, 9.9it/s]" for n in range(100))
    assert evidence(f"start\n{bar}\r{LINE}\n".encode()) == (2, LINE)


@pytest.mark.parametrize("kept", [1.0, 0.999])
def test_packed_and_packed_but_cut(kept: float) -> None:
    noise = "".join(f"step {random.Random(n).random()}\n" for n in range(5000))
    packed = gzip.compress(f"{LINE}\n{noise}".encode())
    assert evidence(packed[: int(len(packed) * kept)]) == (1, LINE)


def test_a_log_that_is_cut_in_its_last_line() -> None:
    assert evidence(f"Loading\n{LINE}".encode())[0] == 2
    assert evidence("Загрузка\n".encode("utf-16") + f"{LINE} twice".encode("utf-16-le")[:-1])[0] == 2


def test_the_same_line_ten_thousand_times_is_one_finding_with_its_count() -> None:
    (finding,) = diagnose_bytes("".join(f"[{n}] {LINE}\n" for n in range(10_000)).encode(), MATRIX).findings
    assert (finding.evidence[0].line, finding.evidence[0].count) == (1, 10_000)


def test_one_line_in_30_000_others() -> None:
    noise = [f"INFO step {n} loss {n * 7919 % 1000 / 1000}" for n in range(30_000)]
    assert evidence("\n".join([*noise[:21_017], LINE, *noise[21_017:]]).encode()) == (21_018, LINE)


def test_a_line_that_never_ends() -> None:
    assert evidence(b"x" * 3_000_000 + b" " + LINE.encode() + b" " + b"y" * 3_000_000)[0] == 1


def test_a_folder_says_which_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.log").write_text("nothing here\n")
    (tmp_path / "b" / "app.log.gz").write_bytes(gzip.compress(f"x\n{LINE}\n".encode()))
    (tmp_path / "picture.png").write_bytes(bytes(range(256)) * 40)
    (finding,) = diagnose(read_path(tmp_path), MATRIX).findings
    assert (Path(finding.evidence[0].file), finding.evidence[0].line) == (Path("b/app.log.gz"), 2)


def test_what_cannot_be_read_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RocenvError, match="cannot read") as raised:
        list(read_path(tmp_path / "nowhere.log"))
    assert "standard input" in raised.value.hints[0]


def test_a_bomb_of_zeros_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_MOST_BYTES", 5 << 20)
    packed = gzip.compress(b"a" * (50 << 20))
    assert sum(len(block.data) for block in read_bytes(packed)) <= 6 << 20


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000))
def test_no_bytes_at_all_raise(data: bytes) -> None:
    diagnose_bytes(data, MATRIX)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["abcd", "HIP error", "\x1b[0m", "\r", "\n", "\n\n", "xHIP", " error", "ü", "\0"]),
        max_size=60,
    ),
    st.integers(1, 50),
)
def test_blocks_of_any_size_say_the_same(pieces: list[str], size: int) -> None:
    """The oracle: take colours and NUL away, part at line ends, look in each line."""
    data = "".join(pieces).encode()
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(reading, "BLOCK_BYTES", size)
        seen = sift(read_stream(io.BytesIO(data)), ["HIP error"])
    plain = data.replace(b"\x1b[0m", b"").replace(b"\0", b"").decode()
    expected = {n for n, line in enumerate(plain.split("\n"), 1) if "HIP error" in line}
    told = seen.by_literal.get("HIP error", [])
    assert {each.number for each in told} <= expected
    assert bool(told) == bool(expected)
    if expected:
        assert min(each.number for each in told) == min(expected)


def test_what_stands_around_is_seen_across_blocks() -> None:
    first = Block(data=b"far\nnear before\n", first_line=1)
    second = Block(data=b"HIP error\n", first_line=3)
    third = Block(data=b"near after\n", first_line=4)
    (sighting,) = sift(iter([first, second, third]), ["HIP error"]).by_literal["HIP error"]
    assert sighting.around(1) == b"near before\nHIP error\nnear after"
    assert b"far" in sighting.around(2)


def test_other_files_of_a_folder_are_not_around() -> None:
    blocks = [Block(data=b"x\n", first_line=1, file="a"), Block(data=b"HIP error\n", first_line=1, file="b")]
    (sighting,) = sift(iter(blocks), ["HIP error"]).by_literal["HIP error"]
    assert sighting.around(5).strip() == b"HIP error"
