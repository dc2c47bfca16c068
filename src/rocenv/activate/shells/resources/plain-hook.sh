\unalias rocenv 2>/dev/null
rocenv() { _rocenv_call "$@"; }
_rocenv_read() { IFS= \command read -r _rocenv_l; }
## Nothing runs at a prompt here without starting a process, so `cd` looks, unless somebody has made it an alias
## or a function already.
case $(\command -V cd) in
*alias* | *function*) ;;
*) \eval 'cd() {
    \command cd "$@" || \return
    _rocenv_look
  }' ;;
esac
_rocenv_look
