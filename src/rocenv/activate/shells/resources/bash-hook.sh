function rocenv { _rocenv_call "$@"; }
## Limit the length, because a line in the file may be gigabytes long.
_rocenv_read() { IFS= \builtin read -r -n 256 _rocenv_l; }
## In an array, `$PROMPT_COMMAND` means the first element. bash itself preserves the exit code.
case " ${PROMPT_COMMAND[*]-}" in
*_rocenv_look*) ;;
*) PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND
}_rocenv_look" ;;
esac
_rocenv_complete() {
  \local IFS line word
  \local -a words
  COMPREPLY=()
  words=("${COMP_WORDS[@]:1:COMP_CWORD}")
  words=("${words[@]//[\\\"\']/}")
  while IFS= \builtin read -r line; do
    case $line in
    :files) ;;
    :folders) \builtin compopt +o bashdefault +o default -o dirnames ;;
    ?*)
      word=${line%%$'\t'*}
      case ${COMP_WORDS[COMP_CWORD]} in
      [\'\"]*) ;;
      *) \builtin printf -v word %q "$word" ;;
      esac
      COMPREPLY+=("$word")
      ;;
    esac
  done <<END
$(__PROGRAM__ complete "${words[@]}" 2>/dev/null)
END
}
\builtin complete -o bashdefault -o default -F _rocenv_complete rocenv
