## The mount point of drives: bash knows its own platform; dash knows only what MSYS2 tells every program.
case ${OSTYPE-}/${MSYSTEM-} in cygwin*/* | /) _ROCENV_ROOT=__CYGWIN__ ;; *) _ROCENV_ROOT=__MSYS__ ;; esac
