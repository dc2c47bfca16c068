@rem Deactivates the env `__LABEL__` in cmd, or the env activated after it.
@rem ## cmd finds this file through `PATH` while the env is active, so it does not contain the env's path.
@if not defined _ROCENV_STACK goto none
@for /f "tokens=1" %%I in ("%_ROCENV_STACK%") do @set "_ROCENV_I=%%I"
@if "%_ROCENV_I%"=="__IDENT__" goto top
@if not exist "%_ROCENV_TOP%" goto lost
@call "%_ROCENV_TOP%"
@exit /b %errorlevel%
:top
@set "_ROCENV_B="
@set "_ROCENV_D="
@set "_ROCENV_X="
@if "!!"=="" set "_ROCENV_D=1"
__CHECKS__
@if defined _ROCENV_B goto delayed
@set "_ROCENV_K="
__FROM_VENV__
__RESTORE__
@if not defined _ROCENV_NEW___IDENT___PROMPT goto no_prompt
__RESTORE_PROMPT__
:no_prompt
@set "_ROCENV_TOP=%_ROCENV_LOW___IDENT__%"
@set "_ROCENV_LOW___IDENT__="
@for /f "tokens=1*" %%I in ("%_ROCENV_STACK%") do @set "_ROCENV_STACK=%%J"
@if defined _ROCENV_K >&2 echo rocenv: changed while the env was active, so not restored:%_ROCENV_K%
@call :clean
@exit /b 0
:delayed
@>&2 echo rocenv: nothing was changed, because delayed expansion is enabled and would drop the exclamation mark in:%_ROCENV_B%
@call :clean
@exit /b 1
:none
@>&2 echo rocenv: no env is active in this window
@exit /b 1
:lost
@>&2 echo rocenv: the active env was removed; open a new window
@exit /b 1
@rem ## `restore NAME` sets V to the new value of the variable NAME.
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
@exit /b 0
