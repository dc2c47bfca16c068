## The nushell hook, which reads an env's data; follows `nu-library.nu`.
##
## Like `$env._ROCENV`, `$env._ROCENV_FOLDER` is not a string, so programs do not inherit it. `files` lists the
## possible paths of a `.rocenv`, starting from `folder`; `seen` is the path and first line of the last one, '' if
## there was none, or null to force another check; `own` is the ident of the env that the hook activated.
##
## Before 0.116, a completer receives the words themselves, whatever its parameter is called; if it returns null,
## nushell completes paths. Source: nushell/nushell#18791
const program = __PROGRAM__
def data-of [name: string] {
  let envs = if (text $env.ROCENV_HOME?) == '' { __ENVS__ } else { $"($env.ROCENV_HOME)/envs" }
  let file = $"($envs)/($name)/__DATA__"
  if $name =~ '^[^-/][^/]*$' and $name not-in [. ..] and ($file | %path type) == file {
    %open --raw $file | %from nuon
  }
}
def files-above [folder: string] {
  mut path = ''
  mut files = []
  for name in ($folder | %split row '/') {
    if $name != '' { $path = $"($path)/($name)" }
    $files = [$"($path)/.rocenv" ...$files]
  }
  $files
}
def nearest [files: list] {
  let there = $files | %path exists
  if true in $there {
    for pair in ($files | %zip $there) {
      if $pair.1 and ($pair.0 | %path expand | %path type) == file { return $pair.0 }
    }
  }
}
def followed [file: string, plan: record] {
  if external not-in (%which --all $program).type {
    %error make --unspanned {msg: $"rocenv: cannot run ($program)"}
  }
  let name = try { ^$program trust --check ($file | %path dirname) | %str trim } catch { '' }
  let data = data-of $name
  if $data == null or $data.ident in (idents $plan) { $plan } else { entered-anew $plan $data }
}
def --env look [] {
  let code = $env.LAST_EXIT_CODE?
  if $env.PWD != $env._ROCENV_FOLDER.folder {
    $env._ROCENV_FOLDER.folder = $env.PWD
    $env._ROCENV_FOLDER.files = (files-above $env.PWD)
  }
  let before = $env._ROCENV_FOLDER
  # nushell cannot search a deleted folder.
  let file = try { nearest $before.files } catch { return }
  let line = if $file != null { try { %open --raw $file | %lines | %first } }
  let seen = if $file != null { $"($file)\n($line)" } else { '' }
  if $seen != $before.seen {
    let plan = if $before.own != null and (idents {}).0? == $before.own { left {} } else { {} }
    let stack = idents $plan
    let plan = if $file == null { $plan } else {
      try { followed $file $plan } catch {|why| %print --raw --stderr $why.msg; $plan }
    }
    carry-out $plan
    $env._ROCENV_FOLDER.seen = $seen
    $env._ROCENV_FOLDER.own = (if (idents {}).0? not-in $stack { (idents {}).0? })
    $env.LAST_EXIT_CODE = ($code | %default 0)
  }
}
def complete-words [place] {
  let typed = if ($place | %describe) =~ '^record' { $place.command } else { $place }
  let words = $typed | %skip 1 | %each {|word| $word | %str trim --char '"' | %str trim --char "'" }
  let lines = ^$program complete ...$words | %lines
  if ':files' in $lines or ':folders' in $lines { return null }
  $lines | %each {|line|
    let cells = $line | %split row "\t"
    let value = if $cells.0 =~ '^[\w./:=@+-]+$' { $cells.0 } else { $cells.0 | %to json }
    {value: $value, description: ($cells.1? | %default '')}
  }
}
# Activates rocenv envs, and calls rocenv for everything else.
@complete complete-words
export def --env --wrapped rocenv [...words] {
  let input = $in
  if ($words | %length) == 2 and $words.0 == activate {
    let data = data-of $"($words.1)"
    if $data != null { return (enter $data) }
  }
  if $words == [deactivate] and (idents {}) != [] { return (leave) }
  if $words.0? == trust { $env._ROCENV_FOLDER.seen = null }
  if $input == null { ^$program ...$words } else { $input | ^$program ...$words }
}
# Deactivates the most recently activated rocenv env.
export def --env deactivate [] { rocenv deactivate }
export-env {
  if $env._ROCENV_FOLDER? == null {
    $env._ROCENV_FOLDER = {folder: '', files: [], seen: '', own: null}
    $env.config.hooks.pre_prompt = [{|| look } ...($env.config.hooks.pre_prompt? | %default [])]
  }
}
