# Source this file to activate the env `__LABEL__`. `deactivate` or `rocenv_deactivate` undoes it.
##
## For fish 3.0 and later, without starting processes. Everything runs in functions, which do not see local variables of
## the code that sources the script. Commands whose names fish does not reserve are called with `builtin`, to bypass the
## user's functions. A `return` outside a function is a syntax error before fish 3.4. State of an active env in the
## shell, all global and not exported:
##
##   deactivate, rocenv_deactivate, _rocenv_*    functions
##   _rocenv_prompt_IDENT      the previous `fish_prompt`; with more underscores at the end if the name was in use
##   _ROCENV_STACK             idents of the active envs, newest first
##   _ROCENV_OLD_NAME_IDENT    previous NAME: two options of `set`, then its values; absent if unset
##   _ROCENV_NEW_NAME_IDENT    x..., value of a list in the env
##   _rocenv_off_IDENT         the function that undoes the changes
##   _ROCENV_CACHE_IDENT       the cache folder, if the env changes cache variables
##   _ROCENV_PROMPT_IDENT      name of the function with the previous prompt; absent if the prompt does not show the env
##   _ROCENV_KEPT              during deactivation: variables changed by the user
##
## The options are `--export` or `--unexport`, or `--universal` for a variable that was universal and not global; and
## `--path` or `--unpath`, or `--` before fish 3.4, which cannot distinguish them.
##
## A quoted list is what fish would export: its entries joined by `:` for a path variable, otherwise by spaces. Variables
## whose names end with `PATH` are path variables automatically, so ours have other endings.
function _rocenv_enter
    set -l _rocenv_here (status filename) # unknown after the next line
    builtin functions -e _rocenv_enter
    if test $argv[1] -ne 0
        builtin printf '%s\n' __EXECUTED__ >&2
        return __STATUS__
    end
    ## A copied env has its own record and must not use the original's files. fish cannot compare files itself.
    if test "$_rocenv_here" != __SCRIPT__; and begin
        set -l _rocenv_record (builtin string replace -r '[^/]*$' '' -- "$_rocenv_here").rocenv/record.json
        test -f "$_rocenv_record"
        and not /bin/sh -c 'test "$1" -ef "$2"' sh "$_rocenv_record" __MARKER__
    end
        builtin printf '%s\n' __COPIED__ >&2
        return 1
    else if not test -f __MARKER__
        builtin printf '%s\n' __GONE__ >&2
        return 1
    end
    ## Avoid `eval`, which users could redefine before fish 3.5.
    function _rocenv_lib
        builtin printf %s __LIBRARY__ | builtin source
        $argv
    end
    # If the env is active, the hook does nothing; other callers first deactivate it and any on top.
    if builtin contains -- __IDENT__ $_ROCENV_STACK
        set -q argv[2]
        and return 0
        _rocenv_lib _rocenv_leave __IDENT__
    end
    ## An exported local variable, as in `PATH=... source FILE`, is copied into each called function, where it would hide
    ## the global variable. Only the copy is erased. `set -q` returns the number of variables that are not set.
    set -l _rocenv_names __OTHERS__
    set -ql _ROCENV_NONE PATH $_rocenv_names
    if test $status -ne __ALL_LOCAL_UNSET__
        for _rocenv_n in PATH $_rocenv_names
            set -el $_rocenv_n
        end
    end
    set -q _ROCENV_NONE $_rocenv_names
    set -l _rocenv_unset $status
    # Usually, PATH is exported and has no entry from this env, and no other variable that the env changes is set.
    if test -n "$PATH" -a $_rocenv_unset -eq __ALL_UNSET__
        and set -qgx PATH
        __PATH_WITHOUT_OURS__
        set -g _ROCENV_OLD_PATH___IDENT__ --export --path $PATH
        __NEW_LISTS__
    else
        _rocenv_lib _rocenv_save __IDENT__ PATH $_rocenv_names
        __LISTS__
    end
    __CHANGES__
    function _rocenv_off___IDENT__
        __RESTORE__
    end
    if not set -q _ROCENV_STACK[1]
        set -qx _ROCENV_NONE __WATCHED__
        test $_rocenv_unset/$status != __ALL_UNSET__/__ALL_WATCHED_UNSET__
        and _rocenv_lib _rocenv_report __IDENT__ $_rocenv_names
    end
    function rocenv_deactivate --description 'Deactivate the most recently activated rocenv env'
        _rocenv_lib _rocenv_end
    end
    if builtin functions -q deactivate
        _rocenv_lib _rocenv_taken
    else
        function deactivate --description 'Deactivate the most recently activated rocenv env'
            _rocenv_lib _rocenv_end
        end
    end
    status is-interactive
    and test -z "$ROCENV_DISABLE_PROMPT"
    and _rocenv_lib _rocenv_mark __IDENT__ __MARK__
    set -g _ROCENV_STACK __IDENT__ $_ROCENV_STACK
    return 0
end
# A sourced file has its own `argv`.
set -ql argv
_rocenv_enter $status $argv
