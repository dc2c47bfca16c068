"""The code that every activation script for tcsh carries.

tcsh has no functions: what does their work are texts, kept in variables, that `eval` reads. They are kept in
the shell and not in a file, so that an env that was removed can still be left. An active env keeps in the
shell, none of it exported:

    deactivate                an alias that reads _ROCENV_LEAVE
    _ROCENV_...               the texts below
    _ROCENV_STACK             idents of the active envs, the newest first
    _ROCENV_NAMES_IDENT       what the env changed
    _ROCENV_OLD_IDENT_NAME    what NAME was: x... set, u unset; absent if it was unset
    _ROCENV_NEW_IDENT         what the env made of them, in the order of the names
    _ROCENV_CUT_IDENT_NAME    what was prepended, for a list
    _ROCENV_PROMPT_IDENT      the code that takes the label out of the prompt
    _ROCENV_ALIAS_IDENT       the alias `deactivate` that was there, of a venv or the user's own

What begins with `_rocenv_` is gone when a script or `LEAVE` ends. Rules that the code keeps to:

- `''name` calls a builtin past an alias of that name; a backslash would look for a program. The keywords
  of the language (`set` among them, whose parentheses need it) cannot be had past an alias.
- A value is written `$name:q`, outside of double quotes, where a newline would be an error. Words that are
  empty vanish from `$list:q`, so each state begins with a letter.
- The `$name` in an `if` on one line is expanded even where the condition is false.
- No `foreach` or `while`: one that `eval` reads within another, which may be the user's, breaks that.
  `repeat` forgets after the first round what was quoted, so what it repeats holds no pattern.
- No history is substituted, and no backslash quotes within quotes, whatever the user has set: `OPENING`.
"""

from __future__ import annotations


def quote(value: str) -> str:
    """Return `value` in single quotes, as one literal word for the code between `OPENING` and `DONE`."""
    return "'" + value.replace("'", "'\\''").replace("\n", "\\\n") + "'"


# `DONE` undoes it. Without `histchars` tcsh takes its own again.
OPENING = """\
if ($?histchars) then
set _rocenv_hist=$histchars:q
endif
set histchars=
if ($?backslash_quote) then
set _rocenv_bslash
''unset backslash_quote
endif"""

# For each of the user's own variables that `READ` put aside; one empty word is no empty list.
_GIVE_BACK = """\
set _rocenv_n=$_rocenv_own[1]
''shift _rocenv_own
''eval 'set _rocenv_t=$#_rocenv_own_'$_rocenv_n
if ($_rocenv_t == 1) then
''eval 'set '$_rocenv_n'="$_rocenv_own_'$_rocenv_n':q"'
else
''eval 'set '$_rocenv_n'=($_rocenv_own_'$_rocenv_n':q)'
endif"""
DONE = f"""\
if ($?_rocenv_own) then
set _rocenv_each={quote(_GIVE_BACK)}
''repeat $#_rocenv_own ''eval '""eval $_rocenv_each:q'
endif
if ($?_rocenv_bslash) set backslash_quote
if ($?_rocenv_hist) then
set histchars=$_rocenv_hist:q
''unset '_rocenv_*'
else
''unset histchars '_rocenv_*'
endif"""

# $_rocenv_now is the state of the environment's variable $_rocenv_n. A shell variable of its name would hide
# it, so one that is there is unset until `DONE`. `"$#name:q"` of a shell variable is a number, maybe with
# `:q` behind it; of one of the environment it is the value itself.
READ = """\
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
endif"""

# For each of $_rocenv_list, when an env is activated.
SAVE = """\
set _rocenv_n=$_rocenv_list[1]
''shift _rocenv_list
''eval $_ROCENV_READ:q
''eval 'set _ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n'=$_rocenv_now:q'"""

# Takes every entry $_rocenv_e out of $_rocenv_l, a list with a colon in front of each entry. Words are split
# at blanks, so those within entries are put in other words meanwhile.
_PACKED = r":as/%/%p/:as/ /%s/:as/	/%t/:as/\
/%n/"
_UNPACKED = r":as/%s/ /:as/%t/	/:as/%n/\
/:as/%p/%/"
CUT = f"""\
set _rocenv_e=:$_rocenv_e:q
set _rocenv_e=$_rocenv_e{_PACKED}:q
set _rocenv_w=($_rocenv_l{_PACKED}:as/:/ :/:x)
set _rocenv_l=
''repeat $#_rocenv_w ''eval '""eval $_ROCENV_CUT1:q'
set _rocenv_l=$_rocenv_l{_UNPACKED}:q"""
CUT1 = """\
if ($_rocenv_w[1]:q != $_rocenv_e:q) set _rocenv_l=$_rocenv_l:q$_rocenv_w[1]:q
''shift _rocenv_w"""

# Leaves the newest env.
POP = """\
set _rocenv_id=$_ROCENV_STACK[1] _rocenv_kept=
''shift _ROCENV_STACK
''eval 'set _rocenv_list=($_ROCENV_NAMES_'$_rocenv_id') _rocenv_new=($_ROCENV_NEW_'$_rocenv_id':q)'
''repeat $#_rocenv_list ''eval '""eval $_ROCENV_BACK:q'
''eval 'set _rocenv_t=$?_ROCENV_PROMPT_'$_rocenv_id
if ($_rocenv_t && $?prompt) ''eval '""eval $_ROCENV_PROMPT_'$_rocenv_id':q'
set _rocenv_alias=_ROCENV_LEAVE
if ($?_OLD_VIRTUAL_PATH) set _rocenv_alias="`''alias deactivate`"
''eval 'set _rocenv_t=$?_ROCENV_ALIAS_'$_rocenv_id
if ("$_rocenv_alias:q" !~ *_ROCENV_LEAVE*) then
else if ($_rocenv_t) then
''eval '""alias deactivate $_ROCENV_ALIAS_'$_rocenv_id':q'
else if ($#_ROCENV_STACK == 0) then
''unalias deactivate
endif
''unset '_ROCENV_*_'$_rocenv_id'*'
if (x$_rocenv_kept:q != x) then
set _rocenv_say="changed while the env was active, and left as it is now:$_rocenv_kept"
''eval $_ROCENV_SAY:q
endif"""
UNTIL = """\
if (" $_ROCENV_STACK " =~ *" $_rocenv_until "*) ''eval $_ROCENV_POP:q"""
# For each of its variables. What the user changed stays, but for the entries that were not there before.
# A venv that was activated on top has kept the old PATH, to put it back.
BACK = """\
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
''shift _rocenv_new"""
# Takes what the env put into the list $_rocenv_now out of it.
OUT = """\
''eval 'set _rocenv_x=($_ROCENV_CUT_'$_rocenv_id'_'$_rocenv_n':q)'
set _rocenv_had=
if ($_rocenv_old:q != u) set _rocenv_had=$_rocenv_old:s/x/:/:q
''repeat $#_rocenv_x ''eval '""eval $_ROCENV_OUT1:q'"""
OUT1 = """\
set _rocenv_e=$_rocenv_x[1]:q _rocenv_l=$_rocenv_had:q
''eval $_ROCENV_CUT:q
if (x$_rocenv_l:q == x$_rocenv_had:q) then
set _rocenv_e=$_rocenv_x[1]:q _rocenv_l=$_rocenv_now:q
''eval $_ROCENV_CUT:q
set _rocenv_now=$_rocenv_l:q
endif
''shift _rocenv_x"""

# No builtin prints on standard error what it is given. But with `verbose` each line is printed there when it
# is read: here one that is made of nothing but plain words, and whose first word is an alias for no command.
SAY = """\
''alias rocenv: :
if ($?verbose) then
''eval rocenv: $_rocenv_say
else
set verbose; ''eval rocenv: $_rocenv_say; ''unset verbose
endif
''unalias rocenv:"""
# Where a process may be started: $1 is any text.
COMPLAIN = """/bin/sh -c 'printf "rocenv: %s\\n" "$1" >&2' sh"""

# Keeps what `deactivate` is. Only a copy of the shell can tell, so it is asked only where there is one that
# may not be ours: before the first env, or with a venv.
KEEP = """\
''which deactivate >& /dev/null
if ($status == 0 && ($#_ROCENV_STACK == 0 || $?_OLD_VIRTUAL_PATH)) then
set _rocenv_alias="`''alias deactivate`"
if ("$_rocenv_alias:q" !~ {,*_ROCENV_LEAVE*}) set _ROCENV_ALIAS_IDENT=($_rocenv_alias:q)
endif"""

LEAVE = f"""\
{OPENING}
''eval $_ROCENV_POP:q
set _rocenv_done=$_ROCENV_DONE:q
if ($#_ROCENV_STACK == 0) ''unset '_ROCENV_*'
''eval $_rocenv_done:q"""

# What the machine had set before, for each of $_rocenv_list.
REPORT_CHANGED = """\
set _rocenv_n=$_rocenv_list[1]
''shift _rocenv_list
''eval $_ROCENV_READ:q
''eval 'set _rocenv_old=$_ROCENV_OLD_'$_rocenv_id'_'$_rocenv_n':q'
if ($_rocenv_old:q == u || $_rocenv_old:q == x || $_rocenv_old:q == $_rocenv_now:q) then
else if (" $_rocenv_lists " =~ *" $_rocenv_n "*) then
set _rocenv_acts="$_rocenv_acts $_rocenv_n"
else
set _rocenv_gone="$_rocenv_gone $_rocenv_n"
endif"""
REPORT_LEFT = """\
''eval 'if ($?'$_rocenv_list[1]') set _rocenv_acts="$_rocenv_acts $_rocenv_list[1]"'
''shift _rocenv_list"""
REPORT = """\
if (x"$_rocenv_gone" != x) then
set _rocenv_say="set on this machine, replaced until deactivation:$_rocenv_gone"
''eval $_ROCENV_SAY:q
endif
if (x"$_rocenv_acts" != x) then
set _rocenv_say="set on this machine, and acts on this env too:$_rocenv_acts"
''eval $_ROCENV_SAY:q
endif"""

TEXTS = {
    "DONE": DONE,
    "READ": READ,
    "SAVE": SAVE,
    "CUT": CUT,
    "CUT1": CUT1,
    "POP": POP,
    "BACK": BACK,
    "OUT": OUT,
    "OUT1": OUT1,
    "SAY": SAY,
    "LEAVE": LEAVE,
}
