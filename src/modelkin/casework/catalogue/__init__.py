"""The figures themselves, by subject: each a function from saved numbers to a description."""
