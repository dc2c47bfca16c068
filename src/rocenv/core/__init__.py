"""Values, errors, versions and text helpers for all other packages."""
