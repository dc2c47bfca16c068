## The cache folder: the env's own, or the user's own if the env's is not writable. Shells started from this one use
## the same folder.
if "$_ROCENV_DO" test -w __PREFIX__/cache; then
  _ROCENV_CACHE___IDENT__=__PREFIX__/cache
else
  case ${XDG_CACHE_HOME-} in
  */rocenv/__IDENT__) _ROCENV_CACHE___IDENT__=$XDG_CACHE_HOME ;;
  /*) _ROCENV_CACHE___IDENT__=$XDG_CACHE_HOME/rocenv/__IDENT__ ;;
  *) _ROCENV_CACHE___IDENT__=${HOME-}/.cache/rocenv/__IDENT__ ;;
  esac
fi
