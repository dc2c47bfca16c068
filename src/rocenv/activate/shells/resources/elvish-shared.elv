## Code at the start of all scripts and the hook.
##
## `envs` outputs the maps of the active envs, oldest first. Builtins lack `opt-names`, so `ours` uses `try`.
## `install` defines a command for the caller, and outputs a function that removes it. If the caller already defines
## the name, it is reassigned; otherwise the command is added to the prompt's namespace, if there is a prompt.
use str
use path
var edit = $nil
try { set edit = (eval "put $edit:") } catch e { nop }
fn ours {|f|
  try { has-value $f[opt-names] rocenv } catch e { put $false }
}
fn envs {
  for f $after-chdir {
    if (ours $f) { $f "" &rocenv=$true }
  }
}
fn idents { for each [(envs)] { put $each[ident] } }
fn filled {|name| and (has-env $name) (not-eq (get-env $name) "") }
fn install {|name f|
  if (has-key $caller $name) {
    var assign = (eval &ns=$caller "use builtin; builtin:put {|f| set "$name" = $f }")
    var old = $caller[$name]
    $assign $f
    put { $assign $old }
  } elif $edit {
    $edit[add-var~] $name $f
    put { $edit[del-var~] $name }
  } else {
    put $nop~
  }
}
