"""The GGUF reader, compared with the `gguf` package and run on hostile files."""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFWriter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocenv.core.errors import RocenvError
from rocenv.memory.gguf import read_model
from rocenv.memory.gguf_header import TENSOR_TYPES
from tests.memory.models import Q, Writer, llama

BLOCKS = {kind: sizes for kind, sizes in GGML_QUANT_SIZES.items() if kind in set(Q)}


def text(value: bytes) -> bytes:
    """Encode a string as in a GGUF file."""
    return struct.pack("<Q", len(value)) + value


def code_of(path: Path) -> str:
    with pytest.raises(RocenvError) as caught:
        read_model(path)
    assert str(path.name) in caught.value.message
    return caught.value.code


def test_tensor_types_match_the_gguf_package() -> None:
    assert {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()} == TENSOR_TYPES
    assert set(TENSOR_TYPES) == set(map(int, GGMLQuantizationType))


# --- the gguf package as oracle -----------------------------------------------------------------------------

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
).filter(lambda name: len(name.encode()) < 64)
scalars = st.one_of(
    st.tuples(st.just("add_uint32"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("add_int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("add_uint64"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("add_int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("add_uint8"), st.integers(0, 255)),
    st.tuples(st.just("add_int8"), st.integers(-128, 127)),
    st.tuples(st.just("add_uint16"), st.integers(0, 65535)),
    st.tuples(st.just("add_int16"), st.integers(-32768, 32767)),
    st.tuples(st.just("add_float32"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("add_float64"), st.floats(allow_nan=False)),
    st.tuples(st.just("add_bool"), st.booleans()),
    st.tuples(st.just("add_string"), st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
    st.tuples(st.just("add_array"), st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=60)),
    st.tuples(st.just("add_array"), st.lists(st.booleans(), min_size=1, max_size=60)),
    st.tuples(st.just("add_array"), st.lists(st.text("ab ü", min_size=1), min_size=1, max_size=60)),
)
tensors = st.lists(
    st.tuples(
        names,
        st.sampled_from(sorted(BLOCKS)),
        st.integers(1, 3),
        st.lists(st.integers(1, 5), min_size=0, max_size=3),
    ),
    max_size=8,
    unique_by=lambda each: each[0],
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.dictionaries(names.filter(lambda key: "." not in key), scalars, max_size=8),
    listed=tensors,
)
def test_headers_match_the_gguf_package(
    tmp_path: Path, keys: dict[str, tuple[str, Any]], listed: list[Any]
) -> None:
    file = Writer(tmp_path / "any.gguf")
    for key, (method, value) in keys.items():
        getattr(file.keys, method)(f"own.{key}", value)
    for name, kind, blocks, outer in listed:
        file.tensor(name, (*outer, blocks * BLOCKS[kind][0]), kind)
    model = read_model(file.close())
    theirs = GGUFReader(str(file.path))
    assert [(t.name, t.shape, t.kind, t.n_bytes) for t in model.tensors] == [
        (t.name, tuple(int(d) for d in t.shape), t.tensor_type.name, t.n_bytes) for t in theirs.tensors
    ]
    assert (model.missing_bytes, model.architecture) == (0, "llama")
    assert set(model.metadata) == {name for name in theirs.fields if not name.startswith("GGUF.")}
    for key, (_, value) in keys.items():
        value_read = model.metadata[f"own.{key}"]
        if isinstance(value, list) and isinstance(value[0], str):
            assert value_read is None
        else:
            assert value_read == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.slow
def test_a_large_vocabulary_is_read_quickly(tmp_path: Path) -> None:
    file = Writer(tmp_path / "words.gguf")
    file.keys.add_token_list([f"token{number}" for number in range(150_000)])
    file.keys.add_token_merges([f"to ken{number}" for number in range(150_000)])
    file.keys.add_token_types([1] * 150_000)
    path = file.tensor("output_norm.weight", (32,)).close()
    begun = time.process_time()
    model = read_model(path)
    assert time.process_time() - begun < 0.5  # takes 0.06 s on an idle machine
    assert model.metadata["tokenizer.ggml.tokens"] is None
    assert [tensor.name for tensor in model.tensors] == ["output_norm.weight"]


def test_model_paths_can_contain_spaces_and_any_script(tmp_path: Path) -> None:
    folder = tmp_path / "мои модели ü"
    folder.mkdir()
    model = read_model(llama(folder / "Llama 3 模型.gguf", layers=1))
    assert (model.architecture, len(model.tensors)) == ("llama", 12)


def test_the_size_of_a_tensor_of_unknown_type_ends_at_the_next_tensor(tmp_path: Path) -> None:
    file = Writer(tmp_path / "new.gguf")
    for name in ("one", "two", "three"):
        file.tensor(name, (64, 256), Q.Q4_K)
    data = bytearray(file.close().read_bytes())
    for old in (b"one", b"three"):
        place = data.index(text(old)) + 8 + len(old) + 4 + 16
        assert struct.unpack_from("<I", data, place) == (Q.Q4_K,)
        struct.pack_into("<I", data, place, 77)
    file.path.write_bytes(data)
    model = read_model(file.path)
    assert [(t.kind, t.n_bytes) for t in model.tensors] == [
        ("type 77", 64 * 144),
        ("Q4_K", 64 * 144),
        ("type 77", 64 * 144),
    ]
    assert any("type 77" in note for note in model.notes)


def test_the_missing_bytes_of_an_incomplete_download_are_counted(tmp_path: Path) -> None:
    path = llama(tmp_path / "half.gguf")
    whole = path.stat().st_size
    os.truncate(path, whole - 1000)
    assert 0 <= 1000 - read_model(path).missing_bytes < 32  # the last tensor may be padded


# --- split models -------------------------------------------------------------------------------------------


def parts(folder: Path, count: int = 3) -> list[Path]:
    found = []
    for number in range(count):
        file = Writer(folder / f"big model-{number + 1:05d}-of-{count:05d}.gguf")
        file.keys.add_uint16("split.no", number)
        file.keys.add_uint16("split.count", count)
        if number == 0:
            file.keys.add_block_count(count)
        found.append(file.tensor(f"blk.{number}.ffn_up.weight", (256, 256), Q.Q8_0).close())
    return found


@pytest.mark.parametrize("named", [0, 2])
def test_any_part_of_a_split_model_loads_the_whole_model(tmp_path: Path, named: int) -> None:
    files = parts(tmp_path)
    model = read_model(files[named])
    assert (model.path, model.parts) == (files[0], tuple(files))
    assert [tensor.name for tensor in model.tensors] == [f"blk.{number}.ffn_up.weight" for number in range(3)]
    assert model.number("block_count") == 3


def test_a_missing_part_of_a_split_model_is_an_error(tmp_path: Path) -> None:
    files = parts(tmp_path)
    files[1].unlink()
    with pytest.raises(RocenvError, match=r"1 are missing: big model-00002-of-00003\.gguf") as caught:
        read_model(files[0])
    assert caught.value.code == "gguf-part-missing"


def test_renamed_parts_of_a_split_model_are_an_error(tmp_path: Path) -> None:
    files = parts(tmp_path)
    assert code_of(files[0].rename(tmp_path / "model.gguf")) == "gguf-part-missing"
    files = parts(tmp_path)
    files[2].write_bytes(files[1].read_bytes())
    with pytest.raises(RocenvError) as caught:
        read_model(files[0])
    assert (caught.value.code, files[2].name in caught.value.message) == ("gguf-damaged", True)


# --- llamafiles --------------------------------------------------------------------------------------------


def llamafile(path: Path, *models: Path, packed: bool = False, program: bytes = b"MZqFpD='\n") -> Path:
    """Write a llamafile: a program followed by a zip archive."""
    path.write_bytes(program + b"\x90" * 5000)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(".args", "-m\nmodel.gguf\n")
        for model in models:
            method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            archive.write(model, model.name, compress_type=method)
    return path


def small(path: Path, rows: int = 8) -> Path:
    return Writer(path).tensor("blk.0.ffn_up.weight", (rows, 256), Q.Q4_K).close()


@pytest.mark.parametrize("program", [b"MZqFpD='\n", b"\x7fELF\x02\x01", b""])
def test_a_llamafile_contains_a_model(tmp_path: Path, program: bytes) -> None:
    inside = small(tmp_path / "model.gguf")
    other = small(tmp_path / "mmproj.gguf", 2)
    path = llamafile(tmp_path / "mein modell.llamafile", other, inside, program=program or b"#!/bin/sh\n")
    model = read_model(path)
    assert (model.path, model.member) == (path, "model.gguf")
    assert [(t.name, t.n_bytes) for t in model.tensors] == [("blk.0.ffn_up.weight", 8 * 144)]
    assert model.missing_bytes == 0
    assert any("mmproj.gguf" in note for note in model.notes)


def test_a_program_without_a_model_is_rejected(tmp_path: Path) -> None:
    assert code_of(llamafile(tmp_path / "bare.llamafile")) == "gguf-not"
    assert code_of(llamafile(tmp_path / "packed.exe", small(tmp_path / "m.gguf"), packed=True)) == "gguf-not"
    (tmp_path / "prog").write_bytes(b"\x7fELF" + b"\0" * 100)
    assert code_of(tmp_path / "prog") == "gguf-not"


def test_a_llamafile_with_a_huge_zip_directory_is_rejected(tmp_path: Path) -> None:
    path, size = tmp_path / "bomb.llamafile", 1 << 30
    with path.open("wb") as file:
        file.write(b"MZ")
        file.truncate(size)
        file.seek(size)
        file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, size, 0, 0))
    tracemalloc.start()
    assert code_of(path) == "gguf-not"
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


# --- other files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
        (b"\n<!DOCTYPE html>\n<html>", "web page"),
        (struct.pack("<Q", 90) + b'{"__metadata__":{}}', "safetensors"),
        (b"GGU", "does not begin with GGUF"),
    ],
)
def test_the_error_names_the_type_of_a_file_that_is_not_a_model(
    tmp_path: Path, data: bytes, expected: str
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with pytest.raises(RocenvError) as caught:
        read_model(path)
    assert caught.value.code == "gguf-not"
    assert expected in caught.value.message


def test_unreadable_files_are_an_error(tmp_path: Path) -> None:
    assert code_of(tmp_path / "nothing.gguf") == "gguf-missing"
    assert code_of(tmp_path) == "gguf-unreadable"
    os.mkfifo(tmp_path / "pipe.gguf")
    assert code_of(tmp_path / "pipe.gguf") == "gguf-unreadable"
    with pytest.raises(RocenvError):
        read_model(Path("a\0b.gguf"))
    with pytest.raises(RocenvError):
        read_model(tmp_path / ("x" * 5000))


@pytest.mark.parametrize(("version", "expected"), [(1, "version 1"), (4, "version 4"), (0, "version 0")])
def test_unknown_gguf_versions_are_an_error(tmp_path: Path, version: int, expected: str) -> None:
    path = tmp_path / "old.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", version) + b"\0" * 100)
    with pytest.raises(RocenvError, match=expected) as caught:
        read_model(path)
    assert caught.value.code == "gguf-version"


# --- hostile files -----------------------------------------------------------------------------------------


def header(tensors: int, keys: int, *body: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + b"".join(body)


def key(name: bytes, kind: int, *body: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + b"".join(body)


def info(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    numbers = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    return text(name) + numbers


HOSTILE = {
    "a billion tensors": header(10**9, 0),
    "more tensors than integers can count": header(2**64 - 1, 0),
    "more keys than integers can count": header(0, 2**64 - 1),
    "a truncated key": header(0, 1, struct.pack("<Q", 2**63)),
    "a truncated string": header(0, 1, key(b"a", 8, struct.pack("<Q", 2**63))),
    "a truncated array": header(0, 1, key(b"a", 9, struct.pack("<IQ", 0, 2**63))),
    "a truncated array of strings": header(0, 1, key(b"a", 9, struct.pack("<IQ", 8, 2**63))),
    "strings beyond the end": header(0, 1, key(b"a", 9, struct.pack("<IQQ", 8, 2, 2**62), b"\0" * 99)),
    "arrays in arrays": header(0, 1, key(b"a", 9, struct.pack("<IQ", 9, 1) * 5000)),
    "an array of arrays": header(0, 1, key(b"a", 9, struct.pack("<IQ", 9, 1 << 17), b"\0" * (12 << 17))),
    "an array of an unknown type": header(0, 1, key(b"a", 9, struct.pack("<IQ", 99, 3))),
    "a value of an unknown type": header(0, 1, key(b"a", 13, b"\0" * 8)),
    "a key twice": header(0, 2, key(b"a", 0, b"\1"), key(b"a", 0, b"\1")),
    "a tensor twice": header(2, 0, info(b"a", (1,), 0, 0), info(b"a", (1,), 0, 32)),
    "a tensor with a billion dimensions": header(1, 0, text(b"a"), struct.pack("<I", 10**9), b"\0" * 64),
    "a tensor larger than any file": header(1, 0, info(b"a", (2**40, 2**40), 0, 0)),
    "a tensor after the end of the file": header(1, 0, info(b"a", (1,), 0, 2**64 - 1)),
    "half a block": header(1, 0, info(b"a", (100,), int(Q.Q4_K), 0)),
    "no alignment": header(0, 1, key(b"general.alignment", 4, struct.pack("<I", 0))),
    "an alignment that is a string": header(0, 1, key(b"general.alignment", 8, text(b"wide"))),
    "an alignment that is too large": header(0, 1, key(b"general.alignment", 10, struct.pack("<Q", 2**60))),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_header_is_rejected_quickly(tmp_path: Path, what: str) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(HOSTILE[what])
    with path.open("ab") as file:
        file.truncate(1 << 40)  # makes the claimed size plausible
    begun = time.process_time()
    assert code_of(path) == "gguf-damaged"
    assert time.process_time() - begun < 2


def test_a_terabyte_of_empty_strings_is_rejected_quickly(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    path.write_bytes(header(0, 1, key(b"a", 9, struct.pack("<IQ", 8, 10**10))))
    with path.open("ab") as file:
        file.truncate(1 << 40)
    begun = time.process_time()
    assert code_of(path) == "gguf-damaged"
    assert time.process_time() - begun < 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "m.gguf"
    writer = GGUFWriter(str(path), "llama")
    writer.add_block_count(1)
    writer.add_head_count_kv([8, 8])
    writer.add_token_list(["a", "b", "cd"])
    writer.add_string("general.name", "Name")
    writer.add_tensor("blk.0.ffn_up.weight", np.zeros((4, 32), np.float32))
    writer.add_tensor("output.weight", np.zeros((2, 64), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def survives(path: Path, data: bytes) -> bool:
    """Return whether the file can be read; any exception other than RocenvError fails the test."""
    path.write_bytes(data)
    try:
        read_model(path)
    except RocenvError as error:
        assert error.code.startswith("gguf-")
        return False
    return True


@pytest.mark.slow
def test_a_model_truncated_anywhere_is_read_or_rejected(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "cut.gguf"
    assert survives(path, whole)
    read = [length for length in range(len(whole)) if survives(path, whole[:length])]
    assert read == list(range(min(read), len(whole)))  # every file with a complete header is readable
    assert read_model(path).missing_bytes == 1


@pytest.mark.slow
def test_a_model_with_flipped_bits_is_read_or_rejected(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "flipped.gguf"
    chance = random.Random(7)
    for _ in range(800):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(min(len(data), 500))] ^= 1 << chance.randrange(8)
        survives(path, bytes(data))


@pytest.mark.slow
def test_damaged_llamafiles_are_read_or_rejected(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(whole)
    good = llamafile(tmp_path / "good.llamafile", tmp_path / "m.gguf").read_bytes()
    path, chance = tmp_path / "bad.llamafile", random.Random(7)
    for _ in range(400):
        data = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            data[-chance.randrange(1, 400)] ^= 1 << chance.randrange(8)
        survives(path, bytes(data))
    for length in range(len(good) - 300, len(good)):
        survives(path, good[:length])
