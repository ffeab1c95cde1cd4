"""The figures themselves, by what they are about: each a function from saved numbers to a description."""
