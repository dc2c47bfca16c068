"""Whether convolutions go through cuDNN; they do unless it is switched off."""

enabled = True
benchmark = False
allow_tf32 = True


def is_available():
    """Tell whether this build has cuDNN."""
    return True
