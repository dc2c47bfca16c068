"""The hook of bash, zsh, ksh, dash and other POSIX shells.

bash and zsh look for a `.rocenv` before each prompt. The others have nothing that runs there without starting
a process, so there `cd` becomes a function that looks afterwards (unless it is an alias already).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix import quote

if TYPE_CHECKING:
    from rocenv.activate.hooks import Place


def bash(place: Place) -> str:
    """Return the hook of bash."""
    return _filled(
        _COMMON + _BASH, place, do="builtin", local=r"\local", read="read -r -n 256", define="function rocenv"
    )


def zsh(place: Place) -> str:
    """Return the hook of zsh."""
    options = r"\builtin emulate -L zsh; \builtin setopt no_warn_create_global no_warn_nested_var"
    return _filled(
        _COMMON + _ZSH,
        place,
        do="builtin",
        local=r"\local",
        read="read -r -k 256 -u 0",
        define="function rocenv",
        options=options,
    )


def plain(place: Place) -> str:
    """Return the hook of a POSIX shell that is neither."""
    unalias = "\\unalias rocenv 2>/dev/null\nrocenv()"
    return _filled(_COMMON + _PLAIN, place, do="command", local=":", read="read -r", define=unalias)


def _filled(
    code: str, place: Place, *, do: str, local: str, read: str, define: str, options: str = ""
) -> str:
    # In one pass: a path may hold the name of a place holder.
    words = {
        "@PROGRAM@": quote(place.program),
        "@ENVS@": quote(place.envs),
        "@DEFINE@": define,  # in a way that an alias of that name does not reach
        "@DO@": f"\\{do}",
        "@LOCAL@": local,
        "@OPTIONS@": options,
        "@READ@": f"\\{do} {read}",  # where there is a way, no line of gigabytes
    }
    return re.sub(r"@[A-Z]+@", lambda found: words[found[0]], code.lstrip())


# `_rocenv_look` goes up from the current folder. What was seen last is kept as path and first line, so a file
# whose content changed counts as another one. `_ROCENV_AUTO` is the ident of what the hook activated.
_COMMON = r"""
@DEFINE@ {
  @OPTIONS@
  case ${1-}:$# in
  activate:2)
    \unset -v _ROCENV_AUTO
    \set -- "$1" "$2" @ENVS@/"$2"/activate
    case ${ROCENV_HOME-} in ?*) \set -- "$1" "$2" "$ROCENV_HOME/envs/$2/activate" ;; esac
    case $2 in
    -* | */* | . | ..) ;;
    *) if @DO@ test -f "$3"; then \. "$3"; \return; fi ;;
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
    @PROGRAM@ "$@" || \return
    case ${2-} in -*) ;; *) \unset -v _ROCENV_SEEN ;; esac
    _rocenv_look
    \return
    ;;
  esac
  @PROGRAM@ "$@"
}
_rocenv_look() {
  @OPTIONS@
  @LOCAL@ IFS _rocenv_d _rocenv_f _rocenv_l
  case $PWD in /*) ;; *) \return 0 ;; esac
  _rocenv_d=${PWD%/} _rocenv_f= _rocenv_l=
  while case $_rocenv_f in ?*) @DO@ false ;; esac; do
    if @DO@ test -f "$_rocenv_d/.rocenv"; then
      _rocenv_f=$_rocenv_d/.rocenv
      { IFS= @READ@ _rocenv_l <"$_rocenv_f"; } 2>/dev/null || @DO@ :
    fi
    case $_rocenv_d in '') \break ;; esac
    _rocenv_d=${_rocenv_d%/*}
  done
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
    if _rocenv_l=$(@PROGRAM@ trust --check "${_rocenv_f%.rocenv}"); then
      _rocenv_d=${_ROCENV_STACK-}
      if \rocenv activate "$_rocenv_l"; then
        case " $_rocenv_d" in
        *" ${_ROCENV_STACK%% *} "*) ;;
        *) _ROCENV_AUTO=${_ROCENV_STACK%% *} ;;
        esac
      fi
    fi
    ;;
  esac
}
"""

# The first element of PROMPT_COMMAND is what it is as a plain string, too. bash itself keeps the exit code.
_BASH = r"""
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
$(@PROGRAM@ complete "${words[@]}" 2>/dev/null)
END
}
\builtin complete -o bashdefault -o default -F _rocenv_complete rocenv
"""

_ZSH = r"""
_rocenv_complete() {
  \builtin emulate -L zsh
  \local line
  \local -a values
  for line in "${(@f)$(@PROGRAM@ complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
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
"""

_PLAIN = r"""
if \alias cd >/dev/null 2>&1; then :; else
  \eval 'cd() {
    \command cd "$@" || \return
    _rocenv_look
  }'
fi
_rocenv_look
"""
