"""Methods over labelled pairs: what each finds, whom it accuses falsely, and what it costs."""

from .pairs import read_pairs
from .record import BenchOptions
from .report import bench_blocks, write_bench
from .run import bench_methods, run_bench
