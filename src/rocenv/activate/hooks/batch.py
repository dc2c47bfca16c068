"""The hook of cmd, which has neither functions nor anything that runs at a prompt: a batch file of its own.

Called with arguments it does what the function `rocenv` does elsewhere. Called without, as from the AutoRun
value of the registry, it makes `rocenv` a macro of doskey's, which only what is typed at a prompt can be. The
macro calls the file by a path with a dot in it, by which the file tells `rocenv` without arguments from that.

Arguments are never read but as they came: they would be without the quotation marks around them otherwise.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocenv.activate.hooks import Place

# Where cmd was started for one command (`/c`) there is no prompt, so no macro is needed. (Wine 8 has no
# `cmdcmdline`.)
# `for /f` gives the part of the name before the first of these signs, so a name without any as it is.
# `set` at the end of a file with the extension .cmd would answer 0, so each way out ends with its call.
_CODE = r"""
@rem rocenv in cmd. Save this as "%%USERPROFILE%%\rocenv-hook.cmd"; `rocenv hook --help` says more.
@if "%~0"=="%~dp0.\%~nx0" goto called
@if not [%1]==[] goto called
@if not defined cmdcmdline goto load
@set "_ROCENV_N=%cmdcmdline:"=%"
@if /i not "%_ROCENV_N:/c =%"=="%_ROCENV_N%" goto loaded
:load
@set "_ROCENV_N=%~dp0.\%~nx0"
@"%SystemRoot%\System32\doskey.exe" rocenv=call "%_ROCENV_N:$=$$%" $*
:loaded
@set "_ROCENV_N="
@exit /b 0
:called
@if [%1]==[activate] goto activate
@if [%1]==[deactivate] goto deactivate
:program
@<PROGRAM> %*
@exit /b %errorlevel%
:deactivate
@if not [%2]==[] goto program
@if not defined _ROCENV_STACK goto program
@if not exist "%_ROCENV_TOP%" goto lost
@call "%_ROCENV_TOP%"
@exit /b %errorlevel%
:lost
@>&2 echo rocenv: the env that is active was removed; open a new window
@exit /b 1
:activate
@if [%2]==[] goto program
@if not [%3]==[] goto program
@set _ROCENV_N=%2
@set "_ROCENV_N=%_ROCENV_N:"=%"
@if not defined _ROCENV_N goto program
@if "%_ROCENV_N:~0,1%"=="." goto unknown
@set "_ROCENV_H=<ENVS>"
@if not defined ROCENV_HOME goto home
@set "_ROCENV_H=%ROCENV_HOME:"=%\envs"
:home
@for /f "tokens=1 delims=*?/\:" %%I in ("x%_ROCENV_N%x") do @if not "%%I"=="x%_ROCENV_N%x" goto unknown
@if not exist "%_ROCENV_H%\%_ROCENV_N%\activate.bat" goto unknown
@set "_ROCENV_H=" & set "_ROCENV_N=" & call "%_ROCENV_H%\%_ROCENV_N%\activate.bat"
@exit /b %errorlevel%
:unknown
@set "_ROCENV_H="
@set "_ROCENV_N="
@goto program
"""
# Folders that cmd has in its variables, for what lies in them.
_KNOWN = ("LOCALAPPDATA", "APPDATA", "USERPROFILE")


def hook(place: Place) -> str:
    """Return the batch file, in ASCII: which code page cmd reads it in, nobody knows."""
    program = _said(place.program) if "\\" in place.program else ""
    words = {
        "<PROGRAM>": f'"{program}"' if program else "rocenv.exe",
        "<ENVS>": _said(place.envs) or r"%LOCALAPPDATA%\rocenv\envs",
    }
    # In one pass: a path may hold one of these words.
    return re.sub("<[A-Z]+>", lambda found: words[found[0]], _CODE.lstrip()).replace("\n", "\r\n")


def _said(path: str) -> str:
    """Return the path as it stands in a batch file; "" where it cannot."""
    if path.isascii():
        return path.replace("%", "%%")
    for name in _KNOWN:
        folder = os.environ.get(name, "")
        below = path.removeprefix(f"{folder}\\")
        if folder and below != path and below.isascii():
            return f"%{name}%\\{below.replace('%', '%%')}"
    return ""
