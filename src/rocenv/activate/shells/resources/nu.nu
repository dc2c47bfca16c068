# To be sourced: activates the env `__LABEL__`, and defines `deactivate`, which takes that back.
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
null # This file is to be sourced (`source`); it is no module and no overlay.
