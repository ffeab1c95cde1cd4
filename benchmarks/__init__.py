"""What modelkin costs, measured: requests, bytes, seconds, memory, start. ``python -m benchmarks``."""
