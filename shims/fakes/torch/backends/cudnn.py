"""Whether convolutions use cuDNN, as they do by default."""

enabled = True
benchmark = False
allow_tf32 = True


def is_available():
    """Whether this build has cuDNN."""
    return True
