## Functions that activation rarely needs, and those that deactivate an env. The script contains this file as a quoted
## string and defines the functions only on demand, because fish spends most of the sourcing time reading code. The
## string is in the shell rather than in a file, so that you can deactivate an env even after it is removed.
##
function _rocenv_say
    builtin printf 'rocenv: %s\n' "$argv" >&2
end
## IDENT NAME...: saves the variables that are set.
function _rocenv_save
    for _rocenv_n in $argv[2..-1]
        if set -q $_rocenv_n
            set -l _rocenv_how --universal --
            if set -qgx $_rocenv_n
                set _rocenv_how[1] --export
            else if set -qg $_rocenv_n
                set _rocenv_how[1] --unexport
            end
            if not set -q --unpath $_rocenv_n
                set _rocenv_how[2] --path
            else if not set -q --path $_rocenv_n
                set _rocenv_how[2] --unpath
            end
            set -g _ROCENV_OLD_{$_rocenv_n}_$argv[1] $_rocenv_how $$_rocenv_n
        end
    end
end
## NAME ENTRY...: prepends entries to a list, without duplicates. The value of a list that is not yet a path variable is
## split at each `:`. fish before 3.3.1 warns about a `:` in a value for `PATH`, which is a path variable.
function _rocenv_put_first --argument-names _rocenv_n
    set -l --path _rocenv_all
    if test $_rocenv_n = PATH
        set _rocenv_all $PATH
    else if test -n "$$_rocenv_n"
        set _rocenv_all "$$_rocenv_n"
    end
    set -l _rocenv_rest
    for _rocenv_entry in $_rocenv_all
        if not builtin contains -- $_rocenv_entry $argv[2..-1]
            set _rocenv_rest $_rocenv_rest $_rocenv_entry
        end
    end
    if test -n "$_rocenv_all"
        set -gx --path $_rocenv_n $argv[2..-1] $_rocenv_rest
    else
        set -gx --path $_rocenv_n $argv[2..-1]
    end
end
## IDENT NAME...: reports changed variables that were set before activation, and others that affect the env.
function _rocenv_report
    set -l _rocenv_replaced
    set -l _rocenv_acts
    for _rocenv_n in $argv[2..-1]
        set -l _rocenv_key _ROCENV_OLD_{$_rocenv_n}_$argv[1]
        set -l _rocenv_old $$_rocenv_key
        if set -q _rocenv_old[1]
            set -l $_rocenv_old[2] _rocenv_was $_rocenv_old[3..-1]
            if set -qx $_rocenv_n; and not set -qg $_rocenv_n
                set _rocenv_acts $_rocenv_acts $_rocenv_n
            else if test -n "$_rocenv_was"; and test "x$_rocenv_was" != "x$$_rocenv_n"
                if set -q _ROCENV_NEW_{$_rocenv_n}_$argv[1]
                    set _rocenv_acts $_rocenv_acts $_rocenv_n
                else
                    set _rocenv_replaced $_rocenv_replaced $_rocenv_n
                end
            end
        end
    end
    for _rocenv_n in __WATCHED__
        if set -qx $_rocenv_n
            set _rocenv_acts $_rocenv_acts $_rocenv_n
        end
    end
    if set -q _rocenv_replaced[1]
        _rocenv_say "replaced until you deactivate the env: $_rocenv_replaced"
    end
    if set -q _rocenv_acts[1]
        _rocenv_say "set outside the env and still in effect: $_rocenv_acts"
    end
end
## IDENT NAME STATE [ENTRY...]: restores NAME if it still has the value that the env set ("" if unset, x... if set).
## Otherwise keeps the user's value, but removes the env's entries; they are also removed from the PATH that a venv
## activated on top of the env has saved and will restore. An exported local variable, as in `PATH=... deactivate`, is
## copied into each called function, where it would hide the global variable: `set -el` erases the copy.
function _rocenv_restore --argument-names _rocenv_id _rocenv_n _rocenv_state
    set -l _rocenv_key _ROCENV_OLD_{$_rocenv_n}_$_rocenv_id
    set -l _rocenv_old $$_rocenv_key
    set -l _rocenv_now
    set -el $_rocenv_n
    if not set -q _rocenv_old[1]
        set _rocenv_old --universal --
    end
    if set -qg $_rocenv_n
        set _rocenv_now "x$$_rocenv_n"
    end
    set -eg $_rocenv_key
    set -eg _ROCENV_NEW_{$_rocenv_n}_$_rocenv_id
    set -l $_rocenv_old[2] _rocenv_text $_rocenv_old[3..-1]
    if test $_rocenv_n = PATH; and set -qg _OLD_VIRTUAL_PATH
        _rocenv_take_out _OLD_VIRTUAL_PATH --export "$_rocenv_text" $argv[4..-1]
    end
    if test "$_rocenv_now" != "$_rocenv_state"
        if not set -q argv[4]
            set -g _ROCENV_KEPT $_ROCENV_KEPT $_rocenv_n
        else if test -n "$_rocenv_now"
            _rocenv_take_out $_rocenv_n $_rocenv_old[1] "$_rocenv_text" $argv[4..-1]
        end
    else if test $_rocenv_old[1] = --universal
        set -eg $_rocenv_n
    else
        set -g $_rocenv_old[1] $_rocenv_old[2] $_rocenv_n $_rocenv_old[3..-1]
    end
end
function _rocenv_take_out --argument-names _rocenv_n _rocenv_how _rocenv_text
    set -l --path _rocenv_was "$_rocenv_text"
    set -l --path _rocenv_all "$$_rocenv_n"
    set -l --path _rocenv_rest
    for _rocenv_entry in $_rocenv_all
        if builtin contains -- $_rocenv_entry $_rocenv_was
            or not builtin contains -- $_rocenv_entry $argv[4..-1]
            set _rocenv_rest $_rocenv_rest $_rocenv_entry
        end
    end
    if set -q _rocenv_rest[1]; or test $_rocenv_how != --universal
        set -g --path $_rocenv_n $_rocenv_rest
    else
        set -eg $_rocenv_n
    end
end
## Prints the label before the output of `fish_prompt`. The old function is called first, so that it gets the exit code
## of the last command. Code that wraps `fish_prompt`, such as a venv, keeps a copy of our function. After deactivation,
## our function does not print the label, and removes itself once it is `fish_prompt` again. Until then, the old function
## is kept. It is also kept if `fish_prompt` was replaced rather than wrapped, because the two cases look the same.
function _rocenv_mark --argument-names _rocenv_id _rocenv_label
    set -l _rocenv_own _rocenv_prompt_$_rocenv_id
    while builtin functions -q $_rocenv_own
        set _rocenv_own {$_rocenv_own}_
    end
    if builtin functions -q fish_prompt
        set -g _ROCENV_PROMPT_$_rocenv_id $_rocenv_own
        builtin functions -c fish_prompt $_rocenv_own
        function fish_prompt -V _rocenv_id -V _rocenv_label -V _rocenv_own
            set -l _rocenv_shown ($_rocenv_own)
            set -l _rocenv_now _ROCENV_PROMPT_$_rocenv_id
            if test "$$_rocenv_now" = $_rocenv_own
                builtin printf %s $_rocenv_label
            else if test (status current-function) = fish_prompt
                builtin functions -e fish_prompt
                builtin functions -c $_rocenv_own fish_prompt
                builtin functions -e $_rocenv_own
            end
            builtin string join -- \n $_rocenv_shown
        end
    end
end
function _rocenv_unmark --argument-names _rocenv_own
    if builtin functions -q fish_prompt
        and builtin functions fish_prompt | builtin string match -q "* $_rocenv_own*"
        builtin functions -e fish_prompt
        builtin functions -c $_rocenv_own fish_prompt
        builtin functions -e $_rocenv_own
    end
end
function _rocenv_pop
    set -l _rocenv_id $_ROCENV_STACK[1]
    set -l _rocenv_own _ROCENV_PROMPT_$_rocenv_id
    set -e _ROCENV_STACK[1]
    _rocenv_off_$_rocenv_id
    builtin functions -e _rocenv_off_$_rocenv_id
    set -eg _ROCENV_OLD_PATH_$_rocenv_id
    set -eg _ROCENV_CACHE_$_rocenv_id
    if set -q _ROCENV_KEPT
        _rocenv_say "changed while the env was active, so not restored: $_ROCENV_KEPT"
        set -eg _ROCENV_KEPT
    end
    if set -q $_rocenv_own
        _rocenv_unmark $$_rocenv_own
        set -eg $_rocenv_own
    end
end
function _rocenv_leave
    while builtin contains -- $argv[1] $_ROCENV_STACK
        _rocenv_pop
    end
end
function _rocenv_end
    _rocenv_pop
    if not set -q _ROCENV_STACK[1]
        set -eg _ROCENV_STACK
        if _rocenv_has_deactivate
            builtin functions -e deactivate
        end
        builtin functions -e __FUNCTIONS__
    end
end
function _rocenv_has_deactivate
    builtin functions -q deactivate
    and builtin functions deactivate | builtin string match -q '*_rocenv_end*'
end
function _rocenv_taken
    _rocenv_has_deactivate
    or _rocenv_say 'another tool defines `deactivate`, so use `rocenv_deactivate` to deactivate this env'
end
