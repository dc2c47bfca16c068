"""Start an app in an env, log its output, and explain how it ended.

`run` prepares the command, runs it and calls the others: `capture` runs the program and copies its output,
`log` writes the log file, `output` recognises known messages in the output, and `outcome` explains the end.
Nothing here prints.
"""
