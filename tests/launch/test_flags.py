"""Arguments that `launch` adds if the app's help lists them and the user's arguments allow them."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from rocenv.apps.arguments import choose_flags
from rocenv.apps.options import Given, Options, read_help
from rocenv.core.model import Request
from rocenv.data.apps import Flag, Launcher
from rocenv.data.load import load
from rocenv.memory.estimate import Use, fit
from rocenv.memory.gguf import read_model
from tests.launch.apps import HELPS, LISTED, MIB, Bench, arguments, carry, write_model
from tests.launch.lab import english_lines

if TYPE_CHECKING:
    from pathlib import Path

GAINS = ("2.3 times", "8 times")
ROWS = {row.key: row for row in load().launcher}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "a place")


def helped(name: str) -> Options:
    return read_help((HELPS / f"{name}.txt").read_text())


class TestHelp:
    @pytest.mark.parametrize(
        ("name", "has", "lacks"),
        [
            (
                "llamafile-0.9.3",
                ("--gpu", "-ngl", "--tinyblas", "--recompile", "--no-mmap"),
                ("--fit", "--chat"),
            ),
            (
                "llamafile-0.10",
                ("--gpu", "-ngl", "--fit", "-fitt"),
                ("--tinyblas", "--recompile", "--no-mmap"),
            ),
            (
                "llama.cpp-new",
                ("--device", "--fit", "--fit-target", "--load-mode"),
                ("--no-mmap", "--draft-n"),
            ),
            ("llama.cpp-old", ("--device", "--no-mmap", "--mlock"), ("--fit", "--load-mode")),
            ("llama-bench", ("-dev", "--fit-target", "-ot", "--override-tensor"), ("--fit", "--no-mmap")),
        ],
    )
    def test_option_definitions_in_help_are_parsed_and_mere_mentions_ignored(
        self, name: str, has: tuple[str, ...], lacks: tuple[str, ...]
    ) -> None:
        options = helped(name)
        assert [each for each in has if each not in options] == []
        assert [each for each in lacks if each in options] == []

    def test_an_options_names_value_variable_and_default_are_parsed(self) -> None:
        found = helped("llama.cpp-new").by_name["-ngl"]
        assert found.names == ("-ngl", "--gpu-layers", "--n-gpu-layers")
        assert (found.value, found.variable, found.default) == ("N", "LLAMA_ARG_N_GPU_LAYERS", "auto")
        assert helped("llama.cpp-old").by_name["-c"].default == "4096"
        assert helped("llamafile-0.9.3").by_name["--ctx-size"].names == ("-c", "--ctx-size")

    def test_sentences_in_help_are_not_mistaken_for_option_definitions(self) -> None:
        """Examples and notes start in the same column as definitions."""
        text = (
            "  -m FILE, --model FILE\n  --list-devices  say it\n  --two A B  two\n  -q or --quick \n\tfast\n"
        )
        text += "  -ot <name>=<type>,...\n  --pair name=type\n  --tab\tsay\n\nexamples:\n"
        text += "  --fake is not there in this version\n  --gone, which was there\n  --old has a new name\n"
        wanted = ["-m", "--model", "--list-devices", "--two", "-q", "--quick", "-ot", "--pair", "--tab"]
        assert sorted(read_help(text).by_name) == sorted(wanted)

    @pytest.mark.parametrize(
        "line", ["  --a " + "=" * 500_000, "  --a " + "A " * 250_000 + "b", "  --a, " * 90_000]
    )
    def test_long_help_lines_are_parsed_quickly(self, line: str) -> None:
        began = time.monotonic()
        read_help(f"{line}\n" * 2)
        assert time.monotonic() - began < 2

    def test_option_values_are_not_mistaken_for_options(self) -> None:
        words = ("-p", "-ngl", "--fit", "off", "-h")
        users = Given(words=words, environ={}, options=helped("llama.cpp-new"))
        assert users.value("-p") == "-ngl"
        assert not users.has("-ngl")
        assert users.says("--fit off")
        assert users.has("-h")

    def test_arguments_after_dashes_belong_to_a_different_program(self) -> None:
        words = ("-m", "x", "--", "-ngl", "0", "-p", "--cycles-device=CPU")
        options = helped("llama.cpp-new")
        users = Given(words=words, environ={}, options=options, behind=("--cycles-device",))
        assert (users.has("-m"), users.has("-ngl"), users.says("--cycles-device CPU")) == (True, False, True)
        users = replace(users, words=("--cycles-device", "CPU", "-p", "--", "-ngl", "0"))
        assert (users.has("--cycles-device"), users.value("-ngl")) == (False, "0")
        assert Given(words=words, environ={}, options=options).value("-ngl") == "0", (
            "without `behind`, `--` has no special meaning"
        )

    @given(st.text(alphabet=" -\n\tab,=<>[]{}N|:(\x00é", max_size=400))
    def test_any_text_can_be_parsed_as_help(self, text: str) -> None:
        assert all(name.startswith("-") for name in read_help(text).by_name)


WORDS = st.sampled_from(["--device", "-dev", "--gpu", "-ngl", "--gpu-layers", "--fit-target", "-fitt", "--x"])
FLAGS = st.builds(
    Flag,
    words=st.builds(lambda name, rest: (name, *rest), WORDS, st.sampled_from([(), ("{device}",), ("amd",)])),
    spellings=st.lists(WORDS, max_size=2).map(tuple),
    unless=st.lists(WORDS, max_size=1).map(tuple),
    place=st.sampled_from(["first", "last"]),
    required=st.booleans(),
    always_known=st.booleans(),
)


class TestChoice:
    @settings(max_examples=300)
    @given(
        st.lists(FLAGS, max_size=5),
        st.sampled_from(
            ["llamafile-0.9.3", "llamafile-0.10", "llama.cpp-new", "llama.cpp-old", "llama-bench", ""]
        ),
        st.lists(WORDS, max_size=2),
        st.booleans(),
    )
    def test_only_listed_arguments_that_the_user_omits_are_added(
        self, flags: list[Flag], name: str, words: list[str], from_adapter: bool
    ) -> None:
        options = helped(name) if name else Options(problem="it crashed")
        row = structs.replace(ROWS["llama.cpp"], flags=() if from_adapter else tuple(flags))
        users = Given(words=tuple(words), environ={}, options=options)
        choice = choose_flags(row, users, {"device": "ROCm0"}, flags if from_adapter else ())
        for each in choice.added:
            assert each.flag.always_known or each.words[0] in options
            assert not any(users.has(given) for given in (each.words[0], *each.flag.unless))
            assert not any("{" in word for word in each.words)


class TestLlamafile:
    def test_llamafile_0_9_3_gets_the_gpu_and_the_number_of_layers(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        model = write_model(bench.app / "a model.gguf")
        carry(bench.program("m.llamafile", "llamafile-0.9.3"), model, "-m", "/zip/a model.gguf", "...")
        done = bench.launch("./m.llamafile", "-p", "hi")
        assert arguments(done) == "--gpu amd -p hi -ngl 5", done.stderr
        assert b"5 of 5 layers" in done.stderr

    def test_the_reasons_for_arguments_are_in_the_users_language(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("m.llamafile", "llamafile-0.9.3")
        said = bench.launch("./m.llamafile", LC_ALL="zh_CN.UTF-8").stderr.decode().partition("日志：")[0]
        assert "已添加 `--gpu amd`：让程序报错退出，而不是改用 CPU\n" in said
        assert "已添加 `-ngl 999`：全部层（没有指定模型文件）；不加 `-ngl` 时，这个版本使用 CPU\n" in said
        assert "已添加 `--tinyblas`：环境中的 rocBLAS 不能用于 gfx1103，" in said
        assert english_lines(said) == []

    @pytest.mark.parametrize(
        ("rungs", "blas"),
        [
            ({"kernel": "passed", "gemm": "passed", "blas": "failed"}, True),
            ({"kernel": "passed", "gemm": "passed", "blas": "crashed"}, True),
            ({"kernel": "skipped", "gemm": "skipped", "blas": "skipped"}, False),
            (None, False),
        ],
        ids=["blas failed", "blas crashed", "no kernels, not tried", "no kernels, never verified"],
    )
    def test_llamafile_0_9_3_avoids_a_failing_rocblas(
        self, bench: Bench, rungs: dict[str, str] | None, blas: bool
    ) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=blas, rungs=rungs)
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch("./m.llamafile")
        assert arguments(done) == "--gpu amd -ngl 999 --tinyblas --recompile"
        assert all(gain in done.stderr.decode() for gain in GAINS)
        assert "needs `hipcc`" in done.stderr.decode(), "llamafile needs a compiler to build its GPU library"
        (bench.app / "bin").mkdir()
        (bench.app / "bin/hipcc").write_text("#!/bin/sh\n")
        (bench.app / "bin/hipcc").chmod(0o755)
        done = bench.launch("./m.llamafile", HIP_PATH=str(bench.app))
        assert "needs `hipcc`" not in done.stderr.decode()

    @pytest.mark.parametrize(("target", "fails"), [("gfx1103", True), ("gfx1100", False)])
    def test_data_rows_determine_rocblas_support_if_the_env_has_no_rocblas_files(
        self, bench: Bench, target: str, fails: bool
    ) -> None:
        bench.machine(target)
        bench.env_for(target, blas=None)
        bench.program("m.llamafile", "llamafile-0.9.3")
        assert ("--tinyblas" in arguments(bench.launch("./m.llamafile"))) == fails

    @pytest.mark.parametrize(
        "rungs",
        [{"kernel": "passed", "gemm": "passed", "blas": "passed"}, {"memory": "failed", "blas": "skipped"}],
        ids=["blas works", "the GPU itself does not work"],
    )
    def test_llamafile_0_9_3_uses_rocblas_if_tinyblas_would_not_help(
        self, bench: Bench, rungs: dict[str, str]
    ) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False, rungs=rungs)
        bench.program("m.llamafile", "llamafile-0.9.3")
        assert "--tinyblas" not in arguments(bench.launch("./m.llamafile"))

    def test_llamafile_0_10_cannot_avoid_a_failing_rocblas(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("m.llamafile", "llamafile-0.10", listed=LISTED)
        done = bench.launch("./m.llamafile", "--server")
        assert arguments(done) == "--gpu amd --server --device ROCm0"
        assert "rocBLAS does not work on gfx1103" in done.stderr.decode()
        assert "rocenv create llm2 --rocm" in done.stderr.decode(), (
            "the suggested env has a rocBLAS that works"
        )
        assert "llamafile 0.9.3 or earlier with `--tinyblas --recompile`" in done.stderr.decode()

    def test_llamafile_0_10_gets_no_number_of_layers(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100", used_mib=2000)
        bench.env_for("gfx1100")
        bench.program("m.llamafile", "llamafile-0.10", listed=LISTED)
        done = bench.launch("./m.llamafile", "-m", "x")
        assert arguments(done) == "--gpu amd -m x --device ROCm0 --fit-target 2464"
        assert "this version uses the CPU" not in done.stderr.decode(), "only older versions need it"
        done = bench.launch("./m.llamafile", "--fit", "off", "-m", str(model))
        assert arguments(done).endswith("--device ROCm0 -ngl 5")
        assert "this version uses the CPU" not in done.stderr.decode()
        done = bench.launch("./m.llamafile", "--gpu", "vulkan")
        assert arguments(done) == "--gpu vulkan"
        assert "`--gpu vulkan` selects a GPU interface other than HIP" in done.stderr.decode()

    def test_llamafiles_tools_get_no_arguments(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        bench.program("llamafile-quantize", "llama-bench", more='[ "$1" = --help ] && kill -SEGV $$')
        assert arguments(bench.launch("./llamafile-quantize", "a", "b")) == "a b"

    def test_a_version_that_lacks_a_required_argument_is_not_started(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llamafile-0.5", "llama-bench", listed=LISTED)
        done = bench.launch("./llamafile-0.5")
        assert (done.returncode, done.stdout) == (1, b"")
        assert "does not support `--gpu`" in done.stderr.decode()
        assert "`rocenv launch llm --app generic -- ./llamafile-0.5`" in done.stderr.decode()

    def test_help_with_overstruck_bold_letters_is_parsed(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        text = (HELPS / "llamafile-0.9.3.txt").read_text()
        bold = "".join(f"{char}\b{char}" if char.isalnum() or char == "-" else char for char in text)
        (bench.root / "bold.txt").write_text(bold)
        more = f"[ \"$1\" = --help ] && {{ cat '{bench.root}/bold.txt'; exit 0; }}"
        bench.program("llamafile", "llama-bench", more=more)
        assert arguments(bench.launch("./llamafile")).startswith("--gpu amd")

    @pytest.mark.parametrize(
        "words", [("--gpu", "disable"), ("-ngl", "0"), ("--gpu", "DISABLED"), ("--gpu=disable",)]
    )
    def test_no_arguments_are_added_if_the_user_requests_the_cpu(
        self, bench: Bench, words: tuple[str, ...]
    ) -> None:
        bench.env_for("gfx1100")
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch("./m.llamafile", *words)
        assert arguments(done) == " ".join(words)
        assert "selects the CPU" in done.stderr.decode()

    def test_the_users_arguments_are_kept(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch(
            "./m.llamafile", "--gpu", "rocm", "--n-gpu-layers", "7", "--tinyblas", "--nocompile"
        )
        assert arguments(done) == "--gpu rocm --n-gpu-layers 7 --tinyblas --nocompile"

    def test_a_command_that_asks_for_help_runs_unchanged(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch("./m.llamafile", "--help")
        assert done.stdout.startswith(b"LLAMAFILE(1)")

    def test_the_llamafiles_own_arguments_are_repeated(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        model = write_model(bench.app / "m.gguf")
        program = bench.program("m.llamafile", "llamafile-0.9.3")
        carry(program, model, "-m", "/zip/m.gguf", "--server")
        done = bench.launch("./m.llamafile")
        assert arguments(done).startswith("--gpu amd -m /zip/m.gguf --server -ngl"), done.stderr

    def test_the_llamafiles_model_is_ignored_if_its_arguments_are_replaced(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        model = write_model(bench.app / "m.gguf")
        carry(bench.program("m.llamafile", "llamafile-0.9.3"), model, "-m", "/zip/m.gguf", "-ngl", "0")
        done = bench.launch("./m.llamafile", "-c", "100")
        assert arguments(done) == "--gpu amd -c 100 -ngl 999"
        assert "all layers, because no model file was specified" in done.stderr.decode()
        done = bench.launch("./m.llamafile", "-m", "/zip/m.gguf")
        assert arguments(done) == "--gpu amd -m /zip/m.gguf -ngl 5"

    def test_the_help_of_a_program_that_only_a_shell_can_run_is_read(self, bench: Bench) -> None:
        """A shell runs a llamafile if the kernel does not support its format."""
        bench.env_for("gfx1100")
        path = bench.program("m.llamafile", "llamafile-0.9.3")
        assert path.read_bytes().startswith(b"MZ")
        assert arguments(bench.launch("./m.llamafile")).startswith("--gpu amd")
        assert arguments(bench.launch("sh", "./m.llamafile")).startswith("--gpu amd")


class TestLlamaCpp:
    def test_a_new_llama_cpp_gets_a_memory_margin(self, bench: Bench) -> None:
        bench.machine("gfx1100", used_mib=2000)
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        # free: 24000 MiB according to HIP, 24560 - 2000 MiB according to the kernel
        assert arguments(done) == "-m x.gguf --device ROCm0 --fit-target 2464"
        assert (
            "leaves 1024 MiB of GPU memory free, and 1440 MiB more that HIP reports as free"
            in done.stderr.decode()
        )
        bench.machine("gfx1100")
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        assert "leaves 1024 MiB of GPU memory free\n" in done.stderr.decode(), (
            "other programs do not use GPU memory"
        )

    def test_prompts_are_not_mistaken_for_options(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        assert "--device ROCm0" in arguments(bench.launch("./llama-cli", "-p", "--version"))

    @pytest.mark.parametrize("words", [("-c", "99999999999999"), ("-c", "-5"), ("-ctk", "weird")])
    def test_implausible_memory_sizes_add_no_margin(self, bench: Bench, words: tuple[str, ...]) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "--fit", "off", "-m", str(model), *words)
        assert arguments(done).endswith("--gpu-layers 999")
        assert f"{words[1]}` is unknown" in done.stderr.decode()
        assert "5 of 5" not in done.stderr.decode()

    def test_an_old_llama_cpp_gets_the_number_of_layers(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100", total_mib=1624 + 50)
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-old", listed=LISTED)
        wanted = fit(read_model(model), (1624 + 50) * MIB, Use(context=4096))
        assert 0 < wanted.layers < wanted.of_layers
        done = bench.launch("./llama-cli", "-m", str(model))
        assert arguments(done).endswith(f"--device ROCm0 --gpu-layers {wanted.layers}"), done.stderr

    def test_the_number_of_layers_is_set_if_the_user_disables_fit(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "--fit", "off", "-m", str(model))
        assert arguments(done).endswith("--device ROCm0 --gpu-layers 5")

    def test_launch_fails_if_no_layer_fits(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100", total_mib=900)
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-old", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", str(model))
        assert (done.returncode, done.stdout) == (1, b"")
        assert "No layer of the model fits" in done.stderr.decode()

    @pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\0\0\0" + b"\xff" * 64, b"<html>"])
    def test_all_layers_are_requested_for_an_unreadable_model(self, bench: Bench, content: bytes) -> None:
        (bench.app / "m.gguf").write_bytes(content)
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-old", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", "m.gguf")
        assert arguments(done).endswith("--gpu-layers 999"), "the app fails rather than use the CPU"
        assert "all layers, because" in done.stderr.decode()

    def test_environment_variables_count_as_the_users_arguments(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-server", "llama.cpp-old", listed=LISTED)
        words = ("./llama-server", "-m", "m.gguf")
        done = bench.launch(*words, LLAMA_ARG_DEVICE="ROCm0", LLAMA_ARG_N_GPU_LAYERS="12")
        assert arguments(done) == "-m m.gguf"
        done = bench.launch(*words, LLAMA_ARG_DEVICE="none")
        assert "selects the CPU" in done.stderr.decode()
        done = bench.launch("./llama-server", LLAMA_ARG_MODEL="m.gguf")
        assert arguments(done) == "--device ROCm0 --gpu-layers 999"

    @pytest.mark.parametrize(
        ("name", "given_word", "instead"),
        [("llama.cpp-new", "--no-mmap", "--load-mode none"), ("llama.cpp-old", "--load-mode", "--no-mmap")],
    )
    def test_an_argument_from_a_different_version_is_reported(
        self, bench: Bench, name: str, given_word: str, instead: str
    ) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", name, listed=LISTED)
        done = bench.launch("./llama-cli", given_word)
        assert f"does not support `{given_word}`" in done.stderr.decode()
        assert f"Use `{instead}` instead" in done.stderr.decode()

    def test_no_arguments_are_guessed_if_the_help_fails(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("my dir/llama-cli", "none", listed=LISTED, more='[ "$1" = --help ] && kill -SEGV $$')
        done = bench.launch("./my dir/llama-cli", "-m", "m.gguf")
        assert arguments(done) == "-m m.gguf"
        assert "SIGSEGV" in done.stderr.decode()
        assert "`rocenv run llm -- './my dir/llama-cli' --help`" in done.stderr.decode(), (
            "the command is quoted for a shell"
        )
        assert "so it added no GPU options" in done.stderr.decode()

    @pytest.mark.parametrize(
        "more", ['[ "$1" = --help ] && exec yes -- --gpu', '[ "$1" = --help ] && exec cat /dev/zero']
    )
    def test_reading_endless_help_output_stops_early(self, bench: Bench, more: str) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "none", listed=LISTED, more=more)
        done = bench.launch("./llama-cli", "x")
        assert arguments(done) == "x"
        assert "it printed too much" in done.stderr.decode()

    def test_the_arguments_of_each_program_depend_on_its_own_help(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-tts", "llama.cpp-new", listed=LISTED)
        assert arguments(bench.launch("./llama-tts")) == "--device ROCm0"
        bench.program("llama-new", "llamafile-0.9.3")
        done = bench.launch("./llama-new", "a", "b")
        assert arguments(done) == "a b"
        assert "No GPU options were added to `llama-new`" in done.stderr.decode()
        assert "Its help does not list `--device`" in done.stderr.decode()

    def test_no_arguments_are_added_for_tools_that_do_not_use_the_gpu(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        for name in ("llama-quantize", "llama-gguf-split", "llama-tokenize"):
            bench.program(name, "llamafile-0.9.3")
            done = bench.launch(f"./{name}", "a", "b")
            assert arguments(done) == "a b"
            assert "No GPU options" not in done.stderr.decode()

    def test_a_failed_rocblas_check_is_always_reported(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        said = done.stderr.decode()
        assert "rocBLAS does not work on gfx1103" in said
        assert "ubuntu-rocm-gfx110X-x64.zip" in said, (
            "the hint suggests a build whose rocBLAS supports the target"
        )
        assert re.search(r"rocenv create llm2 .*--app llama\.cpp", said), (
            "without `--app`, the env would not contain the program"
        )

    def test_a_program_with_its_own_rocblas_causes_no_warning(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        path = bench.program("build/llama-cli", "llama.cpp-new", listed=LISTED)
        (path.parent / "librocblas.so.5").write_bytes(b"")
        done = bench.launch("./build/llama-cli", "-m", "x.gguf")
        assert "rocBLAS" not in done.stderr.decode()


class TestRecognition:
    @pytest.fixture
    def new(self, bench: Bench) -> Bench:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        return bench

    @pytest.mark.parametrize(
        "before",
        [
            "nice",
            "nice -n 5",
            "env A=1 B=2 C=3 D=4",
            "env -u LANG -- A=1",
            "timeout 10",
            "timeout -k 5 --signal=KILL 10",
            "stdbuf -o L nice -5",
            "nohup",
            "sh",
            "nice sh",
        ],
    )
    def test_programs_after_wrapper_commands_are_recognized(self, new: Bench, before: str) -> None:
        done = new.launch(*before.split(), "./llama-cli", "-m", "x")
        assert arguments(done).startswith("-m x --device ROCm0"), done.stderr

    @pytest.mark.parametrize(
        "before", ["taskset -c 0", "taskset 1", "ionice -c 3", "chrt -b 0", "numactl -N 0"]
    )
    def test_programs_after_optional_wrapper_commands_are_recognized(self, new: Bench, before: str) -> None:
        if shutil.which(before.split()[0]) is None:
            folder = new.app / "bin"
            folder.mkdir()
            (folder / before.split()[0]).write_text(f'#!/bin/sh\nshift {before.count(" ")}\nexec "$@"\n')
            (folder / before.split()[0]).chmod(0o755)
            new.env["PATH"] = f"{folder}:{new.env['PATH']}"
        done = new.launch(*before.split(), "./llama-cli", "-m", "x")
        assert arguments(done).startswith("-m x --device ROCm0"), done.stderr

    def test_inline_scripts_are_not_examined(self, bench: Bench) -> None:
        """rocenv does not examine them even with `--app`."""
        bench.make("own", platform="linux", target="gfx1100", request=Request(app="llama.cpp"))
        for named in ((), ("--app", "llama.cpp")):
            said = bench.run("launch", "own", *named, "--", "sh", "-c", "true").stderr.decode()
            assert "hint: Run one of llama.cpp's own programs instead.\n" in said
            assert "specify the app" not in said

    def test_a_hint_shows_how_to_add_the_missing_program_to_a_command(self, new: Bench) -> None:
        said = new.run("launch", "llm", "--app", "llama.cpp", "--", "-m", "a b").stderr.decode()
        assert "`rocenv launch llm --app llama.cpp -- python3 app.py -m 'a b'`" in said
        assert "specify the app" not in said, "the user specified the app"

    def test_the_app_option_allows_other_program_names(self, new: Bench) -> None:
        new.program("my own", "llama.cpp-new", listed=LISTED)
        assert arguments(new.launch("./my own", app="llama.cpp")) == "--device ROCm0"
        assert arguments(new.launch("nice", "./my own", app="llama.cpp")) == "--device ROCm0"

    def test_an_unrelated_program_gets_no_arguments(self, new: Bench) -> None:
        new.program("other", "llamafile-0.9.3")
        done = new.launch("./other", "x", app="llama.cpp")
        assert arguments(done) == "x"
        said = done.stderr.decode()
        assert "Its help does not list `--device`" in said
        assert "No GPU options were added to `other`" in said

    def test_unknown_programs_in_the_apps_env_are_not_run_for_their_help(self, bench: Bench) -> None:
        """A script that ignores its arguments would do its real work instead of printing help."""
        bench.machine("gfx1100")
        bench.make("own", platform="linux", target="gfx1100", request=Request(app="llama.cpp"))
        bench.program("work.sh", "llama.cpp-new", more=f"echo ran >>'{bench.root}/ran'")
        done = bench.run("launch", "own", "--", "./work.sh", "a b")
        assert arguments(done) == "a b"
        assert (bench.root / "ran").read_text() == "ran\n"
        said = done.stderr.decode()
        assert "No GPU options were added to `work.sh`" in said
        assert "Run the program itself instead" in said
        bench.program("other", "llama.cpp-new", more=f"echo ran >>'{bench.root}/ran'")
        done = bench.run("launch", "own", "--", "./other", "a b")
        assert "`rocenv launch own --app llama.cpp -- ./other 'a b'`" in done.stderr.decode()
        assert (bench.root / "ran").read_text() == "ran\nran\n"

    @pytest.mark.parametrize("command", ["./llama-run.sh", "sh ./llama-run.sh", "sh work.sh", "./work.sh"])
    def test_a_script_runs_only_once(self, new: Bench, command: str) -> None:
        """The script may ignore its arguments, so rocenv does not run it to get its help."""
        for name in ("llama-run.sh", "work.sh"):
            new.program(name, "llama.cpp-new", more=f"echo ran >>'{new.root}/ran'")
        done = new.launch(*command.split(), "-m", "x", app="llama.cpp")
        assert arguments(done) == "-m x"
        assert (new.root / "ran").read_text() == "ran\n"
        assert "It is a script, and rocenv does not run scripts" in done.stderr.decode()


def test_a_minimal_profile_adds_no_arguments() -> None:
    row = Launcher(key="x", title="X", status="tested", source="x", checked="2026-11-22")
    assert choose_flags(row, Given(words=(), environ={}, options=Options()), {}).added == ()
