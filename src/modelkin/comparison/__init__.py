"""Was one model derived from the other: read in stages, tested, decided, recorded."""
