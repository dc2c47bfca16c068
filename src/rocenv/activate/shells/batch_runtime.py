"""The batch code that every script for cmd carries, as subroutines.

Values are read by plain `%NAME%` within quotes only. `call set`, `for` variables behind `call`, and delayed
expansion would each read a `%`, `^` or `!` in a value again (and Wine 8 cannot `call set` where `PATH` has an
empty entry), so subroutines are handed values in variables:

    _ROCENV_V  a value, or a list         _ROCENV_E  an entry of it
    _ROCENV_W  what an env made of it     _ROCENV_O  what it was before
    _ROCENV_A  entries, each with `;`     _ROCENV_K  names to report
    _ROCENV_X  names with unfit values    _ROCENV_B  those with a `!` that would be dropped

Each line begins with `@`, since the caller's echo cannot be asked for and put back.
"""

from __future__ import annotations

# `prepend` puts E first in V, and takes it out of the rest.
# `without` takes E out of V; a dot before each entry keeps the empty ones, which `for /f` would drop.
# `find` sets F if E is in L.
LISTS = """\
:prepend
@call :without
@if defined _ROCENV_V set "_ROCENV_V=%_ROCENV_E%;%_ROCENV_V%"
@if not defined _ROCENV_V set "_ROCENV_V=%_ROCENV_E%"
@exit /b 0
:without
@set "_ROCENV_L=%_ROCENV_V%"
@call :find
@if not defined _ROCENV_F goto without_end
@set "_ROCENV_L=.%_ROCENV_L:;=;.%;"
@set "_ROCENV_V="
:without_next
@for /f "tokens=1 delims=;" %%E in ("%_ROCENV_L%") do @set "_ROCENV_F=%%E"
@if /i not "%_ROCENV_F%"==".%_ROCENV_E%" set "_ROCENV_V=%_ROCENV_V%;%_ROCENV_F:~1%"
@set "_ROCENV_L=%_ROCENV_L:*;=%"
@if defined _ROCENV_L goto without_next
@if defined _ROCENV_V set "_ROCENV_V=%_ROCENV_V:~1%"
:without_end
@if not defined _ROCENV_V exit /b 0
@set "_ROCENV_L=%_ROCENV_V:;=%"
@if not defined _ROCENV_L set "_ROCENV_V="
@exit /b 0
:find
@set "_ROCENV_F="
@if not defined _ROCENV_L exit /b 0
@for %%E in ("%_ROCENV_L:;=" "%") do @if /i "%%~E"=="%_ROCENV_E%" set "_ROCENV_F=1"
@exit /b 0"""

# `restore` NAME: V is what the variable is to be now.
RESTORE = """\
:restore
@if "%_ROCENV_V%"=="%_ROCENV_W%" goto restore_old
@if not defined _ROCENV_A goto restore_kept
@if defined _ROCENV_V goto restore_list
:restore_kept
@if not "%1"=="PROMPT" set "_ROCENV_K=%_ROCENV_K% %1"
@exit /b 0
:restore_old
@set "_ROCENV_V=%_ROCENV_O%"
@exit /b 0
:restore_list
@for /f "tokens=1 delims=;" %%E in ("%_ROCENV_A%") do @set "_ROCENV_E=%%E"
@set "_ROCENV_L=%_ROCENV_O%"
@call :find
@if not defined _ROCENV_F call :without
@set "_ROCENV_A=%_ROCENV_A:*;=%"
@if not defined _ROCENV_V exit /b 0
@if defined _ROCENV_A goto restore_list
@exit /b 0"""

# `check` answers 1 where a value holds a quotation mark (V is the value without any, W with others instead)
# or is too long, 2 where it holds an exclamation mark and delayed expansion, which drops those, is on (D).
# A value is too long where its first characters are not its last ones too. (Wine 8 answers
# `%NAME:~7000,1%` from beyond the value.)
CHECK = """\
:check
@if not defined _ROCENV_V exit /b 1
@if not "%_ROCENV_V:~0,LONGEST%"=="%_ROCENV_V:~-LONGEST%" exit /b 1
@if not "%_ROCENV_V%"=="%_ROCENV_W%" exit /b 1
@if not defined _ROCENV_D exit /b 0
@set "_ROCENV_W=%_ROCENV_V:!=%"
@if not "%_ROCENV_V%"=="%_ROCENV_W%" exit /b 2
@exit /b 0"""

# Not P, which `activate.bat` still needs when it has left another env.
CLEAN = """\
:clean
@for %%N in (A B D E F I K L O V W X) do @set "_ROCENV_%%N="
@exit /b 0
"""

# Looks at the value of NAME.
CHECK_ONE = """\
@if not defined NAME goto LABEL
@setlocal DisableDelayedExpansion
@set "_ROCENV_V=%NAME:"=%"
@set "_ROCENV_W=%NAME:"='%"
@call :check
@endlocal
@if errorlevel 2 set "_ROCENV_B=%_ROCENV_B% NAME"
@if errorlevel 1 if not errorlevel 2 set "_ROCENV_X=%_ROCENV_X% NAME"
:LABEL"""

# Leaves the envs above this one, and this one; IDENT is its own.
LEAVE = """\
:leave
@if not defined _ROCENV_STACK exit /b 0
@set "_ROCENV_I="
@for %%I in (%_ROCENV_STACK%) do @if "%%I"=="IDENT" set "_ROCENV_I=%%I"
@if not defined _ROCENV_I exit /b 0
@if exist "%_ROCENV_TOP%" goto leave_it
@>&2 echo rocenv: an env that is active was removed; open a new window
@exit /b 1
:leave_it
@call "%_ROCENV_TOP%"
@if errorlevel 1 exit /b 1
@goto leave"""

TOP = """\
@if not defined _ROCENV_STACK goto none
@for /f "tokens=1" %%I in ("%_ROCENV_STACK%") do @set "_ROCENV_I=%%I"
@if "%_ROCENV_I%"=="IDENT" goto top
@if not exist "%_ROCENV_TOP%" goto lost
@call "%_ROCENV_TOP%"
@exit /b %errorlevel%
:top"""

DELAYED = """\
:delayed
@>&2 echo rocenv: nothing is changed, since delayed expansion is on and would drop the exclamation mark in:\
%_ROCENV_B%"""

CLEAN_ALL = '@call :clean\n@set "_ROCENV_P="'

GONE_BELOW = """\
:none
@>&2 echo rocenv: no env was activated in this window
@exit /b 1
:lost
@>&2 echo rocenv: the env that is active was removed; open a new window
@exit /b 1"""

# Ways out of `activate.bat` by which nothing is changed.
REFUSALS = """\
:gone
@>&2 echo rocenv: the env of this script is not at WHERE any more; `rocenv list` shows those that there are
@goto failed
:unfit
@>&2 echo rocenv: nothing is changed, since cmd cannot carry a quotation mark, or more than \
LONGEST characters, in:%_ROCENV_X%
@goto failed"""

FAILED = f"""\
:failed
{CLEAN_ALL}
@exit /b 1"""

# Shows the name that SHOWN puts into V.
PROMPT = f"""\
@if defined ROCENV_DISABLE_PROMPT goto no_prompt
@set "_ROCENV_X="
{CHECK_ONE.replace("NAME", "PROMPT")}
@if defined _ROCENV_X goto no_prompt
@if defined _ROCENV_B goto no_prompt
@set "_ROCENV_OLD_IDENT_PROMPT=%PROMPT%"
@if not defined PROMPT set "PROMPT=$P$G"
SHOWN
@set "PROMPT=(%_ROCENV_V%) %PROMPT%"
@set "_ROCENV_NEW_IDENT_PROMPT=%PROMPT%"
:no_prompt"""
