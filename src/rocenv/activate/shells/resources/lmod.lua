-- Loads a rocenv env, with the effect of its activation script.
whatis(__NAME__)
help(__NAME__)
family("rocenv")
if mode() == "load" and not isFile(__MARKER__) then
  LmodError(__GONE__)
end
-- The cache folder: the env's own, or the user's own if the env's is not writable.
local prefix, own = __PREFIX__, __IDENT__
local cache = prefix .. "/cache"
if not require("posix").access(cache, "w") then
  cache = os.getenv("XDG_CACHE_HOME") or ""
  if cache:sub(1, 1) ~= "/" then
    cache = (os.getenv("HOME") or "") .. "/.cache"
  end
  if cache:sub(-#own) ~= own then
    cache = cache .. own
  end
end
__CHANGES__
