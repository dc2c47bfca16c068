\unalias rocenv 2>/dev/null
rocenv() { _rocenv_call "$@"; }
_rocenv_read() { IFS= \command read -r _rocenv_l; }
## These shells cannot run code at a prompt without starting a process, so `cd` looks for a `.rocenv`,
## unless `cd` is already an alias or a function.
case $(\command -V cd) in
*alias* | *function*) ;;
*) \eval 'cd() {
    \command cd "$@" || \return
    _rocenv_look
  }' ;;
esac
_rocenv_look
