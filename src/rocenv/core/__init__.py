"""What every package builds on: values, errors, versions, text."""
