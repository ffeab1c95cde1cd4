"""Methods over labelled pairs: what each finds, whom it accuses falsely, and what it costs."""

from .pairs import public_sources, read_pairs
from .rates import rates_of
from .record import BenchOptions
from .report import bench_blocks, write_bench
from .run import bench_methods, run_bench
