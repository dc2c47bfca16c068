"""Recognizing messages in an app's output."""

from __future__ import annotations

import pytest

from rocenv.data.load import load
from rocenv.launch.output import Watch

ROWS = {row.key: row for row in load().launcher}
LAUNCHERS = {key: row.inheriting(ROWS["generic"]) for key, row in ROWS.items()}
FAILED = b"ZLUDA device failed to pass basic operation test: index=0"


class Clock:
    """A clock that only tests advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(told: list[str], clock: Clock) -> Watch:
    return Watch([LAUNCHERS["sdnext"], LAUNCHERS["generic"]], lambda: told.append("explained"), clock)


class TestFailures:
    @pytest.mark.parametrize("step", [1, 3, 7, 4096])
    def test_messages_split_across_chunks_are_found(self, watch: Watch, step: int) -> None:
        text = b"x" * 5000 + FAILED + b"y" * 5000
        for start in range(0, len(text), step):
            watch.see(text[start : start + step])
        assert [failure.text for failure in watch.failures] == [
            "ZLUDA device failed to pass basic operation test"
        ]

    def test_color_codes_and_line_wrapping_are_ignored(self, watch: Watch) -> None:
        watch.see(b"\x1b[33mZLUDA device failed to\x1b[0m\r\n   pass \x1b[1mbasic\x1b[0m operation test")
        assert len(watch.failures) == 1

    def test_failures_early_in_the_output_are_remembered(self, watch: Watch) -> None:
        watch.see(FAILED + b"\n")
        for _ in range(1000):
            watch.see(b"line\n" * 200)
        assert len(watch.failures) == 1

    def test_generic_failures_are_found_in_any_app(self, watch: Watch) -> None:
        watch.see(b"\nrocBLAS error: Cannot read rocblas/library/TensileLibrary.dat: No such file\n")
        assert watch.failures[0].code == "rocblas-tensile-missing-for-gfx"

    def test_gpu_use_is_recognized(self, watch: Watch) -> None:
        watch.see(b"INFO Engine: backend=Backend.DIFFUSERS compute=cpu device=cpu\n")
        assert not watch.on_gpu
        for piece in (b"INFO Engine: backend=Backend.DIFFUSERS \x1b[1mcompute", b"=ro", b"cm device=cuda"):
            watch.see(piece)
        assert watch.on_gpu

    def test_ordinary_output_contains_no_failures(self, watch: Watch) -> None:
        watch.see(b"Loading weights: 100%\r\nZLUDA load: path='x' nightly=False\r\n" * 100)
        assert watch.failures == ()


class TestTail:
    def test_the_tail_contains_the_last_lines_as_the_user_saw_them(self, watch: Watch) -> None:
        watch.see(b"first\r\n\x1b[31mred\x1b[0m\r\n 10%\r 20%\r 30%\nna\xc3\xafve\n\xff\n")
        assert watch.tail == ("first", "red", " 30%", "na\u00efve", "\ufffd", "")


class TestSilence:
    def test_compilation_is_explained_once(self, watch: Watch, told: list[str], clock: Clock) -> None:
        watch.see(b"Compilation is in progress. Please wait...\n")
        clock.now = 59
        watch.tick()
        assert told == []
        clock.now = 61
        watch.tick()
        clock.now = 600
        watch.tick()
        assert told == ["explained"]

    def test_a_repeated_message_does_not_count_as_progress(
        self, watch: Watch, told: list[str], clock: Clock
    ) -> None:
        for _ in range(4):
            watch.see(b"Compilation is in progress. Please wait...\n")
            clock.now += 30
            watch.tick()
        assert len(told) == 1

    def test_silence_is_not_explained_after_new_output_has_arrived(
        self, watch: Watch, told: list[str], clock: Clock
    ) -> None:
        watch.see(b"Compilation is in progress. Please wait...\n")
        for _ in range(100):
            watch.see(b"Loading model shard of some size, step by step, with a line each\n" * 20)
            clock.now += 30
            watch.tick()
        clock.now += 3600
        watch.tick()
        assert told == [], "an idle server is also silent"

    def test_silence_without_a_compilation_is_not_explained(
        self, watch: Watch, told: list[str], clock: Clock
    ) -> None:
        watch.see(b"Running on local URL: http://127.0.0.1:7860\n")
        clock.now = 3600
        watch.tick()
        assert told == []
