"""The xz decoder, compared with `lzma` and the `xz` program on streams from both."""

from __future__ import annotations

import contextlib
import io
import lzma
import random
import subprocess
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.core.errors import ArchiveError
from rocenv.install.xz import xz_chunks
from rocenv.system.files import CHUNK_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

KIB = 1024
CHECKS = {
    "none": lzma.CHECK_NONE,
    "crc32": lzma.CHECK_CRC32,
    "crc64": lzma.CHECK_CRC64,
    "sha256": lzma.CHECK_SHA256,
}
DATA = random.Random(5).randbytes(40 * KIB) + b"ab" * (30 * KIB) + random.Random(6).randbytes(20 * KIB)


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


class CountingPool(ThreadPoolExecutor):
    submitted = 0

    def submit(self, *args: Any, **options: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(*args, **options)


def xz(data: bytes, *options: str) -> bytes:
    command = ["xz", "-c", "--format=xz", *options]
    return subprocess.run(command, input=data, capture_output=True, check=True, timeout=60).stdout


def decode(stream: bytes, pool: ThreadPoolExecutor, ahead: int = 3) -> bytes:
    return b"".join(xz_chunks(io.BytesIO(stream), pool, ahead))


def streams() -> dict[str, bytes]:
    """Return `DATA` as every kind of stream; the keys contain the checksum type."""
    found = {
        f"one block, {name}": lzma.compress(DATA, check=check, preset=0) for name, check in CHECKS.items()
    }
    for name in CHECKS:
        blocks = ("-0", "-T2", "--block-size=16KiB", f"--check={name}")
        found[f"sized blocks, {name}"] = xz(DATA, *blocks)
        found[f"unsized blocks, {name}"] = xz(DATA, "-0", "-T1", "--block-size=16KiB", f"--check={name}")
    return found


STREAMS = streams()


class TestWholeStreams:
    @pytest.mark.parametrize("name", STREAMS)
    def test_every_kind_of_stream_is_decoded(self, pool: ThreadPoolExecutor, name: str) -> None:
        assert decode(STREAMS[name], pool) == DATA

    def test_blocks_with_known_sizes_are_decoded_separately(self) -> None:
        # This ensures that the tests in this file do not all use the sequential decoder.
        stream = STREAMS["sized blocks, crc64"]
        assert stream[13] & 0xC0 == 0xC0
        with CountingPool(1) as own:
            assert decode(stream, own) == DATA
        assert own.submitted == -(-len(DATA) // (16 * KIB))

    @pytest.mark.parametrize("options", [("-T1",), ("-T2", "--block-size=4KiB")])
    def test_a_stream_of_empty_data_is_decoded(
        self, pool: ThreadPoolExecutor, options: tuple[str, ...]
    ) -> None:
        assert decode(xz(b"", *options), pool) == b""

    @settings(max_examples=60, deadline=None)
    @given(
        data=st.binary(max_size=3000), check=st.sampled_from(sorted(CHECKS.values())), ahead=st.integers(1, 4)
    )
    def test_streams_of_any_content_are_decoded(
        self, pool: ThreadPoolExecutor, data: bytes, check: int, ahead: int
    ) -> None:
        assert decode(lzma.compress(data, check=check), pool, ahead) == data

    @pytest.mark.parametrize("size", [1, 4 * KIB - 1, 4 * KIB, 4 * KIB + 1, 8 * KIB, 100 * KIB + 3])
    def test_the_last_block_of_a_stream_can_have_any_length(
        self, pool: ThreadPoolExecutor, size: int
    ) -> None:
        data = random.Random(size).randbytes(size)
        assert decode(xz(data, "-0", "-T2", "--block-size=4KiB"), pool) == data

    @pytest.mark.parametrize(
        "filters", [("--x86", "--lzma2=preset=1"), ("--delta=dist=4", "--lzma2=preset=0")]
    )
    def test_filters_before_lzma2_are_supported(
        self, pool: ThreadPoolExecutor, filters: tuple[str, ...]
    ) -> None:
        assert decode(xz(DATA, "-T2", "--block-size=16KiB", *filters), pool) == DATA

    def test_decoded_chunks_are_small(self, pool: ThreadPoolExecutor) -> None:
        stream = xz(bytes(8 << 20), "-0", "-T2", "--block-size=4MiB")
        sizes = [len(piece) for piece in xz_chunks(io.BytesIO(stream), pool, 2)]
        assert max(sizes) <= CHUNK_BYTES
        assert min(sizes) > 0
        assert sum(sizes) == 8 << 20

    def test_a_large_block_is_decoded_as_a_stream(self, pool: ThreadPoolExecutor) -> None:
        size = 160 << 20
        stream = xz(bytes(size), "-0", "-T2", "--block-size=80MiB")
        tracemalloc.start()
        try:
            assert sum(map(len, xz_chunks(io.BytesIO(stream), pool, 3))) == size
            assert tracemalloc.get_traced_memory()[1] < 24 << 20
        finally:
            tracemalloc.stop()

    def test_read_ahead_is_limited(self) -> None:
        stream = io.BytesIO(xz(random.Random(1).randbytes(400 * KIB), "-0", "-T2", "--block-size=20KiB"))
        with ThreadPoolExecutor(2) as own:
            chunks = xz_chunks(stream, own, 3)
            next(chunks)
            assert stream.tell() < 5 * 21 * KIB


class TestDamage:
    @pytest.mark.parametrize("name", STREAMS)
    def test_any_truncation_of_a_stream_is_detected(self, pool: ThreadPoolExecutor, name: str) -> None:
        stream = STREAMS[name]
        ends = {*range(40), *range(40, len(stream), 2999), *range(len(stream) - 90, len(stream))}
        for end in sorted(ends):
            with pytest.raises(ArchiveError):
                decode(stream[:end], pool)

    @pytest.mark.parametrize("name", [name for name in STREAMS if not name.endswith("none")])
    def test_any_flipped_bit_in_a_stream_is_detected(self, pool: ThreadPoolExecutor, name: str) -> None:
        stream = bytearray(STREAMS[name])
        places = [*range(60), *range(60, len(stream), 3499), *range(len(stream) - 100, len(stream))]
        for place in places:
            bit = 1 << (place % 8)
            stream[place] ^= bit
            with pytest.raises(ArchiveError):
                decode(bytes(stream), pool)
            stream[place] ^= bit

    @pytest.mark.parametrize("name", [name for name in STREAMS if name.endswith("none")])
    def test_missing_data_is_detected_even_without_a_checksum(
        self, pool: ThreadPoolExecutor, name: str
    ) -> None:
        stream = bytearray(STREAMS[name])
        for place in [*range(60), *range(60, len(stream), 3499), *range(len(stream) - 100, len(stream))]:
            stream[place] ^= 0x10
            with contextlib.suppress(ArchiveError):
                assert len(decode(bytes(stream), pool)) == len(DATA)
            stream[place] ^= 0x10

    def test_a_block_that_looks_like_the_index_is_an_error(self, pool: ThreadPoolExecutor) -> None:
        # A block with header size 0 looks like the index, so a decoder would ignore everything after it.
        stream = bytearray(STREAMS["sized blocks, crc32"])
        stream[12] = 0
        with pytest.raises(ArchiveError, match="index"):
            decode(bytes(stream), pool)

    def test_a_missing_block_is_detected(self, pool: ThreadPoolExecutor) -> None:
        data = random.Random(2).randbytes(12 * KIB)
        two = xz(data[: 8 * KIB], "-0", "-T2", "--block-size=4KiB")
        three = xz(data, "-0", "-T2", "--block-size=4KiB")
        end_of_two = len(two) - 12 - (int.from_bytes(two[-8:-4], "little") + 1) * 4
        with pytest.raises(ArchiveError, match="index"):
            decode(three[:end_of_two] + three[-12 - (int.from_bytes(three[-8:-4], "little") + 1) * 4 :], pool)

    @pytest.mark.parametrize("name", ["one block, crc64", "sized blocks, crc64", "unsized blocks, crc64"])
    @pytest.mark.parametrize("more", [b"\0\0\0\0", b"x", lzma.compress(b"more")])
    def test_data_after_a_stream_is_an_error(self, pool: ThreadPoolExecutor, name: str, more: bytes) -> None:
        with pytest.raises(ArchiveError, match="trailing data"):
            decode(STREAMS[name] + more, pool)

    @settings(max_examples=200, deadline=None)
    @given(tail=st.binary(max_size=200), keep=st.integers(0, 80), name=st.sampled_from(sorted(STREAMS)))
    def test_garbage_instead_of_a_stream_is_an_error(
        self, pool: ThreadPoolExecutor, tail: bytes, keep: int, name: str
    ) -> None:
        with pytest.raises(ArchiveError):
            decode(STREAMS[name][:keep] + tail, pool)

    @pytest.mark.parametrize(
        "field", [b"\xff" * 9, b"\xff" * 8 + b"\x7f"], ids=["a number without end", "an exabyte"]
    )
    def test_an_implausible_size_in_a_stream_is_an_error(
        self, pool: ThreadPoolExecutor, field: bytes
    ) -> None:
        header = bytes([5, 0xC0]) + field + b"\x21\x01\x0c"
        header = header.ljust(20, b"\0")
        header += zlib.crc32(header).to_bytes(4, "little")
        with pytest.raises(ArchiveError):
            decode(STREAMS["one block, crc32"][:12] + header + bytes(100), pool)

    def test_a_dictionary_of_gigabytes_is_rejected(self, pool: ThreadPoolExecutor) -> None:
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 64 << 10}]
        stream = bytearray(lzma.compress(b"x" * 100, filters=filters))
        assert stream[16] == 8  # the dictionary size, encoded as an exponent
        stream[16] = 40
        end = 12 + (stream[12] + 1) * 4 - 4
        stream[end : end + 4] = zlib.crc32(bytes(stream[12:end])).to_bytes(4, "little")
        with pytest.raises(ArchiveError, match=r"[Mm]emory"):
            decode(bytes(stream), pool)
