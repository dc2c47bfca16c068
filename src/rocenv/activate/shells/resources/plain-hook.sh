\unalias rocenv 2>/dev/null
rocenv() { _rocenv_call "$@"; }
_rocenv_read() { IFS= \command read -r _rocenv_l; }
## Nothing runs at a prompt here without starting a process, so `cd` looks, unless it is an alias already.
if \alias cd >/dev/null 2>&1; then :; else
  \eval 'cd() {
    \command cd "$@" || \return
    _rocenv_look
  }'
fi
_rocenv_look
