## The xonsh hook: Python code that runs in its own namespace, like the scripts.
##
## The `rocenv` alias is a function, which hides the command, so it runs the program as a subprocess. Ctrl-C in the
## terminal also interrupts the program, so xonsh waits until the program has handled it. xonsh builds the prompt before
## the `on_pre_prompt` event, so `follow` must run earlier.
import os
import re
import subprocess
import sys

from xonsh.built_ins import XSH
from xonsh.completers.completer import add_one_completer
from xonsh.completers.path import complete_dir, contextual_complete_path
from xonsh.completers.tools import RichCompletion, contextual_command_completer_for
from xonsh.events import events
from xonsh.tools import XonshError

seen = own = None


def stack():
    active = sys.modules.get("_rocenv")
    return [ident for ident, leave in active.stack] if active else []


def deactivate():
    sys.modules["_rocenv"].deactivate()


def activate(name):
    # If there is no script, the program reports the problem.
    if name in ("", ".", "..") or name.startswith("-") or "/" in name:
        return None
    home = XSH.env.detype().get("ROCENV_HOME")
    script = os.path.join(home + "/envs" if home else ENVS, name, "activate.xsh")
    try:
        with open(script, "rb") as file:
            text = file.read()
    except OSError:
        return None
    try:
        exec(compile(text.decode("ascii"), script, "exec"), {"__name__": script})
    except XonshError as error:
        print(error, file=sys.stderr)
    except Exception as error:
        print(f"rocenv: {script}: {error}", file=sys.stderr)
    else:
        return 0
    return 1


def descriptor(stream, captured=None):
    # If xonsh would capture the output only to display it, write it directly to the terminal.
    if captured is not None:
        return None
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None


def say_missing():
    print("rocenv: cannot run", PROGRAM, file=sys.stderr)


def program(args, stdin, stdout, stderr, spec):
    shown = spec and spec.captured == "hiddenobject"
    try:
        process = subprocess.Popen(
            [PROGRAM, *args],
            env=XSH.env.detype(),
            stdin=descriptor(stdin),
            stdout=descriptor(stdout, spec.captured_stdout if shown else None),
            stderr=descriptor(stderr, spec.captured_stderr if shown else None),
        )
    except OSError:
        say_missing()
        return 127
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue
        return status if status >= 0 else 128 - status


def rocenv(args, stdin=None, stdout=None, stderr=None, spec=None):
    global seen
    if args == ["deactivate"] and stack():
        deactivate()
        return 0
    status = activate(args[1]) if len(args) == 2 and args[0] == "activate" else None
    if args[:1] == ["trust"]:
        seen = None
    return program(args, stdin, stdout, stderr, spec) if status is None else status


def answer(*args, missing, **streams):
    try:
        done = subprocess.run(
            [PROGRAM, *args],
            env=XSH.env.detype(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            **streams,
        )
    except OSError:
        missing()
        return []
    return os.fsdecode(done.stdout).splitlines() if done.returncode == 0 else []


def nearest():
    folder = XSH.env.get("PWD", "")
    while True:
        file = os.path.join(folder, ".rocenv")
        if os.path.isfile(file):
            try:
                with open(file, "rb") as lines:
                    return folder, lines.readline(4096)
            except OSError:
                return folder, b""
        if folder == os.path.dirname(folder):
            return ()
        folder = os.path.dirname(folder)


def follow(**_):
    global seen, own
    found = nearest()
    if found == seen:
        return
    seen = found
    if own is not None and stack()[-1:] == [own]:
        deactivate()
    own = None
    before = stack()
    for name in answer("trust", "--check", found[0], missing=say_missing)[:1] if found else ():
        rocenv(["activate", name])
    # An env that was already active belongs to the user.
    own = next((ident for ident in stack()[-1:] if ident not in before), None)


def word(context, value, text):
    if not context.opening_quote:
        plain = re.fullmatch(r"[\w./=+,:-]*", value)
        return RichCompletion(value if plain else repr(value), description=text)
    if context.closing_quote and not context.is_after_closing_quote:
        return RichCompletion(value, description=text)
    # xonsh does not add a quotation mark if one is already open.
    covered = len(context.raw_prefix)
    return RichCompletion(repr(value), covered, description=text, append_closing_quote=False)


def complete(context):
    words = [word.value for word in context.args[1 : context.arg_index]] + [context.prefix]
    found = set()
    for line in answer("complete", *words, missing=lambda: None, stderr=subprocess.DEVNULL):
        if line in (":files", ":folders"):
            return complete_dir(context) if line == ":folders" else contextual_complete_path(context)
        value, _, text = line.partition("\t")
        if value.startswith(context.prefix):
            found.add(word(context, value, text))
    return found


if "rocenv" not in XSH.completers:
    XSH.aliases["rocenv"] = rocenv
    add_one_completer("rocenv", contextual_command_completer_for("rocenv")(complete), "start")
    events.on_pre_prompt_format(follow)
