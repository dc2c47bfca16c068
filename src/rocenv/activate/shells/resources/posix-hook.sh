## The hook for bash, zsh, ksh, dash, and other POSIX shells; `bash-hook.sh` and others add code for specific shells.
##
## `_rocenv_look` walks up from the current folder. The last `.rocenv` is remembered by path and first line, so a
## changed file is treated as a different one. `_ROCENV_AUTO` is the ident of the env that the hook activated.
_rocenv_call() {
  case ${1-}:$# in
  activate:2)
    \unset -v _ROCENV_AUTO
    \set -- "$1" "$2" __ENVS__/"$2"/activate
    case ${ROCENV_HOME-} in ?*) \set -- "$1" "$2" "$ROCENV_HOME/envs/$2/activate" ;; esac
    case $2 in
    -* | */* | . | ..) ;;
    *) if __DO__ test -f "$3"; then \. "$3"; \return; fi ;;
    esac
    \set -- "$1" "$2"
    ;;
  deactivate:1)
    case ${_ROCENV_STACK-} in
    ?*)
      \unset -v _ROCENV_AUTO
      _rocenv_lib _rocenv_end
      \return
      ;;
    esac
    ;;
  trust:[12])
    __PROGRAM__ "$@" || \return
    case ${2-} in -*) ;; *) \unset -v _ROCENV_SEEN ;; esac
    _rocenv_look
    \return
    ;;
  esac
  __PROGRAM__ "$@"
}
_rocenv_look() {
  __OPTIONS__
  __LOCAL__ IFS _rocenv_d _rocenv_f _rocenv_l
  case $PWD in /*) ;; *) \return 0 ;; esac
  _rocenv_d=${PWD%/} _rocenv_f='' _rocenv_l=''
  until __HAS_FILE__; do
    case $_rocenv_d in '') \break ;; esac
    _rocenv_d=${_rocenv_d%/*}
  done
  if __HAS_FILE__; then
    _rocenv_f=$_rocenv_d/.rocenv
    if { _rocenv_read <"$_rocenv_f"; } 2>/dev/null; then :; fi
  fi
  case $_rocenv_f:$_rocenv_l in
  "${_ROCENV_SEEN-:}") ;;
  *) case $- in
    *a*)
      \set +a
      _rocenv_move
      \set -a
      ;;
    *) _rocenv_move ;;
    esac ;;
  esac
}
_rocenv_move() {
  _ROCENV_SEEN=$_rocenv_f:$_rocenv_l
  case ${_ROCENV_AUTO:+x}${_ROCENV_STACK-} in
  "x${_ROCENV_AUTO-} "*) _rocenv_lib _rocenv_end ;;
  esac
  _ROCENV_AUTO=
  case $_rocenv_f in
  ?*)
    if _rocenv_l=$(__PROGRAM__ trust --check "${_rocenv_f%.rocenv}"); then
      _rocenv_d=${_ROCENV_STACK-}
      if _rocenv_call activate "$_rocenv_l"; then
        case " $_rocenv_d" in
        *" ${_ROCENV_STACK%% *} "*) ;;
        *) _ROCENV_AUTO=${_ROCENV_STACK%% *} ;;
        esac
      fi
    fi
    ;;
  esac
}
