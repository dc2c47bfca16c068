# Source this file to activate the env `__LABEL__`. `deactivate` or `rocenv_deactivate` undoes it.
##
## A sourced script runs in a user's shell, so this code does not depend on that shell's settings: words are quoted,
## commands bypass aliases and functions, and words are split only in functions that `_rocenv_neutral` calls. State of
## an active env in the shell, not exported:
##   deactivate, rocenv_deactivate, _rocenv_*    functions
##   _ROCENV_DO              `builtin` or `command`: calls a command even if a function has the same name
##   _ROCENV_LIB_IDENT       the text of posix-library.sh, in shells that can store it; otherwise empty
##   _ROCENV_STACK           idents of the active envs, each followed by a space, newest first
##   _ROCENV_OLD_IDENT_NAME  x (if exported) or s, then NAME's old value; absent if NAME was unset
##   _ROCENV_NEW_IDENT_NAME  x, then NAME's value in the env; only for lists such as PATH
##   _ROCENV_CACHE_IDENT     the cache folder, if the env changes cache variables
##   _ROCENV_PS1_IDENT       the text that was prepended to the prompt
##   _ROCENV_OURS            x if `deactivate` is ours; another tool's is kept
##   _ROCENV_ROOT            on Windows: the drive mount point
##
## A shell started from this one inherits only the env's variables.
case $- in *a*) \set +a; _ROCENV_ALL=x ;; *) _ROCENV_ALL= ;; esac
case ${BASH_VERSION-}${ZSH_VERSION-} in ?*) _ROCENV_DO='builtin' ;; *) _ROCENV_DO='command' ;; esac
case $0 in *activate) if "$_ROCENV_DO" test "$0" -ef __SCRIPT__; then
  case ${ZSH_EVAL_CONTEXT-}/${FUNCNAME-} in
  *file* | */source) ;;
  *) "$_ROCENV_DO" printf '%s\n' __EXECUTED__ >&2; "$_ROCENV_DO" exit __STATUS__ ;;
  esac
fi ;; esac
## A copied env has its own record and must not use the original's files. (dash cannot detect the copy, because
## it has no variable for the script's path.)
case ${BASH_VERSION+b}${ZSH_VERSION+z}${KSH_VERSION+k} in
b) _ROCENV_HOW=${BASH_SOURCE-} ;;
z) _ROCENV_HOW=${(%):-%x} ;;
k) "$_ROCENV_DO" eval '_ROCENV_HOW=${.sh.file-}' ;;
*) _ROCENV_HOW= ;;
esac
case $_ROCENV_HOW in
'' | __SCRIPT__) _ROCENV_HOW= ;;
*/*) _ROCENV_HOW=${_ROCENV_HOW%/*}/.rocenv/record.json ;;
*) _ROCENV_HOW=.rocenv/record.json ;;
esac
if "$_ROCENV_DO" test -f "$_ROCENV_HOW" && ! "$_ROCENV_DO" test "$_ROCENV_HOW" -ef __MARKER__; then
  "$_ROCENV_DO" printf '%s\n' __COPIED__ >&2
  _ROCENV_HOW=refused
elif "$_ROCENV_DO" test -f __MARKER__ && "$_ROCENV_DO" test -r __LIBRARY__; then
  # If the env is active, deactivate it and those on top of it, and start over.
  case " ${_ROCENV_STACK-}" in *' __IDENT__ '*) _rocenv_lib _rocenv_leave __IDENT__ ;; esac
  case ${ZSH_VERSION-}/${BASH_VERSION-} in
  ?*/)
    _ROCENV_LIB___IDENT__="$(<__LIBRARY__)"
    case ${PATH+${(t)PATH}} in
    scalar-export*-special | scalar-tied-export*-special) _ROCENV_HOW=x ;;
    *) _ROCENV_HOW=s ;;
    esac
    ;;
  /4.[4-9]* | /[5-9].* | /[1-9][0-9]*)
    "$_ROCENV_DO" mapfile -d '' _ROCENV_LIB___IDENT__ <__LIBRARY__
    _ROCENV_HOW=${PATH+${PATH@a}}
    ;;
  *)
    _ROCENV_LIB___IDENT__=
    \. __LIBRARY__
    _ROCENV_HOW=x
    ;;
  esac
  _rocenv_lib() { "$_ROCENV_DO" eval "$_ROCENV_LIB___IDENT__"; _rocenv_neutral "$@"; }
  rocenv_deactivate() { _rocenv_lib _rocenv_end; }
  _ROCENV_OLD___IDENT___PATH=${PATH+"x$PATH"}
  # The usual case: PATH is exported and has no entry from this env, and none of the other variables that the env changes
  # or watches are set.
  case $_ROCENV_HOW__ANY_SET__:${PATH-}: in
  __PATH_WITH_OURS__) _ROCENV_HOW=unusual ;;
  x:*) ;;
  *) _ROCENV_HOW=unusual ;;
  esac
  case $_ROCENV_HOW in unusual) _rocenv_lib _rocenv_save __IDENT__ ;; esac
else
  "$_ROCENV_DO" printf '%s\n' __GONE__ >&2
  _ROCENV_HOW=refused
fi
case $_ROCENV_HOW in
refused) ;;
*)
  # From here on, the env can be deactivated, whatever happens.
  _ROCENV_STACK="__IDENT__ ${_ROCENV_STACK-}"
  __CHANGES__
  __REMEMBER__
  case $_ROCENV_HOW in
  refused) _rocenv_lib _rocenv_undo ;;
  unusual) _rocenv_lib _rocenv_report __IDENT__ __LISTS__ ;;
  esac
  ;;
esac
case $_ROCENV_HOW in
refused) ;;
*)
  if case $_ROCENV_DO/${BASH_VERSION+bash} in
    */bash)
      case ${BASH_ALIASES[deactivate]+x} in x) ;; *) "$_ROCENV_DO" typeset -F deactivate >/dev/null ;; esac
      ;;
    builtin/) { "$_ROCENV_DO" alias deactivate || "$_ROCENV_DO" typeset -f deactivate; } >/dev/null ;;
    # (Not in zsh, which would export an unset PATH.)
    *)
      { "$_ROCENV_DO" alias deactivate || PATH=/dev/null "$_ROCENV_DO" command -v deactivate; } >/dev/null 2>&1
      ;;
    esac; then
    case ${_ROCENV_OURS-}${_OLD_VIRTUAL_PATH+v} in x) ;; *) _rocenv_lib _rocenv_taken ;; esac
  else
    "$_ROCENV_DO" eval 'deactivate() { _rocenv_lib _rocenv_end; }'
    _ROCENV_OURS=x
  fi
  case ${ROCENV_DISABLE_PROMPT-}:${PS1:+x} in :x)
    _ROCENV_PS1___IDENT__=__MARK__
    PS1=__MARK__"$PS1"
    ;;
  esac
  ;;
esac
case $_ROCENV_ALL in x) \set -a ;; esac
case $_ROCENV_HOW in
refused)
  "$_ROCENV_DO" unset -v _ROCENV_ALL _ROCENV_HAD _ROCENV_HOW _ROCENV_LEFT
  case ${_ROCENV_STACK-} in '') "$_ROCENV_DO" unset -v _ROCENV_ROOT _ROCENV_DO ;; esac
  \return 1
  ;;
esac
"$_ROCENV_DO" unset -v _ROCENV_ALL _ROCENV_HOW
