"""What an env changes in the environment, and the scripts and command lines that bring it about."""
