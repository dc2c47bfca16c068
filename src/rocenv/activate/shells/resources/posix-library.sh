## Functions that activation rarely needs, and those that deactivate an env.
##
## Calls a function with known shell options: zsh emulates sh, and assignments do not export. ksh supports local
## variables only in functions defined with `function`; functions called from such a function see them.
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
## Saves all variables that are set and that the env IDENT changes, and removes its entries from lists, or refuses to
## change anything.
_rocenv_save() {
  _ROCENV_FIXED=
  "_rocenv_names_$1"
  for _rocenv_n in ${PATH+PATH} $_ROCENV_HAD; do _rocenv_save_one "$1" "$_rocenv_n"; done
  case $_ROCENV_FIXED in
  ?*)
    _ROCENV_HOW=refused
    _rocenv_say "nothing was changed, because these are read-only, numbers, or lists in this shell:$_ROCENV_FIXED"
    for _rocenv_n in $_ROCENV_HAD; do "$_ROCENV_DO" unset -v "_ROCENV_OLD_$1_$_rocenv_n"; done
    "$_ROCENV_DO" unset -v _ROCENV_HAD _ROCENV_LEFT
    _rocenv_forget "$1"
    case ${_ROCENV_STACK-} in "") _rocenv_vanish ;; esac
    ;;
  *) "_rocenv_clean_$1" ;;
  esac
  "$_ROCENV_DO" unset -v _ROCENV_FIXED
}
_rocenv_those_set() {
  _rocenv_v=
  for _rocenv_n in $1; do
    ## When zsh emulates sh, an empty list counts as unset.
    case ${ZSH_VERSION+x} in
    x) "$_ROCENV_DO" eval "case \${(t)$_rocenv_n-} in ?*) _rocenv_v=\"\$_rocenv_v $_rocenv_n\" ;; esac" ;;
    *) "$_ROCENV_DO" eval "_rocenv_v=\$_rocenv_v\${$_rocenv_n+ $_rocenv_n}" ;;
    esac
  done
}
## A variable that cannot contain arbitrary text aborts the activation before anything changes. In shells that cannot
## list exported variables, all variables are treated as exported.
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
_rocenv_taken() {
  _rocenv_say "another tool defines \`deactivate\`, so use \`rocenv_deactivate\` to deactivate this env"
}
_rocenv_say() {
  "$_ROCENV_DO" printf "rocenv: %s\n" "$1" >&2
}
## Reports variables that were set before activation, unless another rocenv env set them.
_rocenv_report() {
  case $_ROCENV_STACK in "$1 ") _rocenv_compare "$1" "$2" ;; esac
  "$_ROCENV_DO" unset -v _ROCENV_HAD _ROCENV_LEFT
}
_rocenv_compare() {
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
  ?*) _rocenv_say "replaced until you deactivate the env:$_rocenv_now" ;;
  esac
  case $_ROCENV_LEFT in
  ?*) _rocenv_say "set outside the env and still in effect:$_ROCENV_LEFT" ;;
  esac
}
## Removes every entry $1 from $_rocenv_v, a list with a colon at both ends.
_rocenv_cut() {
  case $_rocenv_v in
  *":$1:"*)
    _rocenv_v=${_rocenv_v%%":$1:"*}:${_rocenv_v#*":$1:"}
    _rocenv_cut "$1"
    ;;
  esac
}
_rocenv_without() {
  _rocenv_n=$1
  "$_ROCENV_DO" eval "_rocenv_v=\${$1+:\$$1:}"
  "$_ROCENV_DO" shift
  for _rocenv_now in "$@"; do _rocenv_cut "$_rocenv_now"; done
  case $_rocenv_v in
  ?*)
    _rocenv_v=${_rocenv_v#:}
    "$_ROCENV_DO" eval "$_rocenv_n=\${_rocenv_v%:}"
    ;;
  esac
}
## NAME STATE [ENTRY...]: restores NAME if it still has the value that the env set. Otherwise keeps the user's value, but
## removes the env's entries. A venv activated on top of the env has saved PATH and will restore it, so the env's entries
## are also removed from that copy.
_rocenv_restore() {
  "$_ROCENV_DO" eval "
    _rocenv_now=\${$1+x\$$1}
    _rocenv_old=\${_ROCENV_OLD_${_rocenv_id}_$1-}"
  case $1:${_OLD_VIRTUAL_PATH+x} in
  PATH:x)
    _rocenv_now=x$_OLD_VIRTUAL_PATH
    "$_ROCENV_DO" shift
    _rocenv_take_out _OLD_VIRTUAL_PATH "$@"
    "$_ROCENV_DO" set -- PATH "$@"
    _rocenv_now=${PATH+x$PATH}
    ;;
  esac
  "$_ROCENV_DO" unset -v "_ROCENV_NEW_${_rocenv_id}_$1" "_ROCENV_OLD_${_rocenv_id}_$1"
  case $#:$_rocenv_now in
  "$#:$2") _rocenv_put_back "$1" ;;
  2:*) _rocenv_kept="$_rocenv_kept $1" ;;
  "$#:$_rocenv_old") ;;
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
  ## Each env has a copy of this text, with its own functions at the end.
  "$_ROCENV_DO" eval "\"\$_ROCENV_DO\" eval \"\$_ROCENV_LIB_$_rocenv_id\""
  "_rocenv_off_$_rocenv_id"
  "$_ROCENV_DO" eval "_rocenv_v=\${_ROCENV_PS1_$_rocenv_id-}"
  case $_rocenv_v:${PS1-} in
  ?*:*"$_rocenv_v"*) PS1=${PS1%%"$_rocenv_v"*}${PS1#*"$_rocenv_v"} ;;
  esac
  case $_rocenv_v:${_OLD_VIRTUAL_PS1-} in
  ?*:"$_rocenv_v"*) _OLD_VIRTUAL_PS1=${_OLD_VIRTUAL_PS1#"$_rocenv_v"} ;;
  esac
  case ${_ROCENV_HOW-}:$_rocenv_kept in
  :?*) _rocenv_say "changed while the env was active, so not restored:$_rocenv_kept" ;;
  esac
  _rocenv_forget "$_rocenv_id"
}
_rocenv_forget() {
  "$_ROCENV_DO" unset -v "_ROCENV_LIB_$1" "_ROCENV_CACHE_$1" "_ROCENV_PS1_$1" "_ROCENV_OLD_$1_PATH"
  "$_ROCENV_DO" unset -f "_rocenv_names_$1" "_rocenv_clean_$1" "_rocenv_off_$1"
  case ${_ROCENV_STACK-} in
  ?*)
    "$_ROCENV_DO" eval "_rocenv_lib() {
      \"\$_ROCENV_DO\" eval \"\$_ROCENV_LIB_${_ROCENV_STACK%% *}\"
      _rocenv_neutral \"\$@\"
    }"
    ;;
  esac
}
_rocenv_undo() {
  _rocenv_pop
  case $_ROCENV_STACK in "") _rocenv_vanish ;; esac
}
_rocenv_end() {
  _rocenv_undo
  case ${_ROCENV_STACK-} in "") "$_ROCENV_DO" unset -v _ROCENV_ROOT _ROCENV_DO ;; esac
}
_rocenv_leave() {
  case " $_ROCENV_STACK" in
  *" $1 "*)
    _rocenv_pop
    _rocenv_leave "$1"
    ;;
  esac
}
## A venv that was activated later has replaced our `deactivate` with its own.
_rocenv_vanish() {
  case ${_ROCENV_OURS-}${_OLD_VIRTUAL_PATH+v} in
  x) "$_ROCENV_DO" unset -f deactivate 2>/dev/null || _rocenv_v= ;;
  esac
  "$_ROCENV_DO" unset -f rocenv_deactivate 2>/dev/null || _rocenv_v=
  "$_ROCENV_DO" unset -f _rocenv_lib __FUNCTIONS__
  "$_ROCENV_DO" unset -v _ROCENV_STACK _ROCENV_OURS
}
## Functions for this env: find which of its variables are set, remove its entries from lists, and undo its changes.
_rocenv_names___IDENT__() {
  _rocenv_those_set "__OTHERS__"
  _ROCENV_HAD=$_rocenv_v
  _rocenv_those_set "__WATCHED__"
  _ROCENV_LEFT=$_rocenv_v
}
_rocenv_clean___IDENT__() {
  _rocenv_v=
  __CLEAN__
}
_rocenv_off___IDENT__() {
  _rocenv_kept=
  __RESTORE__
}
