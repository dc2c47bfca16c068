## The cache folder: the env's own, or the user's own if the env's is not writable. Shells started from this one use
## the same folder.
set _rocenv_cache=__PREFIX__/cache _rocenv_v=
if (-w __PREFIX__/cache == 0) then
if ($?HOME) then
set _rocenv_cache=$HOME:q/.cache/rocenv/__IDENT__
endif
if ($?XDG_CACHE_HOME) then
set _rocenv_v=$XDG_CACHE_HOME:q
endif
if ("$_rocenv_v:q" =~ /*) set _rocenv_cache=$_rocenv_v:q/rocenv/__IDENT__
if ("$_rocenv_v:q" =~ */rocenv/__IDENT__) set _rocenv_cache=$_rocenv_v:q
endif
