## The code that `activate.nu` and the hook share.
##
## nushell parses a complete script before running it, so it cannot source a path that is known only at run time, and
## definitions cannot be removed. So an env is a record of data: `activate.nu` contains it as a literal, and the hook
## reads it from a separate file. The same code applies both.
##
## The state is `$env._ROCENV`, a list with a record for each active env, newest first. It is not a string, so programs
## do not inherit it; it disappears with the last env. The command `deactivate` remains.
##
## The result is first computed as data (`plan`, name -> value, or null to unset) and applied in one step: a command
## that sets a variable and then hides it brings back the caller's value. `text` is what a program receives if the
## value is a list, as for `PATH` and variables that the user converts. `%` calls a builtin instead of a user's command.
def text [value: any] {
  if ($value | %describe) =~ '^(list|table)' { $value | %str join ':' } else { $"($value)" }
}
def entries [value: any] {
  let joined = text $value
  if $joined == '' { [] } else { $joined | %split row ':' }
}
def same [one: any, other: any] {
  if $one == null or $other == null { $one == null and $other == null } else { (text $one) == (text $other) }
}
def field [record: record, name: string] {
  if $name in $record { $record | %get $name }
}
def now [plan: record, name: string] {
  if $name in $plan { $plan | %get $name } else { field $env $name }
}
def with [record: record, name: string, value: any] {
  $record | %merge {($name): $value}
}
def listed [plan: record, name: string, entries: list] {
  let is_list = $name == 'PATH' or (now $plan $name | %describe) =~ '^list'
  if $is_list { with $plan $name $entries } else { with $plan $name ($entries | %str join ':') }
}
def active [plan: record] {
  now $plan _ROCENV | %default []
}
def idents [plan: record] {
  mut found = []
  for each in (active $plan) { $found = [...$found $each.ident] }
  $found
}
def say [what: string, names: list] {
  if $names != [] { %print --raw --stderr $"rocenv: ($what): ($names | %str join ' ')" }
}
def report [plan: record, new: record] {
  mut replaced = []
  mut acting = []
  for name in $new.changed {
    let old = field $new.old $name
    if $name != PATH and (text $old) != '' and not (same $old (now $plan $name)) {
      if $name in $new.lists { $acting = [...$acting $name] } else { $replaced = [...$replaced $name] }
    }
  }
  for name in $new.watched { if (now $plan $name) != null { $acting = [...$acting $name] } }
  say 'replaced until you deactivate the env' $replaced
  say 'set outside the env and still in effect' $acting
}
def taken-out [plan: record, from: record, name: string] {
  let old = field $from.old $name
  mut rest = []
  for entry in (entries (now $plan $name)) {
    if $entry not-in (field $from.lists $name) or $entry in (entries $old) { $rest = [...$rest $entry] }
  }
  if $rest == [] and $old == null { with $plan $name null } else { listed $plan $name $rest }
}
def left [before: record] {
  mut plan = $before
  mut kept = []
  let last = (active $plan).0
  for name in $last.changed {
    let value = now $plan $name
    if (same $value (field $last.new $name)) {
      $plan = (with $plan $name (field $last.old $name))
    } else if $name not-in $last.lists {
      $kept = [...$kept $name]
    } else if $value != null {
      $plan = (taken-out $plan $last $name)
    }
  }
  if $last.prompt != null and (now $plan PROMPT_COMMAND) == $last.prompt.new {
    $plan = (with $plan PROMPT_COMMAND $last.prompt.old)
  }
  say 'changed while the env was active, so not restored' $kept
  let rest = active $plan | %skip 1
  with $plan _ROCENV (if $rest != [] { $rest })
}
## The cache folder: the env's own, or the user's own if the env's is not writable. nushell cannot query permissions, so
## it creates and removes a folder. Programs started from this shell use the same cache folder.
def cache-folder [plan: record, data: record] {
  let folder = $"($data.prefix)/cache"
  let probe = $"($folder)/.probe-($nu.pid)"
  let is_writable = ($folder | %path type) == dir and (try { %mkdir $probe; %rm --permanent $probe; true } catch { false })
  if $is_writable { return $folder }
  let base = text (now $plan XDG_CACHE_HOME)
  let own = $"rocenv/($data.ident)"
  if ($base | %str ends-with $"/($own)") {
    $base
  } else if ($base | %str starts-with '/') {
    $"($base)/($own)"
  } else {
    $"(text $env.HOME?)/.cache/($own)"
  }
}
def entered [before: record, data: record] {
  mut plan = $before
  mut old = {}
  let caches = $data.caches? | %default {} # an older rocenv wrote no `caches`
  let cache = if $caches != {} { cache-folder $plan $data }
  for name in $data.changed { $old = (with $old $name (now $plan $name)) }
  for change in $data.changes {
    let others = entries (now $plan $change.name)
    if $change.name in $caches {
      $plan = (with $plan $change.name $"($cache)(field $caches $change.name)")
    } else if not $change.prepend {
      $plan = (with $plan $change.name $change.value)
    } else {
      mut list = [$change.value]
      for other in $others { if $other != $change.value { $list = [...$list $other] } }
      $plan = (listed $plan $change.name $list)
    }
  }
  mut new = {}
  for name in $data.changed { $new = (with $new $name (now $plan $name)) }
  let all = {...$data, old: $old, new: $new, prompt: (marked-prompt $plan $data)}
  if (active $plan) == [] { report $plan $all }
  if $all.prompt != null { $plan = (with $plan PROMPT_COMMAND $all.prompt.new) }
  with $plan _ROCENV [$all ...(active $plan)]
}
def marked-prompt [plan: record, data: record] {
  let old = now $plan PROMPT_COMMAND
  if $old != null and (text $env.ROCENV_DISABLE_PROMPT?) == '' {
    let new = {||
      let shown = if ($old | %describe) == closure { %do $old } else { $old }
      if $data.ident in (idents {}) { $"\(($data.label)) ($shown)" } else { $shown }
    }
    {old: $old, new: $new}
  }
}
def entered-anew [before: record, data: record] {
  if ($data.marker | %path type) != file {
    let why = $"the env at ($data.prefix) no longer exists; `rocenv list` shows the envs"
    %error make --unspanned {msg: $"rocenv: ($why)"}
  }
  mut plan = $before
  while $data.ident in (idents $plan) { $plan = (left $plan) }
  entered $plan $data
}
def --env carry-out [plan: record] {
  for name in ($plan | %columns) {
    let value = $plan | %get $name
    if $value != null {
      %load-env {($name): $value}
    } else if $name in $env {
      %hide-env $name
      # A script's own values shadow inherited values; older versions hide only the topmost value.
      if $name in $env { %load-env {($name): null} }
    }
  }
}
export def --env leave [] {
  if (active {}) == [] {
    %print --raw --stderr 'rocenv: no env is active in this shell'
  } else {
    carry-out (left {})
  }
}
export def --env enter [data: record] {
  carry-out (entered-anew {} $data)
}
export def --env enter-here [data: record] {
  if ($"($env.PROCESS_PATH?)" | %path expand) == ($data.script | %path expand) {
    %print --raw --stderr $"rocenv: source this file instead of running it:  ($data.typed)"
    %exit 33
  }
  enter $data
}
