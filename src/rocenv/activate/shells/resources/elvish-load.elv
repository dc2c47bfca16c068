use builtin
var rocenv-code = __CODE__
var rocenv-own = [&program=__PROGRAM__ &envs=__ENVS__ &file=activate.elv]
builtin:eval '' &on-end={|caller|
  builtin:eval &ns=(builtin:ns [&own=$rocenv-own &caller=$caller]) $rocenv-code
}
