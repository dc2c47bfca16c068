"""An env's environment changes, and the scripts and command lines that apply them."""
