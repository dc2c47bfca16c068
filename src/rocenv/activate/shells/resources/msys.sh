## The drive mount point. bash has a variable for its platform; dash has only the variable that MSYS2 sets for every
## program.
case ${OSTYPE-}/${MSYSTEM-} in cygwin*/* | /) _ROCENV_ROOT=__CYGWIN__ ;; *) _ROCENV_ROOT=__MSYS__ ;; esac
