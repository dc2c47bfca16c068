"""Which arguments are added to an app's: only those that its help has, and none against the user's will."""

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

from rocenv.core.model import Request
from rocenv.data.apps import CONDITIONS, Flag, Launcher
from rocenv.data.load import load
from rocenv.launch.flags import Situation, choose_flags
from rocenv.launch.options import Given, Options, read_help
from rocenv.memory.estimate import fit
from rocenv.memory.gguf import read_model
from tests.launch.apps import HELPS, LISTED, MIB, Bench, arguments, carry, write_model

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
    def test_what_is_defined_and_not_what_is_mentioned(
        self, name: str, has: tuple[str, ...], lacks: tuple[str, ...]
    ) -> None:
        options = helped(name)
        assert [each for each in has if each not in options] == []
        assert [each for each in lacks if each in options] == []

    def test_names_values_variables_and_defaults_of_an_argument(self) -> None:
        found = helped("llama.cpp-new").by_name["-ngl"]
        assert found.names == ("-ngl", "--gpu-layers", "--n-gpu-layers")
        assert (found.value, found.variable, found.default) == ("N", "LLAMA_ARG_N_GPU_LAYERS", "auto")
        assert helped("llama.cpp-old").by_name["-c"].default == "4096"
        assert helped("llamafile-0.9.3").by_name["--ctx-size"].names == ("-c", "--ctx-size")

    def test_a_sentence_defines_nothing(self) -> None:
        """Examples and notes of helps stand at the same column as definitions."""
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
    def test_lines_without_end_are_read_in_no_time(self, line: str) -> None:
        began = time.monotonic()
        read_help(f"{line}\n" * 2)
        assert time.monotonic() - began < 2

    def test_a_value_is_no_argument(self) -> None:
        words = ("-p", "-ngl", "--fit", "off", "-h")
        users = Given(words=words, environ={}, options=helped("llama.cpp-new"))
        assert users.value("-p") == "-ngl"
        assert not users.has("-ngl")
        assert users.says("--fit off")
        assert users.has("-h")

    def test_arguments_behind_dashes_are_those_of_another(self) -> None:
        words = ("-m", "x", "--", "-ngl", "0", "-p", "--cycles-device=CPU")
        options = helped("llama.cpp-new")
        users = Given(words=words, environ={}, options=options, behind=("--cycles-device",))
        assert (users.has("-m"), users.has("-ngl"), users.says("--cycles-device CPU")) == (True, False, True)
        users = replace(users, words=("--cycles-device", "CPU", "-p", "--", "-ngl", "0"))
        assert (users.has("--cycles-device"), users.value("-ngl")) == (False, "0")
        assert Given(words=words, environ={}, options=options).value("-ngl") == "0", "where `--` ends nothing"

    @given(st.text(alphabet=" -\n\tab,=<>[]{}N|:(\x00é", max_size=400))
    def test_anything_can_be_a_help(self, text: str) -> None:
        assert all(name.startswith("-") for name in read_help(text).by_name)


WORDS = st.sampled_from(["--device", "-dev", "--gpu", "-ngl", "--gpu-layers", "--fit-target", "-fitt", "--x"])
FLAGS = st.builds(
    Flag,
    words=st.builds(lambda name, rest: (name, *rest), WORDS, st.sampled_from([(), ("{device}",), ("amd",)])),
    spellings=st.lists(WORDS, max_size=2).map(tuple),
    when=st.lists(st.sampled_from([*CONDITIONS, *(f"not-{each}" for each in CONDITIONS)]), max_size=2).map(
        tuple
    ),
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
        st.dictionaries(st.sampled_from(CONDITIONS), st.booleans()),
    )
    def test_nothing_is_added_that_the_help_lacks_or_the_user_gave(
        self, flags: list[Flag], name: str, words: list[str], conditions: dict[str, bool]
    ) -> None:
        options = helped(name) if name else Options(problem="it crashed")
        row = structs.replace(ROWS["llama.cpp"], flags=tuple(flags))
        users = Given(words=tuple(words), environ={}, options=options)
        choice = choose_flags(row, Situation(given=users, conditions=conditions, places={"device": "ROCm0"}))
        for each in choice.added:
            assert each.flag.always_known or each.words[0] in options
            assert not any(users.has(given) for given in (each.words[0], *each.flag.unless))
            assert not any("{" in word for word in each.words)
            for condition in each.flag.when:
                wanted = not condition.startswith("not-")
                assert conditions.get(condition.removeprefix("not-")) is wanted

    def test_profiles_ask_for_what_can_be_known_and_for_all_of_it(self) -> None:
        asked = {
            name.removeprefix("not-") for row in ROWS.values() for flag in row.flags for name in flag.when
        }
        assert asked == set(CONDITIONS)


class TestLlamafile:
    def test_0_9_3(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        model = write_model(bench.app / "a model.gguf")
        carry(bench.program("m.llamafile", "llamafile-0.9.3"), model, "-m", "/zip/a model.gguf", "...")
        done = bench.launch("./m.llamafile", "-p", "hi")
        assert arguments(done) == "--gpu amd -p hi -ngl 5", done.stderr
        assert b"5 of 5 layers" in done.stderr

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
    def test_0_9_3_where_blas_fails(self, bench: Bench, rungs: dict[str, str] | None, blas: bool) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=blas, rungs=rungs)
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch("./m.llamafile")
        assert arguments(done) == "--gpu amd -ngl 999 --tinyblas --recompile"
        assert all(gain in done.stderr.decode() for gain in GAINS)
        assert "starts `hipcc`" in done.stderr.decode(), "without a compiler it cannot build anything"
        (bench.app / "bin").mkdir()
        (bench.app / "bin/hipcc").write_text("#!/bin/sh\n")
        (bench.app / "bin/hipcc").chmod(0o755)
        done = bench.launch("./m.llamafile", HIP_PATH=str(bench.app))
        assert "starts `hipcc`" not in done.stderr.decode()

    @pytest.mark.parametrize(("target", "fails"), [("gfx1103", True), ("gfx1100", False)])
    def test_what_is_known_of_the_set_counts_where_its_files_do_not_tell(
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
    def test_0_9_3_where_other_products_would_not_help(self, bench: Bench, rungs: dict[str, str]) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False, rungs=rungs)
        bench.program("m.llamafile", "llamafile-0.9.3")
        assert "--tinyblas" not in arguments(bench.launch("./m.llamafile"))

    def test_0_10_has_no_way_round_blas_and_that_is_told(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("m.llamafile", "llamafile-0.10", listed=LISTED)
        done = bench.launch("./m.llamafile", "--server")
        assert arguments(done) == "--gpu amd --server --device ROCm0"
        assert "rocBLAS does not work for gfx1103" in done.stderr.decode()
        assert "rocenv create llm2 --rocm" in done.stderr.decode(), "an env whose rocBLAS works"
        assert "up to 0.9.3 with `--tinyblas --recompile`" in done.stderr.decode()

    def test_0_10_chooses_the_layers_itself_and_is_left_to_it(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100", used_mib=2000)
        bench.env_for("gfx1100")
        bench.program("m.llamafile", "llamafile-0.10", listed=LISTED)
        done = bench.launch("./m.llamafile", "-m", "x")
        assert arguments(done) == "--gpu amd -m x --device ROCm0 --fit-target 2464"
        assert "the GPU gets none" not in done.stderr.decode(), "true of older versions only"
        done = bench.launch("./m.llamafile", "--fit", "off", "-m", str(model))
        assert arguments(done).endswith("--device ROCm0 -ngl 5")
        assert "the GPU gets none" not in done.stderr.decode()
        done = bench.launch("./m.llamafile", "--gpu", "vulkan")
        assert arguments(done) == "--gpu vulkan"
        assert "`--gpu vulkan` asks for no GPU of HIP's" in done.stderr.decode()

    def test_tools_beside_it_are_other_programs(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        bench.program("llamafile-quantize", "llama-bench", more='[ "$1" = --help ] && kill -SEGV $$')
        assert arguments(bench.launch("./llamafile-quantize", "a", "b")) == "a b"

    def test_version_that_cannot_be_held_to_the_gpu_is_not_started(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llamafile-0.5", "llama-bench", listed=LISTED)
        done = bench.launch("./llamafile-0.5")
        assert (done.returncode, done.stdout) == (1, b"")
        assert "has no `--gpu`" in done.stderr.decode()
        assert "`rocenv launch llm --app generic -- ./llamafile-0.5`" in done.stderr.decode()

    def test_help_of_a_manual_page_with_bold_letters(self, bench: Bench) -> None:
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
    def test_who_wants_the_cpu_gets_it(self, bench: Bench, words: tuple[str, ...]) -> None:
        bench.env_for("gfx1100")
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch("./m.llamafile", *words)
        assert arguments(done) == " ".join(words)
        assert "asks for the CPU" in done.stderr.decode()

    def test_what_is_given_is_left_alone(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch(
            "./m.llamafile", "--gpu", "rocm", "--n-gpu-layers", "7", "--tinyblas", "--nocompile"
        )
        assert arguments(done) == "--gpu rocm --n-gpu-layers 7 --tinyblas --nocompile"

    def test_help_alone_is_passed_on(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        bench.program("m.llamafile", "llamafile-0.9.3")
        done = bench.launch("./m.llamafile", "--help")
        assert done.stdout.startswith(b"LLAMAFILE(1)")

    def test_arguments_of_the_file_that_others_would_replace_are_given_too(self, bench: Bench) -> None:
        bench.env_for("gfx1100")
        model = write_model(bench.app / "m.gguf")
        program = bench.program("m.llamafile", "llamafile-0.9.3")
        carry(program, model, "-m", "/zip/m.gguf", "--server")
        done = bench.launch("./m.llamafile")
        assert arguments(done).startswith("--gpu amd -m /zip/m.gguf --server -ngl"), done.stderr

    def test_arguments_that_replace_those_of_the_file_load_none_of_its_models(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        model = write_model(bench.app / "m.gguf")
        carry(bench.program("m.llamafile", "llamafile-0.9.3"), model, "-m", "/zip/m.gguf", "-ngl", "0")
        done = bench.launch("./m.llamafile", "-c", "100")
        assert arguments(done) == "--gpu amd -c 100 -ngl 999"
        assert "all of them, since no file of a model is named" in done.stderr.decode()
        done = bench.launch("./m.llamafile", "-m", "/zip/m.gguf")
        assert arguments(done) == "--gpu amd -m /zip/m.gguf -ngl 5"

    def test_a_program_that_the_system_takes_for_none_is_asked_through_a_shell(self, bench: Bench) -> None:
        """A llamafile is run by the shell where the kernel has not been told of its format."""
        bench.env_for("gfx1100")
        path = bench.program("m.llamafile", "llamafile-0.9.3")
        assert path.read_bytes().startswith(b"MZ")
        assert arguments(bench.launch("./m.llamafile")).startswith("--gpu amd")
        assert arguments(bench.launch("sh", "./m.llamafile")).startswith("--gpu amd")


class TestLlamaCpp:
    def test_new_version_fits_itself_and_is_told_the_margin(self, bench: Bench) -> None:
        bench.machine("gfx1100", used_mib=2000)
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        # 24000 MiB free by HIP, 24560 - 2000 by the kernel
        assert arguments(done) == "-m x.gguf --device ROCm0 --fit-target 2464"
        assert "1024 MiB, and 1440 MiB more that HIP calls free while others have it" in done.stderr.decode()
        bench.machine("gfx1100")
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        assert "choo" in done.stderr.decode()
        assert ": 1024 MiB\n" in done.stderr.decode(), "nobody else has any"

    def test_a_prompt_is_no_argument(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        assert "--device ROCm0" in arguments(bench.launch("./llama-cli", "-p", "--version"))

    @pytest.mark.parametrize("words", [("-c", "99999999999999"), ("-c", "-5"), ("-ctk", "weird")])
    def test_sizes_that_are_none(self, bench: Bench, words: tuple[str, ...]) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "--fit", "off", "-m", str(model), *words)
        assert arguments(done).endswith("--gpu-layers 999")
        assert f"{words[1]}` is not known" in done.stderr.decode()
        assert "5 of 5" not in done.stderr.decode()

    def test_old_version_is_told_the_layers(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100", total_mib=1624 + 50)
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-old", listed=LISTED)
        wanted = fit(read_model(model), (1624 + 50) * MIB, context=4096)
        assert 0 < wanted.layers < wanted.of_layers
        done = bench.launch("./llama-cli", "-m", str(model))
        assert arguments(done).endswith(f"--device ROCm0 --gpu-layers {wanted.layers}"), done.stderr

    def test_user_switches_the_fitting_off(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "--fit", "off", "-m", str(model))
        assert arguments(done).endswith("--device ROCm0 --gpu-layers 5")

    def test_no_layer_fits(self, bench: Bench) -> None:
        model = write_model(bench.root / "m.gguf")
        bench.machine("gfx1100", total_mib=900)
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-old", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", str(model))
        assert (done.returncode, done.stdout) == (1, b"")
        assert "no layer of the model fits" in done.stderr.decode()

    @pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\0\0\0" + b"\xff" * 64, b"<html>"])
    def test_model_that_cannot_be_read(self, bench: Bench, content: bytes) -> None:
        (bench.app / "m.gguf").write_bytes(content)
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "llama.cpp-old", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", "m.gguf")
        assert arguments(done).endswith("--gpu-layers 999"), "all of them, which fails and does not go on"
        assert "all of them, since" in done.stderr.decode()

    def test_variables_count_as_given(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-server", "llama.cpp-old", listed=LISTED)
        words = ("./llama-server", "-m", "m.gguf")
        done = bench.launch(*words, LLAMA_ARG_DEVICE="ROCm0", LLAMA_ARG_N_GPU_LAYERS="12")
        assert arguments(done) == "-m m.gguf"
        done = bench.launch(*words, LLAMA_ARG_DEVICE="none")
        assert "asks for the CPU" in done.stderr.decode()
        done = bench.launch("./llama-server", LLAMA_ARG_MODEL="m.gguf")
        assert arguments(done) == "--device ROCm0 --gpu-layers 999"

    @pytest.mark.parametrize(
        ("name", "given_word", "instead"),
        [("llama.cpp-new", "--no-mmap", "--load-mode none"), ("llama.cpp-old", "--load-mode", "--no-mmap")],
    )
    def test_argument_of_another_version_is_told(
        self, bench: Bench, name: str, given_word: str, instead: str
    ) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", name, listed=LISTED)
        done = bench.launch("./llama-cli", given_word)
        assert f"has no `{given_word}`" in done.stderr.decode()
        assert f"it is `{instead}` there" in done.stderr.decode()

    def test_help_that_fails_is_told_and_nothing_guessed(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("my dir/llama-cli", "none", listed=LISTED, more='[ "$1" = --help ] && kill -SEGV $$')
        done = bench.launch("./my dir/llama-cli", "-m", "m.gguf")
        assert arguments(done) == "-m m.gguf"
        assert "SIGSEGV" in done.stderr.decode()
        assert "`rocenv run llm -- './my dir/llama-cli' --help`" in done.stderr.decode(), "can be typed"
        assert "nothing was added" in done.stderr.decode()

    @pytest.mark.parametrize(
        "more", ['[ "$1" = --help ] && exec yes -- --gpu', '[ "$1" = --help ] && exec cat /dev/zero']
    )
    def test_help_without_end(self, bench: Bench, more: str) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-cli", "none", listed=LISTED, more=more)
        done = bench.launch("./llama-cli", "x")
        assert arguments(done) == "x"
        assert "it printed too much" in done.stderr.decode()

    def test_of_its_other_programs_their_own_help_decides(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        bench.program("llama-tts", "llama.cpp-new", listed=LISTED)
        assert arguments(bench.launch("./llama-tts")) == "--device ROCm0"
        bench.program("llama-new", "llamafile-0.9.3")
        done = bench.launch("./llama-new", "a", "b")
        assert arguments(done) == "a b"
        assert "`llama-new` is not known as a program of llama.cpp" in done.stderr.decode()
        assert "its help has no `--device`" in done.stderr.decode()

    def test_tools_without_work_for_a_gpu_are_left_alone(self, bench: Bench) -> None:
        bench.machine("gfx1100")
        bench.env_for("gfx1100")
        for name in ("llama-quantize", "llama-gguf-split", "llama-tokenize"):
            bench.program(name, "llamafile-0.9.3")
            done = bench.launch(f"./{name}", "a", "b")
            assert arguments(done) == "a b"
            assert "is not known" not in done.stderr.decode()

    def test_blas_that_fails_is_never_silent(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        bench.program("llama-cli", "llama.cpp-new", listed=LISTED)
        done = bench.launch("./llama-cli", "-m", "x.gguf")
        said = done.stderr.decode()
        assert "rocBLAS does not work for gfx1103" in said
        assert "ubuntu-rocm-gfx110X-x64.zip" in said, "a build whose own rocBLAS has the target"
        assert re.search(r"rocenv create llm2 .*--app llama\.cpp", said), "or it would lack the program"

    def test_program_with_a_rocblas_of_its_own_is_not_warned_of_the_envs(self, bench: Bench) -> None:
        bench.machine("gfx1103", integrated=True)
        bench.env_for("gfx1103", blas=False)
        path = bench.program("build/llama-cli", "llama.cpp-new", listed=LISTED)
        (path.parent / "librocblas.so.5").write_bytes(b"")
        done = bench.launch("./build/llama-cli", "-m", "x.gguf")
        assert "rocBLAS" not in done.stderr.decode()


class TestWhatIsStarted:
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
    def test_programs_that_only_start_it_are_looked_behind(self, new: Bench, before: str) -> None:
        done = new.launch(*before.split(), "./llama-cli", "-m", "x")
        assert arguments(done).startswith("-m x --device ROCm0"), done.stderr

    @pytest.mark.parametrize(
        "before", ["taskset -c 0", "taskset 1", "ionice -c 3", "chrt -b 0", "numactl -N 0"]
    )
    def test_those_that_are_not_everywhere(self, new: Bench, before: str) -> None:
        if shutil.which(before.split()[0]) is None:
            folder = new.app / "bin"
            folder.mkdir()
            (folder / before.split()[0]).write_text(f'#!/bin/sh\nshift {before.count(" ")}\nexec "$@"\n')
            (folder / before.split()[0]).chmod(0o755)
            new.env["PATH"] = f"{folder}:{new.env['PATH']}"
        done = new.launch(*before.split(), "./llama-cli", "-m", "x")
        assert arguments(done).startswith("-m x --device ROCm0"), done.stderr

    def test_what_a_shell_is_given_as_a_text(self, bench: Bench) -> None:
        """Whatever `--app` says, it is not looked into."""
        bench.make("own", platform="linux", target="gfx1100", request=Request(app="llama.cpp"))
        for named in ((), ("--app", "llama.cpp")):
            said = bench.run("launch", "own", *named, "--", "sh", "-c", "true").stderr.decode()
            assert "hint: name llama.cpp's own program in the command\n" in said
            assert "say so" not in said

    def test_no_program_at_all(self, new: Bench) -> None:
        said = new.run("launch", "llm", "--app", "llama.cpp", "--", "-m", "a b").stderr.decode()
        assert "`rocenv launch llm --app llama.cpp -- CMD -m 'a b'`" in said
        assert "name the app" not in said, "it was"

    def test_program_of_another_name_where_the_app_is_named(self, new: Bench) -> None:
        new.program("my own", "llama.cpp-new", listed=LISTED)
        assert arguments(new.launch("./my own", app="llama.cpp")) == "--device ROCm0"
        assert arguments(new.launch("nice", "./my own", app="llama.cpp")) == "--device ROCm0"

    def test_program_that_is_none_of_the_app(self, new: Bench) -> None:
        new.program("other", "llamafile-0.9.3")
        done = new.launch("./other", "x", app="llama.cpp")
        assert arguments(done) == "x"
        said = done.stderr.decode()
        assert "`other` is not known as a program of llama.cpp, and its help has no `--device`" in said
        assert "nothing was added that would hold it to the GPU" in said

    def test_env_of_the_app_asks_no_program_that_nobody_called_one(self, bench: Bench) -> None:
        """To be asked for its help may start a script that knows no arguments."""
        bench.machine("gfx1100")
        bench.make("own", platform="linux", target="gfx1100", request=Request(app="llama.cpp"))
        bench.program("work.sh", "llama.cpp-new", more=f"echo ran >>'{bench.root}/ran'")
        done = bench.run("launch", "own", "--", "./work.sh", "a b")
        assert arguments(done) == "a b"
        assert (bench.root / "ran").read_text() == "ran\n"
        said = done.stderr.decode()
        assert "`work.sh` is a script, which is not asked for what it knows: nothing was added" in said
        assert "hint: name llama.cpp's own program in the command" in said
        bench.program("other", "llama.cpp-new", more=f"echo ran >>'{bench.root}/ran'")
        done = bench.run("launch", "own", "--", "./other", "a b")
        assert "`rocenv launch own --app llama.cpp -- ./other 'a b'`" in done.stderr.decode()
        assert (bench.root / "ran").read_text() == "ran\nran\n"

    @pytest.mark.parametrize("command", ["./llama-run.sh", "sh ./llama-run.sh", "sh work.sh", "./work.sh"])
    def test_a_script_is_started_once_whatever_it_is_said_to_be(self, new: Bench, command: str) -> None:
        """It may do all of its work whatever it is asked."""
        for name in ("llama-run.sh", "work.sh"):
            new.program(name, "llama.cpp-new", more=f"echo ran >>'{new.root}/ran'")
        done = new.launch(*command.split(), "-m", "x", app="llama.cpp")
        assert arguments(done) == "-m x"
        assert (new.root / "ran").read_text() == "ran\n"
        assert "is a script, which is not asked for what it knows" in done.stderr.decode()


def test_profile_of_a_user_needs_nothing_of_all_this() -> None:
    row = Launcher(key="x", title="X", status="tested", source="x", checked="2026-11-22")
    situation = Situation(given=Given(words=(), environ={}, options=Options()), conditions={})
    assert choose_flags(row, situation).added == ()
