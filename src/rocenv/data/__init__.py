"""The compatibility matrix: all facts about releases, targets and channels, read from data files."""
