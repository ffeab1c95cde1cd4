"""Methods and guards at the widths of real models."""
