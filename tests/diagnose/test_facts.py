"""Extraction of facts about the machine from a log, and conditions on facts."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocenv.data.load import load
from rocenv.data.remedies import hold
from rocenv.diagnose import diagnose_bytes

MATRIX = load()
COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def facts(text: str) -> dict[str, tuple[str, ...]]:
    return diagnose_bytes(text.encode(), MATRIX).facts


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("INFO  ROCm: agents=['gfx1031', 'gfx1036']", "gfx", ("gfx1031", "gfx1036")),
        ("ggml_cuda_init: found 2 ROCm devices:", "devices", ("2",)),
        ("  Device 0: AMD Radeon RX 7800 XT, gfx1101 (0x1101), VMM: no", "gpu", ("AMD Radeon RX 7800 XT",)),
        ("pytorch version: 2.5.1+rocm6.2", "torch", ("2.5.1+rocm6.2",)),
        ("pytorch version: 2.5.1+rocm6.2", "rocm", ("6.2",)),
        ("Installing torch-2.3.0+cu118-cp310-cp310-win_amd64.whl", "torch_build", ("cuda",)),
        (r"HIP_PATH = C:\Program Files\AMD\ROCm\6.4" + "\\", "rocm", ("6.4",)),
        ("ROCk module version 5.16.9.22.20 is loaded", "amdgpu", ("5.16.9.22.20",)),
        ("[INFO] AMD Software version: 26.2.2", "driver", ("26.2.2",)),
        ("export HSA_OVERRIDE_GFX_VERSION=10.3.0", "override", ("10.3.0",)),
        ("Exception Code: 0xC0000005", "exit_code", ("0xC0000005",)),
        ("Linux host 6.6.87.1-microsoft-standard-WSL2 x86_64", "wsl", ("yes",)),
        ("fileserver:/export/home on /home type nfs4 (rw,relatime)", "nfs", ("yes",)),
        ("Blender 4.4.3 (hash 802179c51ccc)", "blender", ("4.4.3",)),
        ("llamafile v0.9.3", "llamafile", ("0.9.3",)),
        (r'File "C:\app\venv\lib\site-packages\torch\__init__.py", line 1', "platform", ("windows",)),
        ('File "/home/user/venv/lib/python3.11/site-packages/torch/__init__.py"', "platform", ("linux",)),
        ("NVIDIA GeForce RTX 3060, 12288 MiB", "nvidia", ("yes",)),
    ],
)
def test_a_fact_is_extracted_from_a_line(line: str, fact: str, value: tuple[str, ...]) -> None:
    assert facts(f"start\n{line}\nend\n").get(fact) == value


def test_the_product_name_determines_the_target() -> None:
    assert facts("Using device: AMD Radeon RX 6750 XT\n")["gfx"] == ("gfx1031",)


@pytest.mark.parametrize(
    "line",
    [
        "Loading gfxboot theme",
        "TensileLibrary_lazy_gfx908.dat",
        "visit https://example.org/rocm-docs today",
        "step 10.3.0 of HSA",
        "the cpu runs at 3.10 GHz",
    ],
)
def test_no_facts_are_extracted_from_lookalike_lines(line: str) -> None:
    told = facts(f"{line}\n")
    assert not {"gfx", "rocm", "override", "python"} & set(told)


def test_a_version_takes_precedence_over_a_bare_mention() -> None:
    assert facts("zluda is used\nZLUDA version: 3.9.5\n")["zluda"] == ("3.9.5",)


class TestConditions:
    KNOWN = {"rocm": ("6.4.2",), "gfx": ("gfx1031", "gfx1036"), "zluda": ("yes",)}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("when", "expected"),
        [
            ({}, True),
            ({"rocm": ">=6.4,<7"}, True),
            ({"rocm": "<6.4"}, False),
            ({"torch": ">=2"}, False),
            ({"torch": ""}, True),
            ({"rocm": ""}, False),
            ({"gfx": "*"}, True),
            ({"gfx": "gfx103[1-5]"}, True),
            ({"gfx": "gfx103"}, False),
            ({"gfx": "GFX1036"}, True),
            ({"zluda": ">=3"}, False),
            ({"rocm": ">=6", "gfx": "gfx900"}, False),
        ],
    )
    def test_conditions_are_evaluated(self, when: dict[str, str], expected: bool) -> None:
        assert hold(when, self.KNOWN) is expected

    @given(
        known=st.lists(st.integers(0, 12), min_size=1, max_size=4),
        bound=st.lists(st.integers(0, 12), min_size=1, max_size=3),
        sign=st.sampled_from(sorted(COMPARED)),
        suffix=st.sampled_from(["", "+rocm6.2", ".dev20251010", "rc1", "-1234", " (Debian)"]),
    )
    def test_ranges_compare_version_numbers(
        self, known: list[int], bound: list[int], sign: str, suffix: str
    ) -> None:
        """Comparisons ignore suffixes, and 6.2 equals 6.2.0."""
        expected = COMPARED[sign](padded(known), padded(bound))
        value = ".".join(map(str, known)) + suffix
        assert hold({"rocm": sign + ".".join(map(str, bound))}, {"rocm": (value,)}) is expected

    @pytest.mark.parametrize(
        ("version", "expected"),
        [("6.1.9", False), ("6.2", True), ("6.10", True), ("7.0", False), ("x", False)],
    )
    def test_a_version_range_checks_both_bounds(self, version: str, expected: bool) -> None:
        assert hold({"rocm": ">=6.2,<7"}, {"rocm": (version,)}) is expected

    def test_a_condition_holds_if_one_of_a_facts_values_matches(self) -> None:
        assert hold(
            {"rocm": ">=7", "gfx": "gfx1036"}, {"rocm": ("5.7", "7.1"), "gfx": ("gfx1031", "gfx1036")}
        )
        assert not hold({"rocm": ">=7"}, {"rocm": ("5.7", "6.4")})


def padded(parts: list[int]) -> tuple[int, ...]:
    return (*parts, 0, 0, 0, 0)[:4]
