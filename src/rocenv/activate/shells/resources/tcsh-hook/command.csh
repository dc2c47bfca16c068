# Implements the alias `rocenv`; argv contains the arguments as typed.
if ($?histchars) then
set _rocenv_hist=$histchars:q
endif
set histchars=
set rocenv_hook_script= rocenv_hook_words=
if ($#argv == 2) then
if (x$argv[1]:q == xactivate && x$argv[2]:q !~ x{,-*,*/*,.,..}) then
set _rocenv_at=$rocenv_hook_envs:q
if ($?ROCENV_HOME) then
if ($%ROCENV_HOME) set _rocenv_at=$ROCENV_HOME:q/envs
endif
set _rocenv_at=$_rocenv_at:q/$argv[2]:q/activate.csh
if (-f $_rocenv_at:q) set rocenv_hook_script=$_rocenv_at:q
endif
endif
if ($#argv) then
if (x$argv[1]:q == xtrust) then
set rocenv_hook_seen=/ rocenv_hook_test='""source $rocenv_hook_files:q/look.csh'
endif
endif
# Build the words `$argv[1]:q $argv[2]:q ...`, because `$argv:q` would drop empty words.
set _rocenv_n=0 _rocenv_open=' $argv[' _rocenv_close=']:q' _rocenv_empty=" ''"
set _rocenv_each='@ _rocenv_n++\
set _rocenv_word=$_rocenv_empty:q\
if ($%argv[$_rocenv_n]) set _rocenv_word=$_rocenv_open:q$_rocenv_n$_rocenv_close:q\
set rocenv_hook_words=$rocenv_hook_words:q$_rocenv_word:q'
''repeat $#argv ''eval '""eval $_rocenv_each:q'
if ($?_rocenv_hist) then
set histchars=$_rocenv_hist:q
''unset '_rocenv_*'
else
''unset histchars '_rocenv_*'
endif
if (x$rocenv_hook_script:q != x) then
set rocenv_hook_own=
''source $rocenv_hook_script:q
''exit $status
endif
if ("$argv:q" == deactivate && $?_ROCENV_STACK) then
set rocenv_hook_own=
''eval $_ROCENV_LEAVE:q
''exit 0
endif
''eval '$rocenv_hook_program:q' $rocenv_hook_words:q
