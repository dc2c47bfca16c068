"""Memory estimates, compared with llama.cpp, and the largest number of layers that fits."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocenv.core.errors import RocenvError
from rocenv.memory.estimate import (
    MARGIN_BYTES,
    MIN_GRAPH_BYTES,
    Estimate,
    Use,
    estimate_of,
    fit,
    fit_of,
    longest_context,
    ways_to_fit,
)
from rocenv.memory.gguf import Model, read_model
from rocenv.memory.gguf_header import Tensor
from rocenv.memory.model_layout import Layer, ModelLayout, layout_of
from tests.memory.models import Q, Writer, eight_billion, llama

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30


def estimate(path: Path, **use: Any) -> Estimate:
    return estimate_of(layout_of(read_model(path)), Use(**use))


# --- two logs from users ------------------------------------------------------------------------------------


def test_estimate_matches_ollama_11265(tmp_path: Path) -> None:
    """The log reports 6.5 GiB: weights 3.9 GiB and 411 MiB, cache 1.0 GiB, graph 560 MiB or 677.5 MiB."""
    estimated = estimate(eight_billion(tmp_path / "m.gguf"), context=8192)
    assert estimated.cache_bytes == GIB
    assert round(estimated.layout.output_bytes / MIB) == 411
    assert estimated.of_layers == 33
    assert 560 <= estimated.graph_bytes / MIB <= 560 * 1.05
    assert estimated.graph(33) / MIB == pytest.approx(600)
    assert estimated.graph(20) / MIB == pytest.approx(677.5, abs=0.1)
    # The model in that log stores some layers in larger types than Q4_K, so its weights are 3.9 GiB instead
    # of 3.7.
    weights = (3.9 - 32 * estimated.layout.layers[0].weights_bytes / GIB) * GIB
    assert (
        5.8 * GIB < estimated.needed(33) + weights < 6.5 * GIB < estimated.needed(33) + weights + MARGIN_BYTES
    )


def test_cache_matches_llama_cpp_16725() -> None:
    """The GPU cache is 3280 MiB for 41 of 80 layers, 8 KV heads of length 128 and 20480 tokens."""
    layers = tuple(Layer(weights_bytes=0, largest_bytes=0, kv_heads=8) for _ in range(80))
    estimated = estimate_of(layout(layers, embedding=8192, heads=64), Use(context=20480))
    assert sum(estimated.caches[-41:]) == 3280 * MIB


# --- measurements with llama.cpp 0.7.0 from Debian -----------------------------------------

EIGHT = {"embedding": 4096, "heads": 32, "kv_heads": 8, "feed_forward": 14336, "vocabulary": 128256}
SMALL = {"embedding": 2048, "heads": 16, "kv_heads": 4, "feed_forward": 8192, "vocabulary": 32000}
WIDE = {"embedding": 2048, "heads": 16, "kv_heads": 16, "feed_forward": 65536, "vocabulary": 4096}
QWEN = {"embedding": 5120, "heads": 40, "kv_heads": 8, "feed_forward": 27648, "vocabulary": 152064}
MEASURED = [
    (EIGHT, 8192, False, 512, 580.02, 64),
    (EIGHT, 8192, True, 512, 298.52, 64),
    (EIGHT, 8192, True, 1024, 597.04, 64),
    (EIGHT, 32768, False, 512, 2164.02, 256),
    (EIGHT, 32768, True, 512, 330.52, 256),
    (EIGHT, 8192, False, 2048, 2320.06, 64),
    (SMALL, 4096, False, 512, 162.02, 16),
    (SMALL, 4096, True, 512, 86.52, 16),
    (SMALL, 16384, False, 512, 570.02, 64),
    (WIDE, 512, True, 512, 404.52, 8),
    (WIDE, 512, False, 512, 413.02, 8),
    (QWEN, 32768, True, 512, 379.02, 256),
    (QWEN, 32768, False, 512, 2688.02, 256),
    (QWEN, 4096, True, 128, 87.75, 32),
    (QWEN, 131072, True, 512, 475.02, 1024),
]


@pytest.mark.parametrize(("shape", "context", "flash", "batch", "graph_mib", "cache_mib"), MEASURED)
def test_buffer_and_cache_match_measurements(
    tmp_path: Path,
    shape: dict[str, Any],
    context: int,
    flash: bool,
    batch: int,
    graph_mib: float,
    cache_mib: int,
) -> None:
    path = llama(tmp_path / "m.gguf", layers=2, **shape)
    estimated = estimate(path, context=context, flash_attention=flash, batch=batch)
    assert estimated.cache_bytes == cache_mib * MIB
    assert graph_mib - 0.1 <= estimated.graph_bytes / MIB <= graph_mib * 1.10


@pytest.mark.parametrize(
    ("use", "cache_mib"),
    [
        (Use(context=8192, cache_k="q8_0", cache_v="q8_0"), 34),
        (Use(context=1667), 14),  # 1792 tokens
        (Use(context=8192, cache_k="f32", cache_v="f32"), 128),
        (Use(context=8192, cache_k="f16", cache_v="q4_0"), 32 + 9),
    ],
)
def test_cache_types_determine_the_cache_size(tmp_path: Path, use: Use, cache_mib: int) -> None:
    estimated = estimate_of(layout_of(read_model(llama(tmp_path / "m.gguf", layers=2))), use)
    assert estimated.cache_bytes == cache_mib * MIB


def test_an_unknown_cache_type_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RocenvError, match="q3_k"):
        fit(read_model(llama(tmp_path / "m.gguf")), GIB, Use(cache_k="q3_k"))


def mamba(path: Path, layers: int = 4, attention: tuple[int, ...] = ()) -> Path:
    """Write a model whose layers are recurrent, except for the attention layers in `attention`."""
    file = Writer(path, "mamba")
    keys = file.keys
    keys.add_block_count(layers)
    keys.add_embedding_length(768)
    keys.add_head_count(12 if attention else 0)
    keys.add_ssm_conv_kernel(4)
    keys.add_ssm_inner_size(1536)
    keys.add_ssm_state_size(16)
    file.tensor("token_embd.weight", (50280, 768))
    for layer in range(layers):
        name = "attn_k" if layer in attention else "ssm_in"
        file.tensor(f"blk.{layer}.{name}.weight", (3072, 768))
    return file.close()


def test_recurrent_layers_have_a_state_of_constant_size(tmp_path: Path) -> None:
    estimated = estimate(mamba(tmp_path / "m.gguf"), context=4096)
    assert estimated.cache_bytes / MIB == pytest.approx(0.45, abs=0.005)
    assert estimated.cache_bytes == estimate(mamba(tmp_path / "n.gguf"), context=99).cache_bytes


def test_hybrid_models_cache_keys_only_in_attention_layers(tmp_path: Path) -> None:
    caches = estimate(mamba(tmp_path / "m.gguf", attention=(2,)), context=4096).caches
    assert caches[2] == 4096 * 768 * 2 * 2
    assert {size for index, size in enumerate(caches) if index != 2} == {114 * 1024}


def test_layers_can_have_different_numbers_of_heads(tmp_path: Path) -> None:
    path = llama(tmp_path / "m.gguf", layers=3, kv_heads=[8, 0, 4])
    assert estimate(path, context=256).caches == (MIB, 0, MIB // 2)


def test_key_and_value_lengths_can_differ(tmp_path: Path) -> None:
    path = llama(tmp_path / "m.gguf", layers=1, attention__key_length=256, attention__value_length=64)
    assert estimate(path, context=256).caches[0] == 256 * 8 * (256 + 64) * 2


def test_non_causal_models_have_no_cache(tmp_path: Path) -> None:
    path = llama(tmp_path / "m.gguf", output=None, architecture="bert", attention__causal=False)
    estimated = estimate(path, context=512)
    assert estimated.cache_bytes == 0


# --- placement of weights -----------------------------------------------------------------------------------


def test_the_input_layer_stays_in_system_memory_and_a_tied_output_layer_is_copied(tmp_path: Path) -> None:
    own = estimate(llama(tmp_path / "own.gguf"), context=256)
    tied = estimate(llama(tmp_path / "tied.gguf", output=None), context=256)
    table = 128256 * 4096 // 256 * 144
    assert own.layout.input_bytes == table
    assert own.layout.output_bytes == 128256 * 4096 // 256 * 210 + 4096 * 4
    assert tied.layout.output_bytes == table + 4096 * 4
    without = own.needed(3) - own.graph(3) - own.cache_bytes
    assert without == own.layout.weights_bytes == read_model(tmp_path / "own.gguf").weights_bytes - table


def test_a_matrix_in_system_memory_needs_a_buffer_on_the_gpu(tmp_path: Path) -> None:
    """llama.cpp copies whole expert tensors, so leaving even one layer in system memory costs gigabytes."""
    file = Writer(tmp_path / "moe.gguf")
    file.keys.add_block_count(2)
    file.keys.add_embedding_length(4096)
    file.keys.add_head_count(32)
    for layer in range(2):
        file.tensor(f"blk.{layer}.ffn_up_exps.weight", (64, 14336, 4096), Q.Q4_K)
    estimated = estimate(file.close(), context=256)
    assert estimated.graph(1) >= 64 * 14336 * 4096 // 256 * 144
    assert estimated.graph(3) == MIN_GRAPH_BYTES
    assert any(
        "3.9 GiB of the model are experts" in note and "--n-cpu-moe" in note
        for note in estimated.layout.notes
    )


def test_a_sliding_window_makes_the_cache_an_upper_bound(tmp_path: Path) -> None:
    estimated = estimate(llama(tmp_path / "m.gguf", attention__sliding_window=1024), context=8192)
    assert estimated.cache_bytes == 64 * MIB
    assert any("1,024 tokens" in note and "upper bound" in note for note in estimated.layout.notes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"general.architecture": 7}, "does not specify its architecture"),
        ({"general.type": "adapter"}, "its type is adapter"),
        (
            {"llama.attention.head_count": None, "llama.attention.head_count_kv": None},
            "the number of KV heads",
        ),
        ({"llama.embedding_length": None}, "the key and value lengths"),
        ({"llama.block_count": 10**9}, "no layers named blk.N"),
    ],
)
def test_incomplete_metadata_is_an_error(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    model = read_model(llama(tmp_path / "m.gguf"))
    metadata = {key: value for key, value in {**model.metadata, **change}.items() if value is not None}
    with pytest.raises(RocenvError, match=says) as caught:
        fit(replace(model, metadata=metadata), 16 * GIB, Use())
    assert caught.value.code == "model-unknown"


# --- the number of layers ----------------------------------------------------------------------------------


def layout(layers: tuple[Layer, ...], **more: Any) -> ModelLayout:
    values: dict[str, Any] = {
        "layers": layers,
        "input_bytes": 0,
        "output_bytes": 0,
        "output_matrix_bytes": 0,
        "key_length": 128,
        "value_length": 128,
        "embedding": 0,
        "heads": 0,
        "feed_forward": 0,
        "vocabulary": 0,
        "context": 0,
        "unknown": (),
        "notes": (),
    }
    return ModelLayout(**{**values, **more})


sizes = st.integers(0, 2 * GIB)
layouts = st.builds(
    lambda layers, output, matrix, embedding, heads, wide, words: layout(
        tuple(layers),
        output_bytes=output,
        output_matrix_bytes=min(matrix, output),
        embedding=embedding,
        heads=heads,
        feed_forward=wide,
        vocabulary=words,
    ),
    st.lists(
        st.builds(
            lambda weights, part, heads, state: Layer(
                weights_bytes=weights, largest_bytes=weights // part, kv_heads=heads, state_bytes=state
            ),
            sizes,
            st.integers(1, 9),
            st.integers(0, 64),
            st.integers(0, MIB),
        ),
        min_size=1,
        max_size=12,
    ),
    sizes,
    sizes,
    st.integers(0, 16384),
    st.integers(0, 128),
    st.integers(0, 65536),
    st.integers(0, 300_000),
)
uses = st.builds(
    Use,
    context=st.integers(1, 200_000),
    batch=st.sampled_from([1, 64, 512, 2048]),
    cache_k=st.sampled_from(["f16", "q8_0", "q4_0"]),
    cache_v=st.sampled_from(["f16", "q8_0"]),
    flash_attention=st.booleans(),
)
frees = st.integers(0, 64 * GIB)


def by_hand(of: ModelLayout, use: Use, layers: int) -> int:
    """Compute the memory for this many layers independently of the code under test."""
    count = len(of.layers)
    bytes_of = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
    row = 128 * (bytes_of[use.cache_k] + bytes_of[use.cache_v])
    tokens = (use.context + 255) // 256 * 256
    on_gpu = [of.layers[index] for index in range(count) if index >= count - layers]
    cache = sum(int(tokens * layer.kv_heads * row) + layer.state_bytes for layer in on_gpu)
    weights = sum(layer.weights_bytes for layer in on_gpu)
    flash = use.flash_attention or use.cache_v != "f16"
    seen = tokens if any(layer.kv_heads for layer in of.layers) else 0
    numbers = 7 * of.embedding + max(3 * of.feed_forward, of.vocabulary, 0 if flash else of.heads * seen)
    graph = 4 * use.batch * numbers + (2 if flash else 4) * use.batch * seen
    if layers > count:
        return weights + of.output_bytes + cache + max(graph, 600 * MIB)
    left = max((layer.largest_bytes for layer in of.layers[: count - layers]), default=0)
    copied = max(
        4 * use.batch * (of.vocabulary + 2 * of.embedding) + of.output_matrix_bytes,
        12 * use.batch * of.feed_forward + left,
    )
    first = weights - on_gpu[0].weights_bytes + of.output_bytes
    return max(weights, first) + cache + max(graph, copied, 600 * MIB)


@settings(max_examples=300, deadline=None)
@given(of=layouts, use=uses, free=frees)
def test_the_number_of_layers_is_the_largest_that_fits(of: ModelLayout, use: Use, free: int) -> None:
    count = len(of.layers)
    fitting = [layers for layers in range(1, count + 2) if by_hand(of, use, layers) + MARGIN_BYTES <= free]
    estimated = fit_of(estimate_of(of, use), free)
    assert estimated.layers == max(fitting, default=0)
    assert estimated.everything == (estimated.layers == count + 1)
    assert not estimated.layers or estimated.needed_bytes == by_hand(of, use, estimated.layers)


@settings(max_examples=200, deadline=None)
@given(of=layouts, use=uses, free=frees, more=frees, longer=st.integers(0, 100_000))
def test_the_number_of_layers_grows_with_memory_and_shrinks_with_context(
    of: ModelLayout, use: Use, free: int, more: int, longer: int
) -> None:
    here = estimate_of(of, use)
    layers = fit_of(here, free).layers
    assert fit_of(here, free + more).layers >= layers
    assert fit_of(estimate_of(of, replace(use, context=use.context + longer)), free).layers <= layers


@settings(max_examples=100, deadline=None)
@given(of=layouts, use=uses, free=frees)
def test_every_suggestion_fits_the_claimed_number_of_layers(of: ModelLayout, use: Use, free: int) -> None:
    here = estimate_of(of, use)
    before = fit_of(here, free)
    found = ways_to_fit(here, free)
    for way in found:
        words = dict(zip(way.arguments[::2], way.arguments[1::2], strict=True))
        tried = replace(
            here.use,
            context=int(words.get("-c", here.use.context)),
            batch=int(words.get("-ub", here.use.batch)),
            cache_k=words.get("-ctk", here.use.cache_k),
            cache_v=words.get("-ctv", here.use.cache_v),
            flash_attention=here.use.flash_attention or "-fa" in words,
        )
        estimated = fit_of(estimate_of(of, tried), free)
        assert (way.layers, way.needed_bytes, way.context) == (
            estimated.layers,
            estimated.needed_bytes,
            tried.context,
        )
        assert way.layers > before.layers
        assert way.everything or "-c" not in words
    most = longest_context(of, here.use, free)
    if most:
        assert fit_of(estimate_of(of, replace(here.use, context=most)), free).everything
    if here.use.context >= 512 and most < here.use.context // 256 * 256:
        beyond = replace(here.use, context=max(most + 256, 512))
        assert not fit_of(estimate_of(of, beyond), free).everything


numbers = st.one_of(
    st.none(),
    st.integers(-5, 2**64),
    st.booleans(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(-5, 2**64), max_size=5).map(tuple),
)
KEYS = (
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.causal",
    "attention.sliding_window",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.conv_kernel",
    "expert_used_count",
)


@settings(max_examples=300, deadline=None)
@given(values=st.tuples(*[numbers] * len(KEYS)), seed=st.integers(0, 1000), free=frees)
def test_any_header_yields_an_estimate_or_an_error(values: tuple[Any, ...], seed: int, free: int) -> None:
    from pathlib import Path

    chance = random.Random(seed)
    parts = ("attn_k.weight", "ssm_in.weight", "ffn_up_exps.weight", "", ".")
    tensors = tuple(
        Tensor(
            name=f"blk.{chance.choice([0, 1, 5, 999999999])}.{chance.choice(parts)}{number}",
            shape=(8,) * chance.randint(0, 4),
            kind="F32",
            n_bytes=chance.randint(0, 1 << 62),
            offset=0,
        )
        for number in range(chance.randint(0, 6))
    )
    metadata = {f"any.{key}": value for key, value in zip(KEYS, values, strict=True) if value is not None}
    model = Model(path=Path("m.gguf"), metadata={"general.architecture": "any", **metadata}, tensors=tensors)
    try:
        estimated = fit(model, free, Use())
    except RocenvError as error:
        assert error.code == "model-unknown"
    else:
        assert 0 <= estimated.layers <= estimated.of_layers
