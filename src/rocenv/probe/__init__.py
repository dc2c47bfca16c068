"""The ladder of `verify`: what the vendor libraries can do on this machine, one process per rung."""
