"""The small scripts in a prefix's `bin` that start programs by the prefix's own program loader.

`rocm-exec PROGRAM ARGS` runs any program so; `python3` and `python` are the same script under the names that
people type, and run the next program of that name on `PATH`. A wrapper never takes another wrapper for that
program, so envs can be stacked. A script is run by its interpreter; a static program needs no wrapper.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocenv.activate.shells.posix import quote
from rocenv.core.lock import WRAPPERS
from rocenv.system.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


# On the second line of every wrapper, by which wrappers know each other.
MARK = "rocenv-wrapper"

_HEAD = f"""\
#!/bin/sh
# {MARK}: runs a program by the env's own program loader, so that it finds the env's libraries
set -f
"""
_SCRIPT = r"""
fail() {
  printf 'rocenv: %s\n' "$2" >&2
  exit "$1"
}

# Read the beginning of $found, as far as it tells what the file is.
look() {
  magic= mark=
  {
    IFS= read -r magic
    case $magic in '#!'*) IFS= read -r mark ;; esac
  } <"$found"
}

# Set $found to the program that a shell would run, wrappers left out.
find() {
  found=$1
  case $1 in
  */*)
    [ -e "$1" ] || fail 127 "there is no file \`$1\`"
    [ -f "$1" ] && [ -x "$1" ] || fail 126 "\`$1\` is not executable"
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
  fail 127 "there is no command \`$1\` beside the wrappers of envs"
}

case ${0##*/} in
rocm-exec) [ "$#" -gt 0 ] || fail 2 'usage: rocm-exec PROGRAM [ARGUMENT...]' ;;
*) set -- "${0##*/}" "$@" ;;
esac
for level in 0 1 2 3 4; do
  find "$1"
  shift
  case $magic:${found##*/} in
  '#!'*:python | '#!'*:python[23] | '#!'*:python[23].*)
    # A shim of a version manager would start Python past the loader, so ask it which one it means.
    if real=$(ROCENV_ASKING=1 "$found" -c 'import sys; print(sys.executable)') && [ -x "$real" ]; then
      set -- "$real" "$@"
    else
      exec "$found" "$@"
    fi
    ;;
  '#!'*)
    IFS=" $tab"
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
fail 126 "\`$found\`: too many scripts run one another"
"""


def wrapper_script(*, loader: Path, library_dirs: Sequence[Path]) -> str:
    """Return the script that stands in a prefix's `bin` under each of `WRAPPERS`."""
    values = f"tab='\t'\nloader={quote(str(loader))}\nlibraries={quote(':'.join(map(str, library_dirs)))}\n"
    return f"{_HEAD}{values}{_SCRIPT}"


def write_wrappers(folder: Path, *, loader: Path, library_dirs: Sequence[Path]) -> tuple[Path, ...]:
    """Write the wrappers into `folder`, which exists, executable; return their paths."""
    script = os.fsencode(wrapper_script(loader=loader, library_dirs=library_dirs))
    for name in WRAPPERS:
        write_atomic(folder / name, script)
        (folder / name).chmod(0o755)
    return tuple(folder / name for name in WRAPPERS)
