@rem rocenv in cmd. Save this as "%%USERPROFILE%%\rocenv-hook.cmd"; see `rocenv hook --help`.
@rem ##
@rem ## With arguments, this file does what the function `rocenv` does in other shells. Without arguments, as in the
@rem ## registry's AutoRun value, it defines `rocenv` as a doskey macro, which works only at a prompt. The macro calls
@rem ## the file by a path that contains a dot, which distinguishes `rocenv` without arguments from AutoRun.
@rem ##
@rem ## Arguments are passed on exactly as typed, because cmd would strip their quotation marks.
@if "%~0"=="%~dp0.\%~nx0" goto called
@if not [%1]==[] goto called
@rem ## A cmd that runs a single command (`/c`) has no prompt, so it does not need the macro. (Wine 8 lacks `cmdcmdline`.)
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
@__PROGRAM__ %*
@exit /b %errorlevel%
:deactivate
@if not [%2]==[] goto program
@if not defined _ROCENV_STACK goto program
@if not exist "%_ROCENV_TOP%" goto lost
@call "%_ROCENV_TOP%"
@exit /b %errorlevel%
:lost
@>&2 echo rocenv: the active env was removed; open a new window
@exit /b 1
:activate
@if [%2]==[] goto program
@if not [%3]==[] goto program
@set _ROCENV_N=%2
@set "_ROCENV_N=%_ROCENV_N:"=%"
@if not defined _ROCENV_N goto program
@if "%_ROCENV_N:~0,1%"=="." goto unknown
@set "_ROCENV_H=__ENVS__"
@if not defined ROCENV_HOME goto home
@set "_ROCENV_H=%ROCENV_HOME:"=%\envs"
:home
@rem ## `for /f` yields the part of the name before the first of these characters, or the complete name if it does not
@rem ## contain any of them.
@for /f "tokens=1 delims=*?/\:" %%I in ("x%_ROCENV_N%x") do @if not "%%I"=="x%_ROCENV_N%x" goto unknown
@if not exist "%_ROCENV_H%\%_ROCENV_N%\activate.bat" goto unknown
@rem ## A final `set` in a .cmd file would return 0, so each exit path ends with its call.
@set "_ROCENV_H=" & set "_ROCENV_N=" & call "%_ROCENV_H%\%_ROCENV_N%\activate.bat"
@exit /b %errorlevel%
:unknown
@set "_ROCENV_H="
@set "_ROCENV_N="
@goto program
