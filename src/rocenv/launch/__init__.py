"""Start an app in an env, log its output, and explain how it ended.

`run` prepares the command and calls the other modules: `capture` runs the program and copies its output,
`log` writes the log file, `output` recognizes known messages in the output, and `outcome` explains how the
app ended. These modules do not print messages.
"""
