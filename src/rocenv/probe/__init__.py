"""The ladder of `verify`: what the vendor libraries can really do here, each rung in a process of its own."""
