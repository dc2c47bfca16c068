function rocenv {
  __OPTIONS__
  _rocenv_call "$@"
}
## Limit the length, because a file may contain a line of gigabytes.
_rocenv_read() { IFS= \builtin read -r -k 256 -u 0 _rocenv_l; _rocenv_l=${_rocenv_l%%$'\n'*}; }
_rocenv_complete() {
  \builtin emulate -L zsh
  \local line
  \local -a values
  for line in "${(@f)$(__PROGRAM__ complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
    :files) _files ;;
    :folders) _files -/ ;;
    *$'\t'*) values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
    ?*) values+=("${line//:/\\:}") ;;
    esac
  done
  (($#values)) && _describe rocenv values
}
() {
  \builtin emulate -L zsh
  \builtin typeset -ga precmd_functions
  ((${precmd_functions[(I)_rocenv_look]})) || precmd_functions=(_rocenv_look $precmd_functions)
  if \builtin typeset -f compdef >/dev/null; then compdef _rocenv_complete rocenv; fi
}
