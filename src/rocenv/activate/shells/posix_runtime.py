"""The shell code that every activation script for POSIX sh, bash and zsh carries.

Reading a script is most of what sourcing it costs, so what an activation seldom needs (`LIBRARY`) stands in
it as one quoted text, and becomes functions only when it is called for. It is kept in the shell and not in
a file, so that an env that was removed can still be left. An active env keeps in the shell:

    deactivate _rocenv_*    functions
    _ROCENV_DO              `builtin` or `command`: what calls a command past a function of its name
    _ROCENV_LIB             the text of `LIBRARY`
    _ROCENV_STACK           idents of the active envs, each followed by a space, the newest first
    _ROCENV_OLD_IDENT_NAME  what NAME was: x... exported, s... set only; absent if it was unset
    _ROCENV_NEW_IDENT_NAME  x..., what the env made of a list
    _ROCENV_OFF_IDENT       the code that takes the changes back
    _ROCENV_PS1_IDENT       what was put in front of the prompt
    _ROCENV_FOREIGN         the `deactivate` of a venv that was active before

None of it is exported: a shell started from this one just finds the env's variables set.
"""

from __future__ import annotations

# `neutral` calls a function under options that are known: zsh as sh, and nothing exported by being assigned.
# `save` remembers the variables in $_rocenv_had; a shell that cannot tell counts them as exported.
# `cut` takes every entry $1 out of $_rocenv_v, a list with a colon at both ends.
CORE = r"""
_rocenv_neutral() {
  case ${ZSH_VERSION-} in ?*) "$_ROCENV_DO" emulate -L sh ;; esac
  \local IFS _rocenv_v _rocenv_n _rocenv_id _rocenv_now _rocenv_old _rocenv_had _rocenv_left _rocenv_kept
  IFS=" "
  case $- in
  *a*)
    \set +a
    "$@"
    \set -a
    ;;
  *) "$@" ;;
  esac
}
_rocenv_lib() {
  "$_ROCENV_DO" eval "$_ROCENV_LIB"
  "$@"
}
_rocenv_save() {
  for _rocenv_n in $_rocenv_had; do
    case ${ZSH_VERSION+zsh}${BASH_VERSION-} in
    zsh) _rocenv_v="\${(t)$_rocenv_n}" ;;
    4.[4-9]* | [5-9].* | [1-9][0-9]*) _rocenv_v="\${$_rocenv_n@a}" ;;
    *) _rocenv_v=x ;;
    esac
    "$_ROCENV_DO" eval "case $_rocenv_v in *x*) _rocenv_v=x ;; *) _rocenv_v=s ;; esac
      _ROCENV_OLD_$1_$_rocenv_n=\$_rocenv_v\$$_rocenv_n"
  done
}
_rocenv_cut() {
  case $_rocenv_v in
  *":$1:"*)
    _rocenv_v=${_rocenv_v%%":$1:"*}:${_rocenv_v#*":$1:"}
    _rocenv_cut "$1"
    ;;
  esac
}
_rocenv_prepend() {
  "$_ROCENV_DO" eval "_rocenv_v=:\${$1:+\$$1:}"
  _rocenv_cut "$2"
  "$_ROCENV_DO" eval "$1=\$2\${_rocenv_v%:}"
}
"""

# `restore` NAME STATE [ENTRY...]: puts NAME back if it is in the state that the env left it in ("" unset,
# x... set); what the user changed stays, but for the entries that were not there before.
# `keep_foreign`: zsh copies a function, bash reads it back as text (in a forked copy of itself, so only if
# there is one), a plain sh can do neither.
LIBRARY = r"""
_rocenv_say() {
  "$_ROCENV_DO" printf "rocenv: %s\n" "$1" >&2
}
_rocenv_report() {
  _rocenv_id=$1
  _rocenv_now=
  for _rocenv_n in $_rocenv_had; do
    "$_ROCENV_DO" eval "
      _rocenv_old=\$_ROCENV_OLD_${_rocenv_id}_$_rocenv_n
      _rocenv_v=$_rocenv_n:\${$_rocenv_n+x\$$_rocenv_n}"
    case $_rocenv_n:x${_rocenv_old#?} in
    PATH:* | *:x | "$_rocenv_v") ;;
    *)
      case " $2 " in
      *" $_rocenv_n "*) _rocenv_left=" $_rocenv_n$_rocenv_left" ;;
      *) _rocenv_now="$_rocenv_now $_rocenv_n" ;;
      esac
      ;;
    esac
  done
  case $_rocenv_now in
  ?*) _rocenv_say "set on this machine, replaced until deactivation:$_rocenv_now" ;;
  esac
  case $_rocenv_left in
  ?*) _rocenv_say "set on this machine, and acts on this env too:$_rocenv_left" ;;
  esac
}
_rocenv_restore() {
  "$_ROCENV_DO" eval "
    _rocenv_now=\${$1+x\$$1}
    _rocenv_old=\${_ROCENV_OLD_${_rocenv_id}_$1-}"
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
  _rocenv_kept=
  "$_ROCENV_DO" eval "_rocenv_v=\$_ROCENV_OFF_$_rocenv_id"
  "$_ROCENV_DO" eval "$_rocenv_v"
  "$_ROCENV_DO" eval "_rocenv_v=\${_ROCENV_PS1_$_rocenv_id-}"
  case $_rocenv_v:${PS1-} in
  ?*:"$_rocenv_v"*) PS1=${PS1#"$_rocenv_v"} ;;
  esac
  "$_ROCENV_DO" unset -v "_ROCENV_OFF_$_rocenv_id" "_ROCENV_PS1_$_rocenv_id"
  case $_rocenv_kept in
  ?*) _rocenv_say "changed while the env was active, and left as it is now:$_rocenv_kept" ;;
  esac
}
_rocenv_leave() {
  case " $_ROCENV_STACK" in
  *" $1 "*)
    _rocenv_pop
    _rocenv_leave "$1"
    ;;
  esac
}
_rocenv_end() {
  _rocenv_pop
  case $_ROCENV_STACK in
  "") _rocenv_vanish ;;
  esac
}
_rocenv_keep_foreign() {
  if "$_ROCENV_DO" alias deactivate >/dev/null 2>&1; then
    "$_ROCENV_DO" unalias deactivate
    _rocenv_say "the alias deactivate is removed: it would hide the function of that name"
  fi
  case ${ZSH_VERSION+zsh}${BASH_VERSION+bash} in
  zsh) "$_ROCENV_DO" eval "_ROCENV_FOREIGN=\${functions[deactivate]-}" ;;
  bash) _ROCENV_FOREIGN=$("$_ROCENV_DO" typeset -f deactivate) || _ROCENV_FOREIGN= ;;
  *)
    if PATH=/dev/null "$_ROCENV_DO" command -v deactivate >/dev/null; then
      _rocenv_say "the function deactivate of another env is replaced; to get it back, source its script"
    fi
    ;;
  esac
}
_rocenv_give_back_foreign() {
  case ${_ROCENV_FOREIGN:+set}${ZSH_VERSION+zsh} in
  setzsh) "$_ROCENV_DO" eval "functions[deactivate]=\$_ROCENV_FOREIGN" ;;
  set) "$_ROCENV_DO" eval "$_ROCENV_FOREIGN" ;;
  esac
}
_rocenv_vanish() {
  "$_ROCENV_DO" unset -f deactivate 2>/dev/null || _rocenv_v=
  _rocenv_give_back_foreign
  "$_ROCENV_DO" unset -f FUNCTIONS
  "$_ROCENV_DO" unset -v _ROCENV_STACK _ROCENV_LIB _ROCENV_FOREIGN _ROCENV_DO
}
"""
