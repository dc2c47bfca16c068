# Prints completions for the last word of $COMMAND_LINE; runs in a subshell.
set histchars= echo_style=none nonomatch
set rocenv_hook_typed=($COMMAND_LINE:x) rocenv_hook_last=
if ("$COMMAND_LINE:q" !~ *[\ \	]) then
set rocenv_hook_last=$rocenv_hook_typed[$#rocenv_hook_typed]:q
@ rocenv_hook_n = $#rocenv_hook_typed - 1
set rocenv_hook_typed=($rocenv_hook_typed[-$rocenv_hook_n]:q)
endif
# Use the words after the last `rocenv`, because other commands may precede it.
set rocenv_hook_words=()
foreach rocenv_hook_word ($rocenv_hook_typed:q)
if ($rocenv_hook_word:q == rocenv) then
set rocenv_hook_words=()
else
set rocenv_hook_words=($rocenv_hook_words:q $rocenv_hook_word:q)
endif
end
set rocenv_hook_ask='$rocenv_hook_program:q complete $rocenv_hook_words:q "$rocenv_hook_last:q"'
foreach rocenv_hook_line ("`$rocenv_hook_ask:q`")
if ($rocenv_hook_line:q == :files || $rocenv_hook_line:q == :folders) then
foreach rocenv_hook_word ($rocenv_hook_last:q*)
if (-d $rocenv_hook_word:q) then
''echo $rocenv_hook_word:q/
else if ($rocenv_hook_line:q == :files && -e $rocenv_hook_word:q) then
''echo $rocenv_hook_word:q
endif
end
else
set rocenv_hook_word=($rocenv_hook_line:x)
''echo $rocenv_hook_word[1]:q
endif
end
