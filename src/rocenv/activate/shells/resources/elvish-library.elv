## Code common to all elvish scripts; follows `elvish-shared.elv`.
##
## It is evaluated in its own namespace, where the user's definitions cannot replace builtins. It receives `$own`, the
## env's data, and `$caller`, the namespace in which the script is evaluated.
##
## elvish has no variables that are visible to all code, so active envs are stored in `$after-chdir`, which contains a
## function for each active env, newest last. When called by `cd`, the function has no effect; with `&rocenv` it
## outputs a map: the env's `ident`; `leave`, which deactivates the env; `adopt`, which takes over the final cleanup
## from the env on top of it. For other envs, a script uses only this map, because a different version may have
## written their scripts. The state of a variable is its value, or $nil if it is unset.
fn say {|text names|
  if (not-eq $names []) { echo "rocenv: "$text":" $@names >&2 }
}
fn state {|name|
  try { get-env $name } catch e { put $nil }
}
fn put-state {|name state|
  if $state { set-env $name $state } else { unset-env $name }
}
fn without {|list entries|
  for each $list { if (not (has-value $entries $each)) { put $each } }
}
fn void {|state| has-value [$nil ""] $state }
fn split {|state|
  if (not (void $state)) { str:split ":" $state }
}
## The cache folder: the env's own, or the user's own if the env's is not writable. elvish cannot query
## permissions, and elvish 0.19 could not remove a file that it created to test them, so this runs `test`.
## Shells started from this one use the same folder.
fn cache-folder {
  try {
    (external test) -w $own[cache]
    put $own[cache]
  } catch e {
    var base = (if (has-env XDG_CACHE_HOME) { get-env XDG_CACHE_HOME } else { put "" })
    if (not (str:has-prefix $base /)) {
      set base = (if (has-env HOME) { get-env HOME } else { put "" })/.cache
    }
    if (str:has-suffix $base /rocenv/$own[ident]) { put $base } else { put $base/rocenv/$own[ident] }
  }
}
var cache = (if (not-eq $own[cache] "") { cache-folder } else { put "" })
var do = [
  &set={|name value| set-env $name $value }
  &cache={|name rest| set-env $name $cache$rest }
  &unset={|name| unset-env $name }
  &prepend={|name value|
    set-env $name (str:join ":" [$value (without [(split (state $name))] [$value])])
  }
]
var old = [&]
var new = [&]
var undo = []
var self~ = $nop~
var unmark~ = $nop~
var left = $false

fn report {
  var replaced = []
  var acting = []
  for name $own[names] {
    if (or (void $old[$name]) (eq $old[$name] $new[$name]) (eq $name PATH)) {
      nop
    } elif (has-key $own[lists] $name) {
      set acting = [$@acting $name]
    } else {
      set replaced = [$@replaced $name]
    }
  }
  for name $own[watched] {
    if (has-env $name) { set acting = [$@acting $name] }
  }
  say "replaced until you deactivate the env" $replaced
  say "set outside the env and still in effect" $acting
}
fn take-out {|name now|
  var ours = [(without $own[lists][$name] [(split $old[$name])])]
  var rest = [(without [(str:split ":" $now)] $ours)]
  if (or $old[$name] (not-eq $rest [])) {
    set-env $name (str:join ":" $rest)
  } else {
    unset-env $name
  }
}
fn leave {
  set left = $true
  set after-chdir = [(without $after-chdir [$self~])]
  var kept = []
  for name $own[names] {
    var now = (state $name)
    if (eq $now $new[$name]) {
      put-state $name $old[$name]
    } elif (not (has-key $own[lists] $name)) {
      set kept = [$@kept $name]
    } elif $now {
      take-out $name $now
    }
  }
  unmark
  say "changed while the env was active, so not restored" $kept
  var below = [(envs)]
  if (eq $below []) {
    for each $undo { $each }
  } else {
    $below[-1][adopt] $undo
  }
}
fn mark-prompt {
  var plain = $edit[prompt]
  var assign = (eval "put {|f| set edit:prompt = $f }")
  # The user may have copied this function to a variable that still exists after deactivation.
  var marked = { if (not $left) { put $own[label] }; $plain }
  $assign $marked
  set unmark~ = { if (eq $edit[prompt] $marked) { $assign $plain } }
}
fn deactivate {
  var active = [(envs)]
  if (not-eq $active []) {
    $active[-1][leave]
  } elif (not $left) { # the user has replaced `$after-chdir`
    leave
  } else {
    fail "rocenv: no env is active"
  }
}

# If the env is active, deactivate it and any on top of it, and start over.
while (has-value [(idents)] $own[ident]) {
  deactivate
}
for name $own[names] { set old[$name] = (state $name) }
for each $own[changes] { $do[$each[0]] (all $each[1..]) }
for name $own[names] { set new[$name] = (state $name) }
if (eq [(envs)] []) { report }
var env = [
  &ident=$own[ident]
  &leave=$leave~
  &adopt={|more| set undo = [$@more $@undo] }
]
set self~ = {|_ &rocenv=$false| if $rocenv { put $env } }
set after-chdir = [$@after-chdir $self~]
set undo = [(install deactivate~ $deactivate~)]
if (and $edit (not (filled ROCENV_DISABLE_PROMPT))) { mark-prompt }
