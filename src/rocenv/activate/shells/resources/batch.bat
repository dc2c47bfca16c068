@rem Activates the env `__LABEL__` in cmd. From a batch file, use `call` with this path.
@rem ##
@rem ## cmd has no functions, and every variable is an environment variable. So the state of an active env is in the
@rem ## environment, and a cmd started from this one inherits the active env. The variables of an active env:
@rem ##
@rem ##   _ROCENV_STACK           idents of the active envs, each followed by a space, newest first
@rem ##   _ROCENV_TOP             path of the script that deactivates the most recently activated env
@rem ##   _ROCENV_LOW_IDENT       previous value of _ROCENV_TOP; absent for the oldest env
@rem ##   _ROCENV_OLD_IDENT_NAME  previous value of NAME; absent if it was unset
@rem ##   _ROCENV_NEW_IDENT_NAME  value of NAME in the env
@rem ##   _ROCENV_ADD_IDENT_NAME  prepended entries, each followed by `;`, if NAME is a list
__PLACE__
@if not exist __MARKER__ goto gone
@set "_ROCENV_B="
@set "_ROCENV_D="
@set "_ROCENV_X="
@if "!!"=="" set "_ROCENV_D=1"
__CHECKS__
@if defined _ROCENV_X goto unfit
@if defined _ROCENV_B goto delayed
@call :leave
@if errorlevel 1 goto failed
__SAVE__
__CHANGES__
__REMEMBER__
@set "_ROCENV_LOW___IDENT__=%_ROCENV_TOP%"
@set "_ROCENV_TOP=%_ROCENV_P%\bin\deactivate.bat"
@if defined _ROCENV_STACK goto reported
@set "_ROCENV_K="
@set "_ROCENV_L="
__REPORT__
@if defined _ROCENV_K >&2 echo rocenv: replaced until you deactivate the env:%_ROCENV_K%
@if defined _ROCENV_L >&2 echo rocenv: set outside the env and still in effect:%_ROCENV_L%
:reported
@set "_ROCENV_STACK=__IDENT__ %_ROCENV_STACK%"
@if defined ROCENV_DISABLE_PROMPT goto no_prompt
@set "_ROCENV_X="
__CHECK_PROMPT__
@if defined _ROCENV_X goto no_prompt
@if defined _ROCENV_B goto no_prompt
@set "_ROCENV_OLD___IDENT___PROMPT=%PROMPT%"
@if not defined PROMPT set "PROMPT=$P$G"
__SHOWN__
@set "PROMPT=(%_ROCENV_V%) %PROMPT%"
@set "_ROCENV_NEW___IDENT___PROMPT=%PROMPT%"
:no_prompt
@call :clean
@set "_ROCENV_P="
@exit /b 0
@rem ## Exits without any changes.
:gone
@>&2 echo rocenv: the env of this script is no longer at __WHERE__; `rocenv list` shows the envs
@goto failed
:unfit
@>&2 echo rocenv: nothing was changed, because cmd cannot handle a quotation mark or more than __LONGEST__ characters in:%_ROCENV_X%
@goto failed
:delayed
@>&2 echo rocenv: nothing was changed, because delayed expansion is enabled and would drop the exclamation mark in:%_ROCENV_B%
:failed
@call :clean
@set "_ROCENV_P="
@exit /b 1
@rem ## Deactivates this env and those on top of it.
:leave
@if not defined _ROCENV_STACK exit /b 0
@set "_ROCENV_I="
@for %%I in (%_ROCENV_STACK%) do @if "%%I"=="__IDENT__" set "_ROCENV_I=%%I"
@if not defined _ROCENV_I exit /b 0
@if exist "%_ROCENV_TOP%" goto leave_it
@>&2 echo rocenv: an active env was removed; open a new window
@exit /b 1
:leave_it
@call "%_ROCENV_TOP%"
@if errorlevel 1 exit /b 1
@goto leave
