"""Starting an app in an env: is all in place, what does it print, and why did it end.

`start` works out what is run, `preflight` looks before, `capture` runs it and keeps what it prints, `log` is
where that is kept, `diagnosis` says afterwards what happened, from the exit code, the `trace` of what was
loaded, and the `stack` that Python printed. Nothing here prints by itself.
"""
