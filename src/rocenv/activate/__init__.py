"""The changes that an env makes to the environment, and the scripts and command lines that apply them."""
