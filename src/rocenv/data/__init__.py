"""The compatibility matrix: every fact about releases, targets and channels, read from data files."""
