## Python code that is part of every xonsh script.
##
## It runs in its own namespace, so it neither leaves names behind nor conflicts with the user's. The script defines
## the uppercase names, such as `PREFIX`, before this code. State of an active env in the shell:
##
##   aliases["deactivate"], aliases["rocenv_deactivate"]
##   sys.modules["_rocenv"]  .stack, pairs of an ident and the function that deactivates the env, newest last
##                           .deactivate, the function that deactivates the newest env
##                           .offered, our `deactivate` alias, or None if another tool already has one
##
## A script calls only these functions of another env's script, because a different version may have written it.
##
## xonsh stores a list like PATH as an `EnvPath`, which expands `$NAME` and `~` in its entries on each read. `Literal`
## does not expand them, so that programs receive values unchanged. xonsh passes its prompt to programs like any
## variable; `Prompt` passes it without the label.
import os
import sys
import types

from xonsh.built_ins import XSH
from xonsh.tools import EnvPath, XonshError

env, aliases = XSH.env, XSH.aliases
CHANGED = [name for name, *own in RESTORE]
LISTS = {name: own for name, *own in RESTORE if own}


class Literal(EnvPath):
    def __getitem__(self, item):
        return self._l[item]

    def __add__(self, other):
        return Literal(self._l + list(other))

    def __radd__(self, other):
        return Literal(list(other) + self._l)


class Prompt(str):
    def __str__(self):
        return str(self.before)


def say(text):
    print("rocenv: " + text, file=sys.stderr)


def state(name):
    return (env[name],) if env.is_manually_set(name) else ()


def held(name):
    # The value that programs receive, or None if the variable is unset.
    detype = env.get_detyper(name) if env.is_manually_set(name) else None
    return detype(env[name]) if detype else None


def put(name, text):
    env[name] = text
    if held(name) != text and isinstance(env[name], EnvPath):
        env[name] = Literal(text.split(":"))
    if held(name) != text:
        raise XonshError("rocenv: cannot set " + name + " to the env's value in xonsh")


def put_back(name, *value):
    if value:
        (env[name],) = value
    elif env.is_manually_set(name):
        del env[name]


def entries(text):
    return text.split(":") if text else []


def change(action, name, value):
    if action == "set":
        put(name, value)
    elif action == "unset":
        put_back(name)
    else:
        put(name, ":".join([value] + [entry for entry in entries(held(name)) if entry != value]))


def take_out(name, own, before):
    old, now = entries(before), entries(held(name))
    left = [entry for entry in now if entry in old or entry not in own]
    if left == now:
        return
    if left or before is not None:
        put(name, ":".join(left))
    else:
        put_back(name)


def mark_prompt():
    # The env field of xonsh's own prompt would show $VIRTUAL_ENV.
    template, fields = env.get("PROMPT"), env.get("PROMPT_FIELDS")
    if held("ROCENV_DISABLE_PROMPT") or not template:
        return lambda: None
    if isinstance(template, str) and "{env_name" in template and "env_name" in fields:
        before = fields["env_name"]
        mark = fields["env_name"] = LABEL + (before if isinstance(before, str) else "")
        return lambda: fields.update(env_name=before) if fields.get("env_name") is mark else None
    before = state("PROMPT")
    if callable(template):
        mark = lambda: LABEL + template()
    else:
        mark = Prompt(LABEL + template)
        mark.before = template
    env["PROMPT"] = mark

    def unmark():
        now = env.get("PROMPT")
        if now is mark:
            put_back("PROMPT", *before)
        elif isinstance(now, str) and now.startswith(LABEL):
            env["PROMPT"] = now[len(LABEL) :]

    return unmark


def cache_folder():
    # The env's own cache folder, or the user's own if the env's is not writable.
    if os.access(PREFIX + "/cache", os.W_OK):
        return PREFIX + "/cache"
    base, own = held("XDG_CACHE_HOME") or "", "/rocenv/" + IDENT
    if not base.startswith("/"):
        base = (held("HOME") or "") + "/.cache"
    return base if base.endswith(own) else base + own


def enter():
    folder, paths = cache_folder() if CACHES else "", dict(CACHES)
    before = {name: (state(name), held(name)) for name in CHANGED}
    watched = [name for name in LEFTOVERS if held(name) is not None]
    try:
        for action, name, value in CHANGES:
            change(action, name, folder + paths[name] if name in paths else value)
    except Exception:
        for name in CHANGED:
            put_back(name, *before[name][0])
        raise
    after = {name: held(name) for name in CHANGED}
    unmark = mark_prompt()

    def leave():
        kept = []
        for name in CHANGED:
            value, text = before[name]
            if name == "PATH":
                # The value that a venv activated on top of the env will restore.
                take_out("_OLD_VIRTUAL_PATH", LISTS.get(name, ()), text)
            if held(name) == after[name]:
                put_back(name, *value)
            elif name in LISTS:
                take_out(name, LISTS[name], text)
            else:
                kept.append(name)
        unmark()
        if kept:
            say("changed while the env was active, so not restored: " + " ".join(kept))

    replaced = [n for n in CHANGED if n != "PATH" and before[n][1] and before[n][1] != after[n]]
    return leave, [n for n in replaced if n not in LISTS], [n for n in replaced if n in LISTS] + watched


def deactivate():
    if shared.stack:
        shared.stack.pop()[1]()
    if not shared.stack:
        sys.modules.pop("_rocenv", None)
        del aliases["rocenv_deactivate"]
        if "deactivate" in aliases and aliases["deactivate"] is shared.offered:
            del aliases["deactivate"]


if __name__ == "__main__":
    say("source this file instead of running it:  " + SOURCE)
    sys.exit(33)
if not os.path.isfile(MARKER):
    raise XonshError(GONE)
# xonsh's `source` puts the script's path into `__name__`.
record = os.path.join(os.path.dirname(__name__), ".rocenv", "record.json")
if os.path.isabs(__name__) and os.path.isfile(record) and not os.path.samefile(record, MARKER):
    raise XonshError(COPIED)
shared = sys.modules.get("_rocenv")
while shared and any(ident == IDENT for ident, leave in shared.stack):
    # If the env is active, deactivate it and those on top of it, and start over.
    shared.stack.pop()[1]()
leave, replaced, acting = enter()
if not shared:
    shared = sys.modules["_rocenv"] = types.ModuleType("_rocenv")
    shared.stack, shared.deactivate, shared.offered = [], deactivate, None
    if replaced:
        say("replaced until you deactivate the env: " + " ".join(replaced))
    if acting:
        say("set outside the env and still in effect: " + " ".join(acting))
deactivate.__xonsh_threadable__ = False
aliases["rocenv_deactivate"] = deactivate
if "deactivate" not in aliases:
    aliases["deactivate"] = deactivate
    shared.offered = aliases["deactivate"]  # newer versions wrap it
elif aliases["deactivate"] is not shared.offered:
    say("another tool defines `deactivate`, so use `rocenv_deactivate` to deactivate this env")
shared.stack.append((IDENT, leave))
