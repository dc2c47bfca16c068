## The elvish hook, which follows `elvish-shared.elv`; it is evaluated like the scripts.
##
## `$seen` is the path and first line of the last `.rocenv`, empty if there was none, or $nil after `rocenv trust` to
## force another check. `$entered` is the map of the env that the hook activated. The prompt function, `look`, is
## recognized by its option. Capturing output is slow in elvish, so everything that may have changed since the last
## prompt is captured at once, as a key of `$same`: the folder, the known `$places` that contain a `.rocenv`, and its
## first line.
var program~ = (external $own[program])
var places = []
var file = []
var same = [&]
var seen = []
var entered = $nil
fn script-of {|name|
  var folder = $own[envs]
  if (filled ROCENV_HOME) { set folder = (get-env ROCENV_HOME)/envs }
  if (not (or (eq $name "") (eq $name .) (eq $name ..) (str:has-prefix $name -) (str:contains $name /))) {
    var script = $folder/$name/$own[file]
    if (path:is-regular &follow-symlink=$true $script) { put $script }
  }
}
fn rocenv {|@words|
  var verb = (if (eq $words []) { put "" } else { put $words[0] })
  var count = (count $words)
  if (and (eq $verb activate) (== $count 2)) {
    for script [(script-of (to-string $words[1]))] {
      eval &ns=$caller (slurp < $script)
      return
    }
  } elif (and (eq $verb deactivate) (== $count 1)) {
    var active = [(envs)]
    if (not-eq $active []) {
      $active[-1][leave]
      return
    }
  } elif (eq $verb trust) {
    set seen same = $nil [&]
  }
  program $@words
}
fn first-line {
  for each $file {
    try { read-line < $each } catch e { nop }
  }
}
fn observe {
  put $pwd
  for each $places { path:is-regular &follow-symlink=$true $each }
  first-line
}
fn locate {
  set places file = [] []
  var folder = $pwd
  while (not-eq $folder /) {
    set places = [$@places $folder/.rocenv]
    set folder = (path:dir $folder)
  }
  set places = [$@places /.rocenv]
  for each $places {
    if (and (eq $file []) (path:is-regular &follow-symlink=$true $each)) { set file = [$each] }
  }
}
fn say-why {|e|
  try { echo $e[reason][content] >&2 } catch f { nop } # the program printed its own error
}
fn examine {
  if (not (path:is-dir $pwd)) { return } # elvish has an invalid name for a deleted folder
  locate
  set same = [&[(observe)]=$true]
  var now = [$@file (first-line)]
  if (eq $now $seen) { return }
  set seen = $now
  var active = [(envs)]
  if (and $entered (not-eq $active []) (eq $active[-1] $entered)) { $active[-1][leave] }
  set entered = $nil
  for each $file {
    var names = []
    try {
      set names = [(program trust --check (path:dir $each) < /dev/null)]
    } catch e {
      # There is an exit code only if the program ran.
      try { nop $e[reason][type] } catch f { echo "rocenv: cannot run "$own[program] >&2 }
    }
    for name $names {
      var before = [(idents)]
      try { rocenv activate $name } catch e { say-why $e }
      # An env that was already active belongs to the user.
      for each [(envs)] {
        if (has-value $before $each[ident]) { set entered = $nil } else { set entered = $each }
      }
    }
  }
}
fn look {|&rocenv=$true|
  var changed = $false
  try { nop $same[[(observe)]] } catch e { set changed = $true }
  if $changed { examine }
}
fn complete {|@words|
  var word = $words[-1]
  try {
    program complete (all $words[1..]) < /dev/null 2> /dev/null | from-lines | each {|line|
      if (eq $line :files) {
        $edit[complete-filename~] $word
      } elif (eq $line :folders) {
        $edit[complete-filename~] $word | each {|each| if (str:has-suffix $each[stem] /) { put $each } }
      } else {
        var parts = [(str:split "\t" $line)]
        $edit[complex-candidate~] $parts[0] &code-suffix=" " &display=(str:join "  " $parts)
      }
    }
  } catch e {
    nop
  }
}
fn load {
  nop (install rocenv~ $rocenv~)
  if $edit {
    eval &ns=(ns [&f=$look~]) "set edit:before-readline = [$@edit:before-readline $f]"
    eval &ns=(ns [&f=$complete~]) "set edit:completion:arg-completer[rocenv] = $f"
  }
}
if (not (and $edit (has-value [(each $ours~ $edit[before-readline])] $true))) { load }
