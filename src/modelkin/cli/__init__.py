"""The command line: it translates, and does no science."""
