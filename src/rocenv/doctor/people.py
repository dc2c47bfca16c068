"""The names of the people of this machine, and of the machine: what must not be in a pack."""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import sys
from typing import TYPE_CHECKING

from rocenv.doctor.nameless import HOST, OTHER, USER
from rocenv.system.machine import machine_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_USER_VARIABLES = ("USER", "LOGNAME", "USERNAME", "SUDO_USER")
_HOME_VARIABLES = ("HOME", "USERPROFILE")
_HOST_VARIABLES = (
    "HOSTNAME",
    "HOST",
    "COMPUTERNAME",
    "USERDOMAIN",
    "USERDOMAIN_ROAMINGPROFILE",
    "USERDNSDOMAIN",
    "LOGONSERVER",
)
_DISPLAY_NAME = 3  # Source: learn.microsoft.com, EXTENDED_NAME_FORMAT
_ORDINARY = range(1000, 65000)  # numbers of people's accounts. Source: login.defs(5), UID_MIN, UID_MAX


def own_users(variables: Mapping[str, str]) -> frozenset[str]:
    """Return the names under which the person is logged in."""
    names = {variables.get(name, "") for name in _USER_VARIABLES}
    with contextlib.suppress(KeyError, OSError, ImportError):
        names.add(getpass.getuser())
    return frozenset(filter(None, names))


def names_to_hide(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what must not be read -> what stands there instead."""
    names: dict[str, str] = {}
    for home in _homes(variables):
        names[home] = f"C:\\Users\\{USER}" if "\\" in home else f"/home/{USER}"
    for name, full_name, number in _accounts():
        if number in _ORDINARY:
            names |= dict.fromkeys((name, *_parts(full_name)), OTHER)
    names |= dict.fromkeys(_hosts(variables), HOST)
    users = own_users(variables)
    names |= dict.fromkeys(users, USER)
    for name, full_name, _number in _accounts():
        if name in users:
            names |= dict.fromkeys(_parts(full_name), USER)
    names |= dict.fromkeys(_parts(_display_name()), USER)
    return {name: instead for name, instead in names.items() if name.strip()}


def _homes(variables: Mapping[str, str]) -> Iterator[str]:
    found = [variables.get(name, "") for name in _HOME_VARIABLES] + [os.path.expanduser("~")]
    for home in filter(os.path.isabs, found):
        for spelling in dict.fromkeys((home, os.path.realpath(home))):
            plain = spelling.rstrip("/\\")
            if plain not in ("", "/root", f"/home/{USER}") and len(plain) > 3:
                yield plain
                if "\\" in plain:
                    yield from (plain.replace("\\", "/"), plain.replace("\\", "\\\\"))


def _hosts(variables: Mapping[str, str]) -> Iterator[str]:
    texts = [platform.node(), *(variables.get(name, "") for name in _HOST_VARIABLES)]
    for path in ("/etc/hostname", "/proc/sys/kernel/hostname"):
        with contextlib.suppress(OSError):
            texts.append(machine_path(path).read_text("utf-8", "replace"))
    for text in (text.strip().strip("\\") for text in texts):
        yield from filter(None, (text, text.partition(".")[0]))


def _accounts() -> Iterator[tuple[str, str, int]]:
    """Yield name, full name and number of the accounts, of a copy of another machine too."""
    with contextlib.suppress(OSError):
        for line in machine_path("/etc/passwd").read_text("utf-8", "replace").splitlines():
            fields = line.split(":")
            if len(fields) > 4 and fields[2].isdecimal():
                yield fields[0], fields[4].partition(",")[0].strip(), int(fields[2])
    if sys.platform != "win32":
        import pwd

        with contextlib.suppress(KeyError):
            own = pwd.getpwuid(os.getuid())  # which a directory of the network may know, and no file
            yield own.pw_name, own.pw_gecos.partition(",")[0].strip(), own.pw_uid


def _parts(full_name: str) -> tuple[str, ...]:
    """Return a full name and its words."""
    return (full_name, *(word for word in full_name.split() if len(word) > 2 or not word.isascii()))


if sys.platform == "win32":
    import ctypes

    def _display_name() -> str:
        """Return the name that Windows shows of the person, "" where it has none."""
        size = ctypes.c_ulong(0)
        try:
            ask = ctypes.windll.secur32.GetUserNameExW
            ask(_DISPLAY_NAME, None, ctypes.byref(size))
            text = ctypes.create_unicode_buffer(max(1, min(size.value, 1024)))
            return text.value if ask(_DISPLAY_NAME, text, ctypes.byref(size)) else ""
        except (OSError, AttributeError):
            return ""

else:

    def _display_name() -> str:
        """Return nothing: accounts have full names."""
        return ""
