"""Exit codes: their names, whether they mean a crash, and how to pass them on unchanged."""

from __future__ import annotations

import signal

from rocenv.system import WINDOWS

_ACCESS = "it read or wrote memory that is not its own"
_ABORT = "it called abort(), as rocBLAS does where it has no kernels for a GPU"
_INSTRUCTION = "it used an instruction that this CPU does not have"
# The name of each, and its meaning where the name does not say it.
# Source: MS-ERREF, "NTSTATUS Values"; 0xC0000409 is also how abort() of the C runtime ends
_NTSTATUS = {
    0x40010004: ("ended by a debugger or at log-off", ""),
    0xC0000005: ("access violation", _ACCESS),
    0xC0000006: ("a file could not be paged in", ""),
    0xC0000017: ("out of memory", ""),
    0xC000001D: ("illegal instruction", _INSTRUCTION),
    0xC0000025: ("an exception that cannot be continued", ""),
    0xC000007B: ("a program or DLL of the wrong bitness", ""),
    0xC0000094: ("integer division by zero", ""),
    0xC00000FD: ("stack overflow", "its stack overflowed"),
    0xC0000135: ("a DLL was not found", "a DLL that it needs is missing"),
    0xC0000138: ("an ordinal was not found in a DLL", ""),
    0xC0000139: (
        "an entry point was not found in a DLL",
        "a DLL lacks a function that another one calls: DLLs of two versions are mixed",
    ),
    0xC000013A: ("ended by Ctrl-C", ""),
    0xC0000142: ("a DLL could not be initialised", "a DLL failed to initialise"),
    0xC0000374: ("heap corruption", "its memory was damaged"),
    0xC0000409: ("stack buffer overrun, or abort", _ABORT),
    0xC0000417: ("invalid argument to the C runtime", ""),
    0xC06D007E: ("a delay-loaded DLL was not found", ""),
    0xC06D007F: ("an entry point was not found in a delay-loaded DLL", ""),
    0xE06D7363: ("a C++ exception that nothing caught", ""),
}
# Source: signal(7)
_SIGNALS = {
    "SIGSEGV": _ACCESS,
    "SIGABRT": _ABORT,
    "SIGILL": _INSTRUCTION,
    "SIGBUS": "a file that it had mapped into memory was removed or cut short",
    "SIGKILL": "it was killed, as the kernel does when memory runs out",
}
# Signals that end programs, and whose numbers above 128 programs do not use as exit codes of their own.
_REPORTED_BY_SHELLS = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL"),
    *("SIGSEGV", "SIGPIPE", "SIGTERM", "SIGXCPU", "SIGXFSZ", "SIGSYS"),
)
_CONTROL_C = 0xC000013A
_OWN_NEGATIVE = 0xFFFF0000  # from here on it is what programs return as -1, -2 …
_LAST_SIGNAL = 255


def unsigned(code: int) -> int:
    """A Windows code as it is written, 0xC0000005, also where it was read as a negative number.

    Signals, which are small negative numbers, and ordinary codes stay as they are.
    """
    return code & 0xFFFFFFFF if code < -_LAST_SIGNAL else code


def describe_exit(code: int) -> str:
    """A name for an exit code of a child: `SIGSEGV`, `0xC0000005 (access violation)`, `exit code 3`.

    A code of Windows may be given as the unsigned number that it is, or as the negative one some tools print.
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


def meaning_of_exit(code: int) -> str:
    """What an end means, "it …", where its name does not say so; else ""."""
    code = unsigned(code)
    if code < 0:
        return _SIGNALS.get(describe_exit(code), "")
    return _NTSTATUS.get(code, ("", ""))[1]


def through_shell(code: int) -> int:
    """The exit code of a program that may be a shell's script, with signals as negative numbers.

    A shell whose program a signal ended passes that on as 128 and the number: 139 becomes -11, which is what
    the program itself would have given. Not for programs that number their own ends so high. On Windows codes
    stay as they are.
    """
    if WINDOWS or not 128 < code < 160:
        return code
    try:
        name = signal.Signals(code - 128).name
    except ValueError:
        return code
    return 128 - code if name in _REPORTED_BY_SHELLS else code


def is_crash(code: int) -> bool:
    """Whether an exit code of a child means that it was ended by a fault and not by its own choice.

    A Windows program that Ctrl-C ended did not crash, nor did one that returned -1.
    """
    code = unsigned(code)
    return code < 0 or (0xC0000000 <= code < _OWN_NEGATIVE and code != _CONTROL_C)


def own_exit_code(code: int) -> int:
    """What to hand to `sys.exit` or `os._exit` to end as a child did, with all 32 bits on Windows.

    Both take a signed number, and `sys.exit` turns what does not fit into -1. A child that a signal ended
    becomes 128 and the number, as in every shell.
    """
    if WINDOWS:
        code &= 0xFFFFFFFF
        return code - (1 << 32) if code >= 1 << 31 else code
    return 128 - code if code < 0 else code
