## The folder of caches: the env's own, or the user's if the user cannot write to that. It stays the same in a shell
## started from this one.
if test -w __PREFIX__/cache
    set -g _ROCENV_CACHE___IDENT__ __PREFIX__/cache
else
    switch "$XDG_CACHE_HOME"
        case '*/rocenv/__IDENT__'
            set -g _ROCENV_CACHE___IDENT__ "$XDG_CACHE_HOME"
        case '/*'
            set -g _ROCENV_CACHE___IDENT__ "$XDG_CACHE_HOME/rocenv/__IDENT__"
        case '*'
            set -g _ROCENV_CACHE___IDENT__ "$HOME/.cache/rocenv/__IDENT__"
    end
end
