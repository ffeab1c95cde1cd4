"""Methods and guards at the widths that models in the world have."""
