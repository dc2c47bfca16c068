@rem rocenv in cmd. Save this as "%%USERPROFILE%%\rocenv-hook.cmd"; `rocenv hook --help` says more.
@rem ##
@rem ## Called with arguments it does what the function `rocenv` does elsewhere. Called without, as from the AutoRun
@rem ## value of the registry, it makes `rocenv` a macro of doskey's, which only what is typed at a prompt can be. The
@rem ## macro calls the file by a path with a dot in it, by which the file tells `rocenv` without arguments from that.
@rem ##
@rem ## Arguments are passed on exactly as typed, because cmd would strip their quotation marks.
@if "%~0"=="%~dp0.\%~nx0" goto called
@if not [%1]==[] goto called
@rem ## Where cmd was started for one command (`/c`) there is no prompt, so no macro is needed. (Wine 8 has no
@rem ## `cmdcmdline`.)
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
@>&2 echo rocenv: the env that is active was removed; open a new window
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
@rem ## `for /f` gives the part of the name before the first of these signs, so a name without any as it is.
@for /f "tokens=1 delims=*?/\:" %%I in ("x%_ROCENV_N%x") do @if not "%%I"=="x%_ROCENV_N%x" goto unknown
@if not exist "%_ROCENV_H%\%_ROCENV_N%\activate.bat" goto unknown
@rem ## `set` at the end of a file with the extension .cmd would answer 0, so each way out ends with its call.
@set "_ROCENV_H=" & set "_ROCENV_N=" & call "%_ROCENV_H%\%_ROCENV_N%\activate.bat"
@exit /b %errorlevel%
:unknown
@set "_ROCENV_H="
@set "_ROCENV_N="
@goto program
