## The cache folder: the env's own, or the user's own if the env's is not writable. Shells started from this one use
## the same folder.
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
