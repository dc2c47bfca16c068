"""Run an app in an env: pre-launch checks, its output, its log, and why it ended as it did.

`start` prepares, `run` runs it from the first line of the log to the explanation, `capture` keeps what it
prints, `log` is the file, `output` knows what the output means while it appears, and `outcome` explains the
end. Nothing here prints.
"""
