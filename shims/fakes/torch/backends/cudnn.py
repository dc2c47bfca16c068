"""The setting for convolutions, which use cuDNN by default."""

enabled = True
benchmark = False
allow_tf32 = True


def is_available():
    """Whether this build has cuDNN."""
    return True
