# argv contains the folder of this file, the program, and the folder of envs.
set rocenv_hook_files=$argv[1]:q rocenv_hook_program=$argv[2]:q rocenv_hook_envs=$argv[3]:q
''alias rocenv '""source $rocenv_hook_files:q/command.csh'
''complete rocenv 'p@*@`""source $rocenv_hook_files:q/complete.csh`@'
# Each prompt evaluates $rocenv_hook_test, which sources `look.csh` if anything has changed since its last run.
if ($?rocenv_hook_test == 0) then
set rocenv_hook_above=() rocenv_hook_folder= rocenv_hook_seen= rocenv_hook_own=
set rocenv_hook_test='""source $rocenv_hook_files:q/look.csh'
endif
# Only a subshell can read an alias; without a prompt, nothing needs it.
if ($?prompt) then
set rocenv_hook_precmd="`''alias precmd`"
if ("$rocenv_hook_precmd:q" =~ *rocenv_hook_test*) then
else
''alias precmd 'set rocenv_hook_status=$status; ""eval $rocenv_hook_test:q; set status=$rocenv_hook_status; '"$rocenv_hook_precmd:q"
endif
''unset rocenv_hook_precmd
endif
