"""App support: recognize an app, start it, and make it use the env's GPU.

`recognition` identifies the app, `start` builds its command and environment, and `query` runs the app to get
its help, its GPUs and its version. `arguments` adds GPU arguments. Facts come from `profiles/apps/`;
`adapters` contains code for individual apps. `rung` is the last rung of `verify --app`.
"""
