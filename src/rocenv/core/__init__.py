"""Values, errors, versions and text helpers that every other package uses."""
