# Source this file to activate the env `__LABEL__`. `deactivate` or `rocenv_deactivate` undoes it.
##
## For tcsh (also `csh` on most systems), without starting processes. State of an active env in the shell, not exported:
##
##   deactivate                aliases that run _ROCENV_LEAVE
##   rocenv_deactivate
##   _ROCENV_...               the snippets in csh-texts.csh, which also explains the rules for this code
##   _ROCENV_STACK             idents of the active envs, newest first
##   _ROCENV_OURS              set if `deactivate` is ours; another tool's is kept
##   _ROCENV_NAMES_IDENT       names of variables that the env changes
##   _ROCENV_OLD_IDENT_NAME    previous state of NAME: x... set, u unset; absent if it was unset
##   _ROCENV_NEW_IDENT         values in the env, in the same order as the names
##   _ROCENV_CUT_IDENT_NAME    prepended entries, if NAME is a list
##   _ROCENV_PROMPT_IDENT      the code that removes the label from the prompt
if ($?tcsh == 0) then
/bin/sh -c 'printf "rocenv: %s\n" "$1" >&2' sh 'this script requires tcsh, but this shell is a different csh'
exit 1
endif
if ($?histchars) then
set _rocenv_hist=$histchars:q
endif
set histchars=
if ($?backslash_quote) then
set _rocenv_bslash
''unset backslash_quote
endif
set __TEXTS__
if ($?_ROCENV_STACK == 0) set _ROCENV_STACK=()
if ($?0) then
if (-F $0:q == -F __SCRIPT__ && -e $0:q) then
/bin/sh -c 'printf "rocenv: %s\n" "$1" >&2' sh __EXECUTED__
''exit __STATUS__
endif
endif
if (-f __MARKER__ == 0) then
/bin/sh -c 'printf "rocenv: %s\n" "$1" >&2' sh __GONE__
''eval $_ROCENV_DONE:q
if ($#_ROCENV_STACK == 0) ''unset '_ROCENV_*'
''exit 1
endif
# If the env is active, deactivate it and those on top of it, and start over.
if ($#_ROCENV_STACK) then
set _rocenv_until=__IDENT__ _rocenv_list=($_ROCENV_STACK)
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_UNTIL:q'
endif
set _rocenv_id=__IDENT__ _rocenv_had=()
## Test all of them at once, because usually none is set.
if ("__ARE_OTHERS_SET__" =~ *1*) then
__HAD__
set _rocenv_list=($_rocenv_had)
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_SAVE:q'
endif
## A faster SAVE for `PATH`, which always exists and is rarely also a shell variable.
if ($?PATH) then
if ("$#PATH:q" == "$PATH:q" && "$PATH:q" !~ 1{,:q}) then
set _ROCENV_OLD___IDENT___PATH=x$PATH:q
else
set _rocenv_list=PATH
''eval $_ROCENV_SAVE:q
endif
endif
''alias rocenv_deactivate '""eval $_ROCENV_LEAVE:q; : '
## Only a subshell can read an alias, so start one only if the alias might not be ours.
''which deactivate >& /dev/null
if ($status) then
set _ROCENV_OURS
''alias deactivate '""eval $_ROCENV_LEAVE:q; : '
else if ($?_ROCENV_OURS == 0 || $?_OLD_VIRTUAL_PATH) then
set _rocenv_alias="`''alias deactivate`"
if ("$_rocenv_alias:q" == "") then
set _ROCENV_OURS
''alias deactivate '""eval $_ROCENV_LEAVE:q; : '
else if ("$_rocenv_alias:q" !~ *_ROCENV_LEAVE*) then
set _rocenv_say="another tool defines deactivate, so use rocenv_deactivate to deactivate this env"
''eval $_ROCENV_SAY:q
endif
endif
__CHANGES__
set _ROCENV_NAMES___IDENT__=(__CHANGED__) _ROCENV_NEW___IDENT__=(__NEW__)__CUTS__
if ($#_ROCENV_STACK == 0 && ("$_rocenv_had" != "" || "__ARE_WATCHED_SET__" =~ *1*)) then
set _rocenv_acts= _rocenv_gone= _rocenv_list=($_rocenv_had) _rocenv_lists=(__LISTS__)
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_CHANGED:q'
set _rocenv_list=(__WATCHED__)
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_LEFT:q'
if (x"$_rocenv_gone" != x) then
set _rocenv_say="replaced until you deactivate the env:$_rocenv_gone"
''eval $_ROCENV_SAY:q
endif
if (x"$_rocenv_acts" != x) then
set _rocenv_say="set outside the env and still in effect:$_rocenv_acts"
''eval $_ROCENV_SAY:q
endif
endif
set _ROCENV_STACK=(__IDENT__ $_ROCENV_STACK)
if ($?prompt) then
if ("$?ROCENV_DISABLE_PROMPT" == 1) then
if ($%ROCENV_DISABLE_PROMPT) set _rocenv_plain
endif
if ($?_rocenv_plain == 0 && $#prompt == 1) then
set _ROCENV_SHOWN=__MARK__$prompt:q _ROCENV_PROMPT___IDENT__=__UNMARK__
endif
endif
''eval $_ROCENV_DONE:q
## This comes last, because it aborts the script if the user has made the prompt read-only.
if ($?_ROCENV_SHOWN) then
set prompt=$_ROCENV_SHOWN:q
''unset _ROCENV_SHOWN
endif
