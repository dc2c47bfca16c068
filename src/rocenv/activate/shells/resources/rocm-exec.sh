#!/bin/sh
# rocenv-wrapper: runs a program through the env's own dynamic loader, so that it finds the env's libraries
__IN_PLACE__
set -f
tab='	'
loader=__LOADER__
libraries=__LIBRARIES__
fail() {
  printf 'rocenv: %s\n' "$2" >&2
  exit "$1"
}

# Read the start of $found, which identifies the file type.
look() {
  magic='' mark=''
  {
    IFS= read -r magic
    case $magic in '#!'*) IFS= read -r mark ;; esac
  } <"$found"
}

# Set $found to the program that a shell would run, skipping wrappers.
find() {
  found=$1
  case $1 in
  */*)
    [ -e "$1" ] || fail 127 "file \`$1\` not found"
    { [ -f "$1" ] && [ -x "$1" ]; } || fail 126 "\`$1\` is not executable"
    look
    return
    ;;
  esac
  rest=$PATH:
  while [ -n "$rest" ]; do
    found=${rest%%:*}
    found=${found:-.}/$1
    rest=${rest#*:}
    if [ -f "$found" ] && [ -x "$found" ]; then
      look
      case ${ROCENV_ASKING:+$magic}$mark in '#!'* | *rocenv-wrapper*) ;; *) return ;; esac
    fi
  done
  fail 127 "command \`$1\` not found, except for wrappers of envs"
}

case ${0##*/} in
rocm-exec) [ "$#" -gt 0 ] || fail 2 'usage: rocm-exec PROGRAM [ARGUMENT...]' ;;
*) set -- "${0##*/}" "$@" ;;
esac
# shellcheck disable=SC2034
for level in 0 1 2 3 4; do
  find "$1"
  shift
  case $magic:${found##*/} in
  '#!'*:python | '#!'*:python[23] | '#!'*:python[23].*)
    # A version manager's shim would start Python without the loader, so find the Python that it starts.
    if real=$(ROCENV_ASKING=1 "$found" -c 'import sys; print(sys.executable)') && [ -x "$real" ]; then
      set -- "$real" "$@"
    else
      exec "$found" "$@"
    fi
    ;;
  '#!'*)
    IFS=" $tab"
    # shellcheck disable=SC2086
    set -- ${magic#??} "$found" "$@"
    case $1 in
    */env)
      case $2 in
      -S) shift 2 ;;
      -* | *=*) exec "$@" ;;
      *) shift ;;
      esac
      ;;
    esac
    ;;
  ?ELF*)
    libraries=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    exec "$loader" --library-path "$libraries" --argv0 "$found" "$found" "$@"
    ;;
  *) exec "$found" "$@" ;;
  esac
done
fail 126 "\`$found\`: too many nested scripts"
