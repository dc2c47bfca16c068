## The Python code that every script for xonsh carries.
##
## It runs in a namespace of its own, so that nothing of it is left among the user's names and none of theirs gets in
## its way. The script defines the names in capitals, as `PREFIX`, in front of it. An active env keeps in the shell:
##
##   aliases["deactivate"], aliases["rocenv_deactivate"]
##   sys.modules["_rocenv"]  .stack, pairs of ident and the function that leaves the env, the newest last
##                           .deactivate, the function that leaves the newest
##                           .offered, what the alias is if it is ours; another tool's keeps that name
##
## A script calls nothing of other envs' scripts but those functions: another version may have written them.
##
## A list like PATH is held by xonsh as an `EnvPath`, which expands `$NAME` and `~` in its entries each time it is
## read. `Literal` is one that does not, for values that would not reach programs as they are. `Prompt` reaches
## programs, to which xonsh hands its prompt like any other variable, without the mark.
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
    # What programs get; None = nothing.
    detype = env.get_detyper(name) if env.is_manually_set(name) else None
    return detype(env[name]) if detype else None


def put(name, text):
    env[name] = text
    if held(name) != text and isinstance(env[name], EnvPath):
        env[name] = Literal(text.split(":"))
    if held(name) != text:
        raise XonshError("rocenv: " + name + " is a variable in which xonsh cannot keep the value of the env")


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
    # xonsh's own prompt has a field for this, which would show $VIRTUAL_ENV.
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


def enter():
    before = {name: (state(name), held(name)) for name in CHANGED}
    watched = [name for name in LEFTOVERS if held(name) is not None]
    try:
        for each in CHANGES:
            change(*each)
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
                # What a venv that was activated meanwhile will put back.
                take_out("_OLD_VIRTUAL_PATH", LISTS.get(name, ()), text)
            if held(name) == after[name]:
                put_back(name, *value)
            elif name in LISTS:
                take_out(name, LISTS[name], text)
            else:
                kept.append(name)
        unmark()
        if kept:
            say("changed while the env was active, and left as it is now: " + " ".join(kept))

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
    say("this file is to be sourced, not run. Type:  " + SOURCE)
    sys.exit(33)
if not os.path.isfile(MARKER):
    gone = "there is no env at " + PREFIX + " any more; `rocenv list` shows those that there are"
    raise XonshError("rocenv: " + gone)
shared = sys.modules.get("_rocenv")
while shared and any(ident == IDENT for ident, leave in shared.stack):
    # Active already: leave it, with those on top of it, and start afresh.
    shared.stack.pop()[1]()
leave, replaced, acting = enter()
if not shared:
    shared = sys.modules["_rocenv"] = types.ModuleType("_rocenv")
    shared.stack, shared.deactivate, shared.offered = [], deactivate, None
    if replaced:
        say("set on this machine, replaced until deactivation: " + " ".join(replaced))
    if acting:
        say("set on this machine, and acts on this env too: " + " ".join(acting))
deactivate.__xonsh_threadable__ = False
aliases["rocenv_deactivate"] = deactivate
if "deactivate" not in aliases:
    aliases["deactivate"] = deactivate
    shared.offered = aliases["deactivate"]  # newer versions wrap it
elif aliases["deactivate"] is not shared.offered:
    say("`deactivate` belongs to another tool here; leave this env with `rocenv_deactivate`")
shared.stack.append((IDENT, leave))
