@rem ## Subroutines of both scripts.
@rem ##
@rem ## Read values only as plain `%NAME%` within quotes. `call set`, `for` variables after `call`, and delayed
@rem ## expansion would each parse a `%`, `^` or `!` in a value again (and Wine 8 fails at `call set` if `PATH` has an
@rem ## empty entry), so subroutines receive values in variables:
@rem ##
@rem ##   _ROCENV_V  a value or list            _ROCENV_E  an entry of the list
@rem ##   _ROCENV_W  its value in the env       _ROCENV_O  its previous value
@rem ##   _ROCENV_A  entries, each with `;`     _ROCENV_K  names to report
@rem ##   _ROCENV_X  names with invalid values  _ROCENV_B  names with a `!` that would be dropped
@rem ##
@rem ## Each line begins with `@`, because a script cannot read and restore the caller's echo setting.
@rem ##
@rem ## `prepend` moves E to the front of V.
:prepend
@call :without
@if defined _ROCENV_V set "_ROCENV_V=%_ROCENV_E%;%_ROCENV_V%"
@if not defined _ROCENV_V set "_ROCENV_V=%_ROCENV_E%"
@exit /b 0
@rem ## `without` removes E from V; a dot before each entry preserves empty entries, which `for /f` would drop. (In Wine
@rem ## 10, `%NAME:~1%` of a single character yields that character.)
:without
@set "_ROCENV_L=%_ROCENV_V%"
@call :find
@if not defined _ROCENV_F goto without_end
@set "_ROCENV_L=.%_ROCENV_L:;=;.%;"
@set "_ROCENV_V="
:without_next
@for /f "tokens=1 delims=;" %%E in ("%_ROCENV_L%") do @set "_ROCENV_F=%%E"
@if /i not "%_ROCENV_F%"==".%_ROCENV_E%" set "_ROCENV_V=%_ROCENV_V%;%_ROCENV_F:*.=%"
@set "_ROCENV_L=%_ROCENV_L:*;=%"
@if defined _ROCENV_L goto without_next
@if defined _ROCENV_V set "_ROCENV_V=%_ROCENV_V:~1%"
:without_end
@if not defined _ROCENV_V exit /b 0
@set "_ROCENV_L=%_ROCENV_V:;=%"
@if not defined _ROCENV_L set "_ROCENV_V="
@exit /b 0
@rem ## `find` sets F if E is in L.
:find
@set "_ROCENV_F="
@if not defined _ROCENV_L exit /b 0
@for %%E in ("%_ROCENV_L:;=" "%") do @if /i "%%~E"=="%_ROCENV_E%" set "_ROCENV_F=1"
@exit /b 0
@rem ## `check` returns 1 if a value is too long or contains a quotation mark (V is the value without quotation marks, W
@rem ## the value with apostrophes instead). It returns 2 if the value contains an exclamation mark and delayed expansion
@rem ## (D), which drops it, is enabled. A value is too long if its first characters differ from its last ones. (In Wine
@rem ## 8, `%NAME:~7000,1%` reads beyond the value.)
:check
@if not defined _ROCENV_V exit /b 1
@if not "%_ROCENV_V:~0,__LONGEST__%"=="%_ROCENV_V:~-__LONGEST__%" exit /b 1
@if not "%_ROCENV_V%"=="%_ROCENV_W%" exit /b 1
@if not defined _ROCENV_D exit /b 0
@set "_ROCENV_W=%_ROCENV_V:!=%"
@if not "%_ROCENV_V%"=="%_ROCENV_W%" exit /b 2
@exit /b 0
@rem ## Keep P, because `activate.bat` still needs it after deactivating another env.
:clean
@for %%N in (A B D E F I K L O V W X) do @set "_ROCENV_%%N="
@exit /b 0
