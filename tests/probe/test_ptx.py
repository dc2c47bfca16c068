"""The CUDA kernel, run in a small interpreter for the few PTX instructions that it uses."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from rocenv.probe import cuda, gemm

if TYPE_CHECKING:
    from collections.abc import Callable

N = 32
A, B, C = 0x10000, 0x20000, 0x30000


def run_thread(memory: dict[int, float], x: int, y: int, group_x: int, group_y: int) -> None:
    """Run the kernel's source text as a single thread."""
    lines = [line.strip() for line in re.sub(r"//.*", "", cuda.KERNEL.decode()).splitlines()]
    body = [line for line in lines[lines.index("{") + 1 : lines.index("}")] if line and ".reg" not in line]
    labels = {line[:-1]: at for at, line in enumerate(body) if line.endswith(":")}
    special = {"%tid.x": x, "%tid.y": y, "%ctaid.x": group_x, "%ctaid.y": group_y}
    registers: dict[str, float] = {"sgemm_A": A, "sgemm_B": B, "sgemm_C": C, "sgemm_n": N, **special}

    def value(operand: str) -> float:
        if operand.startswith("0f"):
            return float(struct.unpack(">f", bytes.fromhex(operand[2:]))[0])
        return registers[operand] if operand in registers else int(operand)

    at = 0
    while True:
        line = body[at]
        at += 1
        if line.endswith(":"):
            continue
        guard, rest = re.fullmatch(r"(?:@(%\w+) )?(.*);", line).groups()  # type: ignore[union-attr]
        operation, *operands = re.split(r"[ ,]+", rest)
        operands = [operand.strip("[]") for operand in operands]
        if guard and not registers[guard]:
            continue
        if operation == "ret":
            return
        if operation == "bra":
            at = labels[operands[0]]
            continue
        target, *sources = operands
        if operation.startswith("st.global"):
            memory[int(registers[target])] = value(sources[0])
        elif operation.startswith("ld.global"):
            registers[target] = memory[int(value(sources[0]))]
        else:
            registers[target] = CALCULATED[operation](*map(value, sources))


CALCULATED: dict[str, Callable[..., float]] = {
    "ld.param.u64": lambda a: a,
    "ld.param.u32": lambda a: a,
    "cvta.to.global.u64": lambda a: a,
    "mov.u32": lambda a: a,
    "mov.f32": lambda a: a,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.wide.s32": lambda a, b: a * b,
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "fma.rn.f32": lambda a, b, c: a * b + c,
    "add.s32": lambda a, b: a + b,
    "add.s64": lambda a, b: a + b,
    "setp.lt.s32": lambda a, b: a < b,
}


def test_the_cuda_kernel_multiplies_row_by_column() -> None:
    a, b = gemm.random_values(1, N * N, "float32"), gemm.random_values(2, N * N, "float32")
    inputs = {start + 4 * at: value for start, values in ((A, a), (B, b)) for at, value in enumerate(values)}
    expected = gemm.expected_product(a, b, N, "float32")
    for group_x, group_y, x, y in ((0, 0, 0, 0), (1, 0, 3, 15), (0, 1, 15, 0), (1, 1, 7, 8)):
        memory = dict(inputs)
        run_thread(memory, x, y, group_x, group_y)
        row, column = 16 * group_y + y, 16 * group_x + x
        (address,) = memory.keys() - inputs.keys()
        assert address == C + 4 * (row * N + column)
        want = expected[row * N + column]
        assert abs(memory[address] - want.value) <= want.tolerance


def test_the_kernel_text_is_zero_terminated() -> None:
    # cuModuleLoadData gets a pointer without a length, so the text must end with a zero byte, which ctypes
    # adds.
    assert b"\0" not in cuda.KERNEL
    assert cuda.KERNEL.isascii()
    assert f".entry {gemm.KERNEL}(".encode() in cuda.KERNEL
