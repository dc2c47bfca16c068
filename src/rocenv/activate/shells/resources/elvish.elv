# Evaluate this file to activate the env `__LABEL__`. `deactivate` undoes it.
##
## The code is evaluated in a new namespace that contains only `$own` and `$caller`, the caller's namespace. So it does
## not depend on the caller's definitions, and an error does not print all of the code.
use builtin
use path
var rocenv-executed rocenv-gone = __EXECUTED__ __GONE__
if (builtin:src)[is-file] { builtin:fail $rocenv-executed }
if (builtin:not (path:is-regular &follow-symlink=$builtin:true __MARKER__)) { builtin:fail $rocenv-gone }
var rocenv-code = __CODE__
var rocenv-own = [
  &ident=__IDENT__
  &cache=__CACHE__
  &label=__MARK__
  &names=__NAMES__
  &watched=__WATCHED__
  &lists=__LISTS__
  &changes=__CHANGES__
]
builtin:eval '' &on-end={|caller|
  builtin:eval &ns=(builtin:ns [&own=$rocenv-own &caller=$caller]) $rocenv-code
}
