## The texts that every activation script for tcsh carries, each behind its name.
##
## tcsh has no functions: what does their work are texts, kept in variables, that `eval` reads. They are kept in
## the shell and not in a file, so that an env that was removed can still be left. What begins with `_rocenv_` is
## gone when a script or LEAVE ends. Rules that the code keeps to:
##
## - `''name` calls a builtin past an alias of that name; a backslash would look for a program. The keywords of
##   the language (`set` among them, whose parentheses need it) cannot be had past an alias.
## - A value is written `$name:q`, outside of double quotes, where a newline would be an error. Words that are
##   empty vanish from `$list:q`, so each state begins with a letter.
## - The `$name` in an `if` on one line is expanded even where the condition is false.
## - No `foreach` or `while`: one that `eval` reads within another, which may be the user's, breaks that.
##   `repeat` forgets after the first round what was quoted, so what it repeats holds no pattern.
## - No history is substituted, and no backslash quotes within quotes, whatever the user has set: OPENING.

: TEXT GIVE_BACK
## For each of the user's own variables that READ put aside; one empty word is no empty list.
set _rocenv_n=$_rocenv_own[1]
''shift _rocenv_own
''eval 'set _rocenv_t=$#_rocenv_own_'$_rocenv_n
if ($_rocenv_t == 1) then
''eval 'set '$_rocenv_n'="$_rocenv_own_'$_rocenv_n':q"'
else
''eval 'set '$_rocenv_n'=($_rocenv_own_'$_rocenv_n':q)'
endif

: TEXT DONE
## Undoes OPENING. Without `histchars` tcsh takes its own again.
if ($?_rocenv_own) then
''repeat $#_rocenv_own ''eval '""eval $_ROCENV_GIVE_BACK:q'
endif
if ($?_rocenv_bslash) set backslash_quote
if ($?_rocenv_hist) then
set histchars=$_rocenv_hist:q
''unset '_rocenv_*'
else
''unset histchars '_rocenv_*'
endif

: TEXT READ
## $_rocenv_now becomes the state of the environment's variable $_rocenv_n. A shell variable of its name would
## hide it, so one that is there is unset until DONE. `"$#name:q"` of a shell variable is a number, maybe with
## `:q` behind it; of one of the environment it is the value itself.
set _rocenv_now=u
''eval 'set _rocenv_t=$?'$_rocenv_n
if ($_rocenv_t) then
''eval 'set _rocenv_v=($'$_rocenv_n':q) _rocenv_w="$#'$_rocenv_n':q"'
if ("$_rocenv_v:q" != "$_rocenv_w:q" || "$_rocenv_w:q" =~ 1{,:q}) then
''unset $_rocenv_n
''eval 'set _rocenv_t=$?'$_rocenv_n
set _rocenv_x=
if ($_rocenv_t) ''eval 'set _rocenv_x=$'$_rocenv_n':q'
if ("$_rocenv_v:q" != "$_rocenv_w:q" || "$_rocenv_x:q" != "$_rocenv_w:q") then
if ($?_rocenv_own == 0) set _rocenv_own=()
set _rocenv_own=($_rocenv_own $_rocenv_n)
''eval 'set _rocenv_own_'$_rocenv_n'=($_rocenv_v:q)'
if ("$_rocenv_w:q" =~ 1{,:q}) ''eval 'set _rocenv_own_'$_rocenv_n'="$_rocenv_v:q"'
endif
endif
if ($_rocenv_t) ''eval 'set _rocenv_now=x$'$_rocenv_n':q'
endif

: TEXT SAVE
## For each of $_rocenv_list, when an env is activated.
set _rocenv_n=$_rocenv_list[1]
''shift _rocenv_list
''eval $_ROCENV_READ:q
''eval 'set _ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n'=$_rocenv_now:q'

: TEXT CUT
## Takes every entry $_rocenv_e out of $_rocenv_l, a list with a colon in front of each entry. Words are split
## at blanks, so those within entries are put in other words meanwhile.
set _rocenv_e=:$_rocenv_e:q
set _rocenv_e=$_rocenv_e:as/%/%p/:as/ /%s/:as/	/%t/:as/\
/%n/:q
set _rocenv_w=($_rocenv_l:as/%/%p/:as/ /%s/:as/	/%t/:as/\
/%n/:as/:/ :/:x)
set _rocenv_l=
''repeat $#_rocenv_w ''eval '""eval $_ROCENV_CUT1:q'
set _rocenv_l=$_rocenv_l:as/%s/ /:as/%t/	/:as/%n/\
/:as/%p/%/:q

: TEXT CUT1
if ($_rocenv_w[1]:q != $_rocenv_e:q) set _rocenv_l=$_rocenv_l:q$_rocenv_w[1]:q
''shift _rocenv_w

: TEXT POP
## Leaves the newest env.
set _rocenv_id=$_ROCENV_STACK[1] _rocenv_kept=
''shift _ROCENV_STACK
''eval 'set _rocenv_list=($_ROCENV_NAMES_'$_rocenv_id') _rocenv_new=($_ROCENV_NEW_'$_rocenv_id':q)'
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_BACK:q'
''eval 'set _rocenv_t=$?_ROCENV_PROMPT_'$_rocenv_id
if ($_rocenv_t && $?prompt) ''eval '""eval $_ROCENV_PROMPT_'$_rocenv_id':q'
''unset '_ROCENV_*_'$_rocenv_id'*'
if (x$_rocenv_kept:q != x) then
set _rocenv_say="changed while the env was active, and left as it is now:$_rocenv_kept"
''eval $_ROCENV_SAY:q
endif

: TEXT BACK
## For each of its variables. What the user changed stays, but for the entries that were not there before.
## A venv that was activated on top has kept the old PATH, to put it back.
set _rocenv_n=$_rocenv_list[1]
''shift _rocenv_list
''eval $_ROCENV_READ:q
set _rocenv_old=u
''eval 'set _rocenv_t=$?_ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n
if ($_rocenv_t) ''eval 'set _rocenv_old=$_ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n':q'
''eval 'set _rocenv_t=$?_ROCENV_CUT_'$_rocenv_id'_'$_rocenv_n
if ($_rocenv_n == PATH && $?_OLD_VIRTUAL_PATH && $_rocenv_t) then
set _rocenv_state=$_rocenv_now:q _rocenv_now=:$_OLD_VIRTUAL_PATH:q
''eval $_ROCENV_OUT:q
set _OLD_VIRTUAL_PATH=$_rocenv_now:s/://:q _rocenv_now=$_rocenv_state:q
endif
if ($_rocenv_now:q == $_rocenv_new[1]:q) then
set _rocenv_now=$_rocenv_old:q
else if ($_rocenv_t == 0) then
set _rocenv_kept="$_rocenv_kept $_rocenv_n"
else if ($_rocenv_now:q != u) then
set _rocenv_now=$_rocenv_now:s/x/:/:q
''eval $_ROCENV_OUT:q
if (x$_rocenv_now:q != x) then
set _rocenv_now=$_rocenv_now:s/:/x/:q
else if ($_rocenv_old:q == u) then
set _rocenv_now=u
else
set _rocenv_now=x
endif
endif
if ($_rocenv_now:q == u) then
''unsetenv $_rocenv_n
else
''setenv $_rocenv_n $_rocenv_now:s/x//:q
endif
''shift _rocenv_new

: TEXT OUT
## Takes what the env put into the list $_rocenv_now out of it.
''eval 'set _rocenv_x=($_ROCENV_CUT_'$_rocenv_id'_'$_rocenv_n':q)'
set _rocenv_had=
if ($_rocenv_old:q != u) set _rocenv_had=$_rocenv_old:s/x/:/:q
''repeat $#_rocenv_x ''eval '""eval $_ROCENV_OUT1:q'

: TEXT OUT1
set _rocenv_e=$_rocenv_x[1]:q _rocenv_l=$_rocenv_had:q
''eval $_ROCENV_CUT:q
if (x$_rocenv_l:q == x$_rocenv_had:q) then
set _rocenv_e=$_rocenv_x[1]:q _rocenv_l=$_rocenv_now:q
''eval $_ROCENV_CUT:q
set _rocenv_now=$_rocenv_l:q
endif
''shift _rocenv_x

: TEXT SAY
## No builtin prints on standard error what it is given. But with `verbose` each line is printed there when it
## is read: here one that is made of nothing but plain words, and whose first word is an alias for no command.
''alias rocenv: :
if ($?verbose) then
''eval rocenv: $_rocenv_say
else
set verbose; ''eval rocenv: $_rocenv_say; ''unset verbose
endif
''unalias rocenv:

: TEXT LEAVE
## A venv that was entered since has put its own `deactivate` in the place of ours.
if ($?histchars) then
set _rocenv_hist=$histchars:q
endif
set histchars=
if ($?backslash_quote) then
set _rocenv_bslash
''unset backslash_quote
endif
''eval $_ROCENV_POP:q
''eval $_ROCENV_DONE:q
if ($#_ROCENV_STACK == 0) then
if ($?_ROCENV_OURS && $?_OLD_VIRTUAL_PATH == 0) ''unalias deactivate
''unalias rocenv_deactivate
''unset '_ROCENV_*'
endif

: TEXT UNTIL
if (" $_ROCENV_STACK " =~ *" $_rocenv_until "*) ''eval $_ROCENV_POP:q

: TEXT CHANGED
## What the machine had set before, for each of $_rocenv_list.
set _rocenv_n=$_rocenv_list[1]
''shift _rocenv_list
''eval $_ROCENV_READ:q
''eval 'set _rocenv_old=$_ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n':q'
if ($_rocenv_old:q == u || $_rocenv_old:q == x || $_rocenv_old:q == $_rocenv_now:q) then
else if (" $_rocenv_lists " =~ *" $_rocenv_n "*) then
set _rocenv_acts="$_rocenv_acts $_rocenv_n"
else
set _rocenv_gone="$_rocenv_gone $_rocenv_n"
endif

: TEXT LEFT
## What is set and acts on the env, for each of $_rocenv_list.
''eval 'if ($?'$_rocenv_list[1]') set _rocenv_acts="$_rocenv_acts $_rocenv_list[1]"'
''shift _rocenv_list
