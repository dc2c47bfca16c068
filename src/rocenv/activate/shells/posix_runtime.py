"""The shell code that stands beside each activation script for POSIX sh, bash, zsh and ksh.

An active env keeps in the shell, and exports none of it:

    deactivate _rocenv_*    functions
    _ROCENV_DO              `builtin` or `command`: what calls a command past a function of its name
    _ROCENV_LIB_IDENT       the text of this file, in shells that keep it as text; else empty
    _ROCENV_STACK           idents of the active envs, each followed by a space, the newest first
    _ROCENV_OLD_IDENT_NAME  what NAME was: x... exported, s... set only; absent if it was unset
    _ROCENV_NEW_IDENT_NAME  x..., what the env made of a list
    _ROCENV_PS1_IDENT       what was put in front of the prompt
    _ROCENV_FOREIGN_IDENT   the `deactivate` of a venv that was active before
    _ROCENV_OURS            x..., $_OLD_VIRTUAL_PATH of a venv when `deactivate` was made ours, or empty; that
                            differs if a venv was entered since, which has put its own in the place

A shell started from this one just finds the env's variables set.
"""

from __future__ import annotations

# `neutral` calls a function under options that are known: zsh as sh, and nothing exported by being assigned.
# ksh has local variables only in functions of its own kind, and those that are called from one see them.
# `save` remembers those of the names that are set, but PATH; a shell that cannot tell counts all as exported.
# `cut` takes every entry $1 out of $_rocenv_v, a list with a colon at both ends.
# `restore` NAME [ENTRY...]: puts NAME back if it is as the env left it; what the user changed stays, but for
# the entries that were not there before.
# A venv that was entered later keeps PATH and prompt as it found them, and puts them back: `clean_venv` and
# `pop` take out of that what is the env's.
# `save_one`: what cannot be set to any text stops the activation before anything is changed.
# `keep_foreign`: zsh copies a function, bash and ksh read it back as text (in a forked copy of themselves, so
# only if there is one), a plain sh can do neither. ksh may print another part of a file.
LIBRARY = r"""
_rocenv_neutral() {
  case ${ZSH_VERSION-} in ?*) "$_ROCENV_DO" emulate -L sh ;; esac
  case $- in
  *a*)
    \set +a
    _rocenv_apart "$@"
    \set -a
    ;;
  *) _rocenv_apart "$@" ;;
  esac
}
_rocenv_apart() {
  \local IFS _rocenv_v _rocenv_n _rocenv_id _rocenv_now _rocenv_old _rocenv_kept
  IFS=" "
  "$@"
}
case ${KSH_VERSION+x} in
x)
  "$_ROCENV_DO" eval "function _rocenv_apart {
    \typeset IFS _rocenv_v _rocenv_n _rocenv_id _rocenv_now _rocenv_old _rocenv_kept
    IFS=' '
    \"\$@\"
  }"
  ;;
esac
_rocenv_save() {
  _rocenv_names_$1
  for _rocenv_n in $_ROCENV_HAD; do _rocenv_save_one "$1" "$_rocenv_n"; done
}
_rocenv_save_one() {
  case ${ZSH_VERSION+zsh}${KSH_VERSION-}${BASH_VERSION-} in
  zsh) "$_ROCENV_DO" eval "_rocenv_v=-\${(t)$2}-" ;;
  *93*) "$_ROCENV_DO" eval "_rocenv_v=\${@$2}" ;;
  4.[4-9]* | [5-9].* | [1-9][0-9]*) "$_ROCENV_DO" eval "_rocenv_v=\${$2@a}" ;;
  *) _rocenv_v=x ;;
  esac
  case $_rocenv_v in
  *-readonly-* | -integer* | -float* | -a* | *-upper-* | *-lower-* | *-left-* | *-right*) _rocenv_v=fixed ;;
  *-export-* | *-special-* | -scalar*) ;;
  typeset\ *-[!x]* | *[aAilnru]*) _rocenv_v=fixed ;;
  esac
  case $_rocenv_v in
  fixed) _ROCENV_FIXED="$_ROCENV_FIXED $2" ;;
  *x*) "$_ROCENV_DO" eval "_ROCENV_OLD_$1_$2=\"x\$$2\"" ;;
  *) "$_ROCENV_DO" eval "_ROCENV_OLD_$1_$2=\"s\$$2\"" ;;
  esac
}
_rocenv_refuse() {
  _rocenv_say "these are read-only, numbers or lists in this shell, so nothing is changed:$_ROCENV_FIXED"
  for _rocenv_n in $_ROCENV_HAD PATH; do
    "$_ROCENV_DO" unset -v "_ROCENV_OLD_$1_$_rocenv_n"
  done
  _rocenv_id=$1
  _rocenv_forget
  _rocenv_settle
}
_rocenv_cut() {
  case $_rocenv_v in
  *":$1:"*)
    _rocenv_v=${_rocenv_v%%":$1:"*}:${_rocenv_v#*":$1:"}
    _rocenv_cut "$1"
    ;;
  esac
}
_rocenv_without() {
  "$_ROCENV_DO" eval "_rocenv_v=:\$$1:"
  _rocenv_cut "$2"
  _rocenv_v=${_rocenv_v#:}
  "$_ROCENV_DO" eval "$1=\${_rocenv_v%:}"
}
_rocenv_say() {
  "$_ROCENV_DO" printf "rocenv: %s\n" "$1" >&2
}
_rocenv_report() {
  _rocenv_id=$1
  _rocenv_now=
  for _rocenv_n in $_ROCENV_HAD; do
    "$_ROCENV_DO" eval "
      _rocenv_old=\$_ROCENV_OLD_${_rocenv_id}_$_rocenv_n
      _rocenv_v=$_rocenv_n:\${$_rocenv_n+x\$$_rocenv_n}"
    case $_rocenv_n:x${_rocenv_old#?} in
    *:x | "$_rocenv_v") ;;
    *)
      case " $2 " in
      *" $_rocenv_n "*) _ROCENV_LEFT=" $_rocenv_n$_ROCENV_LEFT" ;;
      *) _rocenv_now="$_rocenv_now $_rocenv_n" ;;
      esac
      ;;
    esac
  done
  case $_rocenv_now in
  ?*) _rocenv_say "set on this machine, replaced until deactivation:$_rocenv_now" ;;
  esac
  case $_ROCENV_LEFT in
  ?*) _rocenv_say "set on this machine, and acts on this env too:$_ROCENV_LEFT" ;;
  esac
}
_rocenv_restore() {
  "$_ROCENV_DO" eval "
    _rocenv_now=\${$1+x\$$1}
    _rocenv_old=\${_ROCENV_OLD_${_rocenv_id}_$1-}"
  case $1:${_OLD_VIRTUAL_PATH+x} in
  PATH:x) _rocenv_clean_venv "$@" ;;
  esac
  "$_ROCENV_DO" unset -v "_ROCENV_NEW_${_rocenv_id}_$1" "_ROCENV_OLD_${_rocenv_id}_$1"
  case $#:$_rocenv_now in
  "$#:$2") _rocenv_put_back "$1" ;;
  2:*) _rocenv_kept="$_rocenv_kept $1" ;;
  *:?*) _rocenv_take_out "$@" ;;
  esac
}
_rocenv_put_back() {
  case $_rocenv_old in
  x*) "$_ROCENV_DO" export "$1" ;;
  *) "$_ROCENV_DO" unset -v "$1" ;;
  esac
  case $_rocenv_old in
  ?*) "$_ROCENV_DO" eval "$1=\${_rocenv_old#?}" ;;
  esac
}
_rocenv_clean_venv() {
  "$_ROCENV_DO" shift
  _rocenv_now=x$_OLD_VIRTUAL_PATH
  case ${_ROCENV_OURS+x}$_rocenv_now in
  "x${_ROCENV_OURS-}")
    _rocenv_take_out _OLD_VIRTUAL_PATH "$@"
    _ROCENV_OURS=${_OLD_VIRTUAL_PATH+"x$_OLD_VIRTUAL_PATH"}
    ;;
  *) _rocenv_take_out _OLD_VIRTUAL_PATH "$@" ;;
  esac
  _rocenv_now=${PATH+x$PATH}
}
_rocenv_take_out() {
  _rocenv_n=$1
  _rocenv_v=:${_rocenv_now#x}:
  "$_ROCENV_DO" shift 2
  for _rocenv_now in "$@"; do
    case :${_rocenv_old#?}: in
    *":$_rocenv_now:"*) ;;
    *) _rocenv_cut "$_rocenv_now" ;;
    esac
  done
  case $_rocenv_v$_rocenv_old in
  :) "$_ROCENV_DO" unset -v "$_rocenv_n" ;;
  *)
    _rocenv_v=${_rocenv_v#:}
    "$_ROCENV_DO" eval "$_rocenv_n=\${_rocenv_v%:}"
    ;;
  esac
}
_rocenv_pop() {
  _rocenv_id=${_ROCENV_STACK%% *}
  _ROCENV_STACK=${_ROCENV_STACK#* }
  "$_ROCENV_DO" eval "_rocenv_v=\$_ROCENV_LIB_$_rocenv_id"
  "$_ROCENV_DO" eval "$_rocenv_v"
  _rocenv_off_$_rocenv_id
  "$_ROCENV_DO" eval "_rocenv_v=\${_ROCENV_PS1_$_rocenv_id-}"
  case $_rocenv_v:${PS1-} in
  ?*:*"$_rocenv_v"*) PS1=${PS1%%"$_rocenv_v"*}${PS1#*"$_rocenv_v"} ;;
  esac
  case $_rocenv_v:${_OLD_VIRTUAL_PS1-} in
  ?*:"$_rocenv_v"*) _OLD_VIRTUAL_PS1=${_OLD_VIRTUAL_PS1#"$_rocenv_v"} ;;
  esac
  case $_rocenv_kept in
  ?*) _rocenv_say "changed while the env was active, and left as it is now:$_rocenv_kept" ;;
  esac
  _rocenv_forget
}
_rocenv_forget() {
  "$_ROCENV_DO" eval "_rocenv_v=\${_ROCENV_FOREIGN_$_rocenv_id-}"
  "$_ROCENV_DO" unset -f _rocenv_off_$_rocenv_id _rocenv_names_$_rocenv_id
  "$_ROCENV_DO" unset -v "_ROCENV_LIB_$_rocenv_id" "_ROCENV_PS1_$_rocenv_id" "_ROCENV_FOREIGN_$_rocenv_id"
  case $_rocenv_v in
  ?*)
    _rocenv_give_back
    "$_ROCENV_DO" unset -v _ROCENV_OURS
    ;;
  esac
}
_rocenv_settle() {
  case ${_ROCENV_STACK-} in
  "") _rocenv_vanish ;;
  *) "$_ROCENV_DO" eval "_rocenv_lib() {
    \"\$_ROCENV_DO\" eval \"\$_ROCENV_LIB_${_ROCENV_STACK%% *}\"
    _rocenv_neutral \"\$@\"
  }" ;;
  esac
}
_rocenv_end() {
  _rocenv_pop
  _rocenv_settle
}
_rocenv_leave() {
  case " $_ROCENV_STACK" in
  *" $1 "*)
    _rocenv_pop
    _rocenv_leave "$1"
    ;;
  esac
}
_rocenv_keep_foreign() {
  if "$_ROCENV_DO" alias deactivate >/dev/null 2>&1; then
    "$_ROCENV_DO" unalias deactivate
    _rocenv_say "the alias deactivate is removed: it would hide the function of that name"
  fi
  _rocenv_v=
  case ${ZSH_VERSION+zsh}${BASH_VERSION+text}${KSH_VERSION+text} in
  zsh) "$_ROCENV_DO" eval "_rocenv_v=\${functions[deactivate]-}" ;;
  text) _rocenv_v=$("$_ROCENV_DO" typeset -f deactivate) || _rocenv_v= ;;
  esac
  case $_rocenv_v:${KSH_VERSION+ksh} in
  ?*:ksh) ("$_ROCENV_DO" eval "$_rocenv_v") 2>/dev/null || _rocenv_v= ;;
  esac
  case $_rocenv_v:${ZSH_VERSION+zsh} in
  :)
    if PATH=/dev/null "$_ROCENV_DO" command -v deactivate >/dev/null; then
      _rocenv_say "the function deactivate of another env is replaced; to get it back, source its script"
    fi
    ;;
  esac
  "$_ROCENV_DO" eval "_ROCENV_FOREIGN_$1=\$_rocenv_v"
}
_rocenv_give_back() {
  case ${ZSH_VERSION+zsh} in
  zsh) "$_ROCENV_DO" eval "functions[deactivate]=\$_rocenv_v" ;;
  *) "$_ROCENV_DO" eval "$_rocenv_v" ;;
  esac
}
_rocenv_vanish() {
  case ${_ROCENV_OURS+x}${_OLD_VIRTUAL_PATH+"x$_OLD_VIRTUAL_PATH"} in
  x | "x${_ROCENV_OURS-}") "$_ROCENV_DO" unset -f deactivate 2>/dev/null || _rocenv_v= ;;
  esac
  "$_ROCENV_DO" unset -f _rocenv_lib FUNCTIONS
  "$_ROCENV_DO" unset -v _ROCENV_STACK _ROCENV_OURS _ROCENV_DO
}
"""
