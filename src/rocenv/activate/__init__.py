"""Environment changes of an env, and the scripts and command lines that apply them."""
