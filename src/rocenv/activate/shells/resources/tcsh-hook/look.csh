# Finds the `.rocenv` for the current folder, and switches envs if it differs from the last one. The shell cannot read
# a file without starting a process, so inode, size, and change time show whether it has changed. $rocenv_hook_test is
# set to a test that sources this file again if anything that it read has changed.
if ($?histchars) then
set _rocenv_hist=$histchars:q
endif
set histchars=
if (x$cwd:q != x$rocenv_hook_folder:q) then
set rocenv_hook_folder=$cwd:q rocenv_hook_above=() _rocenv_at=$cwd:q
while (x$_rocenv_at:q != x && x$_rocenv_at:q != x/)
set rocenv_hook_above=($rocenv_hook_above:q $_rocenv_at:q/.rocenv) _rocenv_at=$_rocenv_at:h:q
end
set rocenv_hook_above=($rocenv_hook_above:q /.rocenv)
endif
set _rocenv_n=1 _rocenv_file= _rocenv_open='-f $rocenv_hook_above[' _rocenv_close=']:q'
set _rocenv_test='if (x$cwd:q != x$rocenv_hook_folder:q'
while ($_rocenv_n <= $#rocenv_hook_above)
if (-f $rocenv_hook_above[$_rocenv_n]:q) then
set _rocenv_file=$rocenv_hook_above[$_rocenv_n]:q
@ _rocenv_c = -C $_rocenv_file:q
@ _rocenv_i = -I $_rocenv_file:q
@ _rocenv_z = -Z $_rocenv_file:q
break
endif
set _rocenv_test="$_rocenv_test:q || "$_rocenv_open:q$_rocenv_n$_rocenv_close:q
@ _rocenv_n++
end
set rocenv_hook_now=$_rocenv_file:q
if (x$_rocenv_file:q != x) then
set rocenv_hook_now="$_rocenv_c $_rocenv_i $_rocenv_z "$_rocenv_file:q _rocenv_close=$_rocenv_n$_rocenv_close:q
set _rocenv_open=' $rocenv_hook_above['
set _rocenv_test="$_rocenv_test:q || -C"$_rocenv_open:q$_rocenv_close:q" != $_rocenv_c"
set _rocenv_test="$_rocenv_test:q || -I"$_rocenv_open:q$_rocenv_close:q" != $_rocenv_i"
set _rocenv_test="$_rocenv_test:q || -Z"$_rocenv_open:q$_rocenv_close:q" != $_rocenv_z"
endif
set rocenv_hook_test=$_rocenv_test:q') source $rocenv_hook_files:q/look.csh' rocenv_hook_file=$_rocenv_file:q
if ($?_rocenv_hist) then
set histchars=$_rocenv_hist:q
''unset '_rocenv_*'
else
''unset histchars '_rocenv_*'
endif
if (x$rocenv_hook_now:q == x$rocenv_hook_seen:q) ''exit 0
set rocenv_hook_seen=$rocenv_hook_now:q
if ($?_ROCENV_STACK) then
if (x$_ROCENV_STACK[1] == x$rocenv_hook_own) ''eval '""eval $_ROCENV_LEAVE:q'
endif
set rocenv_hook_own= rocenv_hook_before= rocenv_hook_at=$rocenv_hook_file:h:q
if (x$rocenv_hook_file:q == x) ''exit 0
if (x$rocenv_hook_at:q == x) set rocenv_hook_at=/
if ($?_ROCENV_STACK) then
set rocenv_hook_before=" $_ROCENV_STACK "
endif
# Within double quotes, only this text is expanded here; the shell that runs it expands the variables.
set rocenv_hook_ask='$rocenv_hook_program:q trust --check $rocenv_hook_at:q'
set rocenv_hook_name="`$rocenv_hook_ask:q`"
if ($#rocenv_hook_name == 0) ''exit 0
''source $rocenv_hook_files:q/command.csh activate $rocenv_hook_name[1]:q
if ($?_ROCENV_STACK == 0) ''exit 0
if (("$rocenv_hook_before" =~ *" $_ROCENV_STACK[1] "*) == 0) set rocenv_hook_own=$_ROCENV_STACK[1]
