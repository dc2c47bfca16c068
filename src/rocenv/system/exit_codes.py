"""Exit codes: their names and meanings, crash detection, and passing them on unchanged."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from rocenv.system import WINDOWS

if TYPE_CHECKING:
    from rocenv.core.language import Language

_ACCESS = ("it accessed memory that does not belong to it", "它访问了不属于自己的内存")
_ABORT = (
    "it called abort(), as rocBLAS does if it has no kernels for a GPU",
    "它调用了 abort()；rocBLAS 没有适用于 GPU 的内核时就会这样做",
)
_INSTRUCTION = ("it used an instruction that this CPU does not support", "它使用了这颗 CPU 不支持的指令")
_NONE = ("", "")
# Each code's name and, if the name does not explain it, its meaning in English and Chinese.
# Source: MS-ERREF, "NTSTATUS Values"; the C runtime's abort() also exits with 0xC0000409.
_NTSTATUS = {
    0x40010004: ("ended by a debugger or at log-off", _NONE),
    0xC0000005: ("access violation", _ACCESS),
    0xC0000006: ("a file could not be paged in", _NONE),
    0xC0000017: ("out of memory", _NONE),
    0xC000001D: ("illegal instruction", _INSTRUCTION),
    0xC0000025: ("noncontinuable exception", _NONE),
    0xC000007B: ("a program or DLL with the wrong bitness", _NONE),
    0xC0000094: ("integer division by zero", _NONE),
    0xC00000FD: ("stack overflow", ("its stack overflowed", "它的栈溢出了")),
    0xC0000135: ("a DLL was not found", ("a DLL that it needs is missing", "缺少它需要的某个 DLL")),
    0xC0000138: ("an ordinal was not found in a DLL", _NONE),
    0xC0000139: (
        "an entry point was not found in a DLL",
        (
            "a DLL does not have a function that another DLL calls: two versions are mixed",
            "某个 DLL 缺少另一个 DLL 调用的函数：两个版本混在了一起",
        ),
    ),
    0xC000013A: ("ended by Ctrl-C", _NONE),
    0xC0000142: ("a DLL could not be initialized", ("a DLL failed to initialize", "某个 DLL 初始化失败")),
    0xC0000374: ("heap corruption", ("its heap was corrupted", "它的堆损坏了")),
    0xC0000409: ("stack buffer overrun, or abort", _ABORT),
    0xC0000417: ("invalid argument to the C runtime", _NONE),
    0xC06D007E: ("a delay-loaded DLL was not found", _NONE),
    0xC06D007F: ("an entry point was not found in a delay-loaded DLL", _NONE),
    0xE06D7363: ("uncaught C++ exception", _NONE),
}
# Source: signal(7)
_SIGNALS = {
    "SIGSEGV": _ACCESS,
    "SIGABRT": _ABORT,
    "SIGILL": _INSTRUCTION,
    "SIGBUS": ("a memory-mapped file was removed or truncated", "内存映射的文件被删除或截断"),
    "SIGKILL": (
        "it was killed; the kernel does this when memory runs out",
        "它被终止；内存不足时内核会这样做",
    ),
}
# Fatal signals for which programs do not use 128 plus the number as an ordinary exit code.
_REPORTED_BY_SHELLS = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL"),
    *("SIGSEGV", "SIGPIPE", "SIGTERM", "SIGXCPU", "SIGXFSZ", "SIGSYS"),
)
_CONTROL_C = 0xC000013A
_OWN_NEGATIVE = 0xFFFF0000  # as unsigned numbers, the exit codes -1, -2, … are above this
_LAST_SIGNAL = 255


def unsigned(code: int) -> int:
    """Convert a Windows code that was read as a negative number to the usual form, such as 0xC0000005.

    Signals (small negative numbers) and ordinary codes are unchanged.
    """
    return code & 0xFFFFFFFF if code < -_LAST_SIGNAL else code


def describe_exit(code: int, language: Language = "en") -> str:
    """Describe a child's exit code: `SIGSEGV`, `0xC0000005 (access violation)`, `exit code 3`.

    Windows codes can be unsigned or, as some tools print them, negative.
    """
    code, is_chinese = unsigned(code), language == "zh"
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"{'信号' if is_chinese else 'signal'} {-code}"
    if code in _NTSTATUS:
        name = _NTSTATUS[code][0]
        return f"0x{code:08X}（{name}）" if is_chinese else f"0x{code:08X} ({name})"
    if code & 0xC0000000 == 0xC0000000 and code < _OWN_NEGATIVE:
        return f"0x{code:08X}"
    own = code - (1 << 32) if code >= _OWN_NEGATIVE else code
    return f"{'退出码' if is_chinese else 'exit code'} {own}"


def is_known_exit(code: int) -> bool:
    """Whether a Windows code has a name."""
    return unsigned(code) in _NTSTATUS


def meaning_of_exit(code: int, language: Language = "en") -> str:
    """Explain an exit code in a clause ("it …"), or return "" if its name already explains it."""
    code = unsigned(code)
    _, meanings = _NTSTATUS.get(code, ("", _SIGNALS.get(describe_exit(code), _NONE)))
    return meanings[language == "zh"]


def through_shell(code: int) -> int:
    """Convert the exit code of a program that could be a shell script: signals become negative numbers.

    A shell reports a signal as 128 plus its number, so 139 becomes -11, as if no shell had been involved.
    Do not use this for programs with their own codes in that range. Windows codes are unchanged.
    """
    if WINDOWS or not 128 < code < 160:
        return code
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return code
    return 128 - code if name in _REPORTED_BY_SHELLS else code


def is_crash(code: int) -> bool:
    """Whether a child's exit code means that it crashed or was killed by a signal.

    On Windows, Ctrl-C and returning -1 are not crashes.
    """
    code = unsigned(code)
    return code < 0 or (0xC0000000 <= code < _OWN_NEGATIVE and code != _CONTROL_C)


def own_exit_code(code: int) -> int:
    """Return the `sys.exit` or `os._exit` argument that reproduces how a child ended.

    On Windows, all 32 bits are kept: both functions take a signed number, and `sys.exit` turns larger numbers
    into -1. As in shells, a signal becomes 128 plus its number.
    """
    if WINDOWS:
        code &= 0xFFFFFFFF
        return code - (1 << 32) if code >= 1 << 31 else code
    return 128 - code if code < 0 else code
