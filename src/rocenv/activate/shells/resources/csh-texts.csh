## Snippets that every tcsh activation script contains, each preceded by its name.
##
## tcsh has no functions, so code is stored in variables and run with `eval`. It is in the shell rather than in a file,
## so that you can deactivate an env even after it was removed. Names that begin with `_rocenv_` are unset when a script
## or LEAVE ends. Rules for the code:
##
## - `''name` calls a builtin even if it is aliased; a backslash would search for a program. Keywords (including `set`,
## because of its parentheses) have no such form.
## - Write values as `$name:q`, without double quotes, because a newline within them would be an error. `$list:q` drops
## empty words, so each state begins with a letter.
## - The `$name` in a one-line `if` is expanded even if the condition is false.
## - Do not use `foreach` or `while`: if `eval` reads a loop inside another loop, which may be the user's, the outer
## loop breaks. `repeat` ignores quoting after the first round, so repeated code does not contain patterns.
## - OPENING disables history substitution, and escaping by backslashes within quotes, whatever the user's settings.

: TEXT GIVE_BACK
## Runs for each of the user's variables that READ has unset; a single empty word is not an empty list.
set _rocenv_n=$_rocenv_own[1]
''shift _rocenv_own
''eval 'set _rocenv_t=$#_rocenv_own_'$_rocenv_n
if ($_rocenv_t == 1) then
''eval 'set '$_rocenv_n'="$_rocenv_own_'$_rocenv_n':q"'
else
''eval 'set '$_rocenv_n'=($_rocenv_own_'$_rocenv_n':q)'
endif

: TEXT DONE
## Undoes OPENING. If `histchars` is unset, tcsh reverts to the default.
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
## Sets $_rocenv_now to the state of the environment variable $_rocenv_n. A shell variable with that name would hide it,
## so it is unset until DONE. `"$#name:q"` is a number for a shell variable, possibly followed by `:q`; for an
## environment variable it is the value itself.
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
## Runs for each name in $_rocenv_list when an env is activated.
set _rocenv_n=$_rocenv_list[1]
''shift _rocenv_list
''eval $_ROCENV_READ:q
''eval 'set _ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n'=$_rocenv_now:q'

: TEXT CUT
## Removes every entry $_rocenv_e from $_rocenv_l, a list with a colon before each entry. Words are split at blanks, so
## blanks within entries are replaced temporarily.
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
## Deactivates the most recently activated env.
set _rocenv_id=$_ROCENV_STACK[1] _rocenv_kept=
''shift _ROCENV_STACK
''eval 'set _rocenv_list=($_ROCENV_NAMES_'$_rocenv_id') _rocenv_new=($_ROCENV_NEW_'$_rocenv_id':q)'
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_BACK:q'
''eval 'set _rocenv_t=$?_ROCENV_PROMPT_'$_rocenv_id
if ($_rocenv_t && $?prompt) ''eval '""eval $_ROCENV_PROMPT_'$_rocenv_id':q'
''unset '_ROCENV_*_'$_rocenv_id'*'
if (x$_rocenv_kept:q != x) then
set _rocenv_say="changed while the env was active, so not restored:$_rocenv_kept"
''eval $_ROCENV_SAY:q
endif

: TEXT BACK
## Runs for each of the env's variables. Keeps values changed by the user, but removes the env's entries. A venv
## activated on top of the env has saved the old PATH and will restore it.
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
## Removes the env's entries from the list $_rocenv_now.
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
## No builtin prints its arguments to stderr. But with `verbose`, tcsh prints each line that it reads to stderr. So this
## reads a line of plain words whose first word is an alias for an empty command.
''alias rocenv: :
if ($?verbose) then
''eval rocenv: $_rocenv_say
else
set verbose; ''eval rocenv: $_rocenv_say; ''unset verbose
endif
''unalias rocenv:

: TEXT LEAVE
## A venv that was activated later has replaced our `deactivate` with its own.
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
## Reports variables in $_rocenv_list that were set before activation.
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
## Reports variables in $_rocenv_list that are set and affect the env.
''eval 'if ($?'$_rocenv_list[1]') set _rocenv_acts="$_rocenv_acts $_rocenv_list[1]"'
''shift _rocenv_list
