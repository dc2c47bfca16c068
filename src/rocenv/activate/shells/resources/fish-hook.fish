## The fish hook.
##
## `$_rocenv_hook_seen` is the folder and first line of the last `.rocenv`; the impossible value `?` forces another
## check. `$_rocenv_hook_own` is the ident of the env that the hook activated. The parents of `$_rocenv_hook_folder`
## are computed only when the folder changes: `$_rocenv_hook_above` lists them, nearest first; `$_rocenv_hook_any`
## checks with a single command whether any of them contains the file. With `$_rocenv_hook_once`, an env's script has no
## effect if the env is active. fish itself preserves the exit code of the last command around event handlers.
function rocenv
    if test "$argv[1]" = deactivate; and not set -q argv[2]; and set -q _ROCENV_STACK[1]
        _rocenv_lib _rocenv_end
        return
    else if test "$argv[1]" = activate; and set -q argv[2]; and not set -q argv[3]
        set -l _rocenv_envs __ENVS__
        if test -n "$ROCENV_HOME"
            set _rocenv_envs "$ROCENV_HOME/envs"
        end
        if not builtin string match -qr '^(-|\.{0,2}$)|/' -- $argv[2]
            and test -f $_rocenv_envs/$argv[2]/activate.fish
            builtin source $_rocenv_envs/$argv[2]/activate.fish $_rocenv_hook_once
            return
        end
    else if test "$argv[1]" = trust
        set -g _rocenv_hook_seen '?'
    end
    command __PROGRAM__ $argv
end
function _rocenv_hook_look --on-event fish_prompt
    set -l _rocenv_found
    set -l _rocenv_first
    if test "x$_rocenv_hook_folder" != "x$PWD"
        set -l _rocenv_at
        set -l _rocenv_parts
        builtin printf %s $PWD | read -z -d / -a _rocenv_parts
        set -g _rocenv_hook_folder $PWD
        set -g _rocenv_hook_above /
        set -g _rocenv_hook_any -f /.rocenv
        for _rocenv_part in $_rocenv_parts[2..-1]
            if test -n "$_rocenv_part"
                set _rocenv_at "$_rocenv_at/$_rocenv_part"
                set _rocenv_hook_above $_rocenv_at $_rocenv_hook_above
                set _rocenv_hook_any $_rocenv_hook_any -o -f $_rocenv_at/.rocenv
            end
        end
    end
    if test $_rocenv_hook_any
        for _rocenv_at in $_rocenv_hook_above
            if test -f $_rocenv_at/.rocenv
                set _rocenv_found $_rocenv_at
                test -r $_rocenv_at/.rocenv
                and read -n 200 _rocenv_first <$_rocenv_at/.rocenv
                break
            end
        end
    end
    if test "x$_rocenv_hook_seen" != "x$_rocenv_found"\n"$_rocenv_first"
        set -g _rocenv_hook_seen "$_rocenv_found"\n"$_rocenv_first"
        _rocenv_hook_turn $_rocenv_found
    end
end
function _rocenv_hook_turn
    if set -q _rocenv_hook_own; and test "$_rocenv_hook_own" = "$_ROCENV_STACK[1]"
        _rocenv_lib _rocenv_end
    end
    set -eg _rocenv_hook_own
    if not set -q argv[1]
        return
    else if not command -q __PROGRAM__
        builtin printf 'rocenv: cannot run %s\n' __PROGRAM__ >&2
        return
    end
    set -l _rocenv_before $_ROCENV_STACK
    set -l _rocenv_name (command __PROGRAM__ trust --check $argv[1])
    or return
    set -g _rocenv_hook_once once
    rocenv activate "$_rocenv_name"
    and set -q _ROCENV_STACK[1]
    and not builtin contains -- $_ROCENV_STACK[1] $_rocenv_before
    and set -g _rocenv_hook_own $_ROCENV_STACK[1]
    set -eg _rocenv_hook_once
end
function _rocenv_hook_complete
    set -l _rocenv_words (builtin commandline -opc | builtin string split \n)
    set -l _rocenv_now (builtin commandline -ct)
    # This also completes `command rocenv` and `env A=1 rocenv`.
    while set -q _rocenv_words[1]; and not builtin string match -qr '(^|/)rocenv$' -- $_rocenv_words[1]
        set -e _rocenv_words[1]
    end
    set -l _rocenv_word (builtin string unescape -- $_rocenv_now)
    or set _rocenv_word $_rocenv_now
    set _rocenv_words $_rocenv_words[2..-1] "$_rocenv_word"
    for _rocenv_line in (command __PROGRAM__ complete $_rocenv_words 2>/dev/null | builtin string split \n)
        switch $_rocenv_line
            case :files
                # For a missing command, fish completes file names.
                builtin complete -C "_rocenv_nothing $_rocenv_now"
            case :folders
                __fish_complete_directories "$_rocenv_now" ''
            case '*'
                builtin printf '%s\n' $_rocenv_line
        end
    end
end
builtin complete -c rocenv -e
builtin complete -c rocenv -f -a '(_rocenv_hook_complete)'
