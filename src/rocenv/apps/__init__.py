"""What rocenv knows about apps: which one a command starts, and with which arguments it uses the env's GPU.

`recognition` finds the app, `start` works out the command and its environment, and `query` asks the app's own
program for its help, its GPUs and its version. `arguments` adds what makes it use the GPU. Facts come from
`profiles/apps/`; `adapters` has the behaviour that belongs to one app. `rung` is the last rung of `verify
--app`.
"""
