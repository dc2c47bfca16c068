-- Loads an env of rocenv, as its activation script does.
whatis(__NAME__)
help(__NAME__)
family("rocenv")
if mode() == "load" and not isFile(__MARKER__) then
  LmodError(__GONE__)
end
-- The folder of caches: the env's own, or the user's if the user cannot write to that.
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
