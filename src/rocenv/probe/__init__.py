"""The ladder of `verify`: tests of the vendor libraries on this machine, one process per rung."""
