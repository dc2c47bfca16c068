"""Exit codes: names, meanings, whether they indicate a crash, and how to pass them on unchanged."""

from __future__ import annotations

import signal

from rocenv.system import WINDOWS

_ACCESS = "it accessed memory that is not its own"
_ABORT = "it called abort(), as rocBLAS does if it has no kernels for a GPU"
_INSTRUCTION = "it used an instruction that this CPU does not support"
# Name of each code, and its meaning if the name does not explain it. Source: MS-ERREF, "NTSTATUS Values";
# abort() of the C runtime also ends with 0xC0000409.
_NTSTATUS = {
    0x40010004: ("ended by a debugger or at log-off", ""),
    0xC0000005: ("access violation", _ACCESS),
    0xC0000006: ("a file could not be paged in", ""),
    0xC0000017: ("out of memory", ""),
    0xC000001D: ("illegal instruction", _INSTRUCTION),
    0xC0000025: ("noncontinuable exception", ""),
    0xC000007B: ("a program or DLL of the wrong bitness", ""),
    0xC0000094: ("integer division by zero", ""),
    0xC00000FD: ("stack overflow", "its stack overflowed"),
    0xC0000135: ("a DLL was not found", "a DLL that it needs is missing"),
    0xC0000138: ("an ordinal was not found in a DLL", ""),
    0xC0000139: (
        "an entry point was not found in a DLL",
        "a DLL lacks a function that another one calls: two versions are mixed",
    ),
    0xC000013A: ("ended by Ctrl-C", ""),
    0xC0000142: ("a DLL could not be initialised", "a DLL failed to initialise"),
    0xC0000374: ("heap corruption", "its heap was corrupted"),
    0xC0000409: ("stack buffer overrun, or abort", _ABORT),
    0xC0000417: ("invalid argument to the C runtime", ""),
    0xC06D007E: ("a delay-loaded DLL was not found", ""),
    0xC06D007F: ("an entry point was not found in a delay-loaded DLL", ""),
    0xE06D7363: ("uncaught C++ exception", ""),
}
# Source: signal(7)
_SIGNALS = {
    "SIGSEGV": _ACCESS,
    "SIGABRT": _ABORT,
    "SIGILL": _INSTRUCTION,
    "SIGBUS": "a memory-mapped file was removed or truncated",
    "SIGKILL": "it was killed; the kernel does this when memory runs out",
}
# Fatal signals, if programs do not use 128 plus their number as an exit code of their own.
_REPORTED_BY_SHELLS = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL"),
    *("SIGSEGV", "SIGPIPE", "SIGTERM", "SIGXCPU", "SIGXFSZ", "SIGSYS"),
)
_CONTROL_C = 0xC000013A
_OWN_NEGATIVE = 0xFFFF0000  # higher values are -1, -2 … returned by programs
_LAST_SIGNAL = 255


def unsigned(code: int) -> int:
    """Convert a Windows code that was read as a negative number to its usual form, 0xC0000005.

    Signals (small negative numbers) and ordinary codes stay as they are.
    """
    return code & 0xFFFFFFFF if code < -_LAST_SIGNAL else code


def describe_exit(code: int) -> str:
    """Describe the exit code of a child: `SIGSEGV`, `0xC0000005 (access violation)`, `exit code 3`.

    Windows codes may be unsigned or, as some tools print them, negative.
    """
    code = unsigned(code)
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    if code in _NTSTATUS:
        return f"0x{code:08X} ({_NTSTATUS[code][0]})"
    if code >= _OWN_NEGATIVE:
        return f"exit code {code - (1 << 32)}"
    if code & 0xC0000000 == 0xC0000000:
        return f"0x{code:08X}"
    return f"exit code {code}"


def is_known_exit(code: int) -> bool:
    """Whether a Windows code has a name."""
    return unsigned(code) in _NTSTATUS


def meaning_of_exit(code: int) -> str:
    """Explain an exit code in a clause ("it …") if its name does not; else ""."""
    code = unsigned(code)
    if code < 0:
        return _SIGNALS.get(describe_exit(code), "")
    return _NTSTATUS.get(code, ("", ""))[1]


def through_shell(code: int) -> int:
    """Convert the exit code of a program that may be a shell script: signals become negative numbers.

    A shell reports a signal as 128 plus its number: 139 becomes -11, as for the program itself. Do not use
    this for programs with their own codes in that range. Windows codes stay as they are.
    """
    if WINDOWS or not 128 < code < 160:
        return code
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return code
    return 128 - code if name in _REPORTED_BY_SHELLS else code


def is_crash(code: int) -> bool:
    """Whether a child's exit code means that a fault ended it.

    On Windows, Ctrl-C and returning -1 are not crashes.
    """
    code = unsigned(code)
    return code < 0 or (0xC0000000 <= code < _OWN_NEGATIVE and code != _CONTROL_C)


def own_exit_code(code: int) -> int:
    """Return the `sys.exit` or `os._exit` argument that reproduces how a child ended.

    On Windows it keeps all 32 bits: both functions take a signed number, and `sys.exit` turns larger ones
    into -1. As in every shell, a signal becomes 128 plus its number.
    """
    if WINDOWS:
        code &= 0xFFFFFFFF
        return code - (1 << 32) if code >= 1 << 31 else code
    return 128 - code if code < 0 else code
