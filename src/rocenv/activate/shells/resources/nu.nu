# Source this file to activate the env `__LABEL__`. It defines `deactivate`, which undoes the activation.
module rocenv-activation {
module new {
__NEW__
}
module old {
__OLD__
}
export def --env deactivate [] {
  use new; use old
  if $"($env.NU_VERSION?)" =~ __WITHOUT_SIGIL__ { old leave } else { new leave }
}
export-env {
  let data = __DATA__
  use new; use old
  if $"($env.NU_VERSION?)" =~ __WITHOUT_SIGIL__ { old enter-here $data } else { new enter-here $data }
}
}
use rocenv-activation deactivate
null # Use `source` with this file; it is neither a module nor an overlay.
