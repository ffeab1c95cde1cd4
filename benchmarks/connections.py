"""How many connections, and how long a request: the whole read as a function of both."""

from __future__ import annotations

import statistics
import time

from tests.support import HubProcess

from benchmarks.floor import unbounded_time
from benchmarks.machine import touch_memory
from benchmarks.subject import FAR, NEAR, REPO, USUAL, Selection, attention, norms, repository
from benchmarks.tables import Table, megabytes, seconds
from modelkin import FetchOptions, TensorSlice, open_model

MIB = 1 << 20
COUNTS = (8, 16, 32, 64)
PIECES = (2 * MIB, 8 * MIB, 32 * MIB)


def run(*, quick: bool = False) -> str:
    """Measure numbers of connections on each line, and lengths of requests; return it as Markdown."""
    repeats = 1 if quick else 3
    counts = (8, 16, 32) if quick else COUNTS
    matrices = attention(n_layers=4)
    rows: list[list[str]] = []
    piece_rows: list[list[str]] = []
    for line in (USUAL,) if quick else (NEAR, USUAL, FAR):
        with HubProcess({REPO: repository()}, line.options()) as hub:
            for selection in (norms(), matrices):
                row = [f"{line.name}, {selection.name}"]
                runs = repeats if selection.name == "norms" else 1
                row += [_shown(hub, selection, FetchOptions(connections=count), runs) for count in counts]
                rows.append([*row, seconds(unbounded_time(line).seconds)])
            piece_rows.append(
                [line.name] + [_shown(hub, matrices, FetchOptions(piece_bytes=size), 1) for size in PIECES]
            )
    pieces = [f"{size // MIB} MiB" for size in PIECES]
    return "\n\n".join(
        [
            "Seconds of the whole reading, by number of connections. `chain`: answers that wait for others.",
            Table(["line", *(str(count) for count in counts), "chain"], rows).markdown(),
            "Seconds of reading `attention` with the default number of connections, by the longest request:",
            Table(["line", *pieces], piece_rows).markdown(),
            f"Norms: median of {repeats}. Attention: one run, 4 layers, {megabytes(matrices.n_bytes)} MB. "
            "No store, imports warm.",
        ]
    )


def _shown(hub: HubProcess, selection: Selection, varied: FetchOptions, repeats: int) -> str:
    options = FetchOptions(
        endpoint=hub.url,
        token=False,
        use_store=False,
        connections=varied.connections,
        piece_bytes=varied.piece_bytes,
    )
    slices = [TensorSlice.whole(name) for name in selection.tensors]
    took: list[float] = []
    for _ in range(repeats):
        touch_memory(6 * selection.n_bytes)
        began = time.perf_counter()
        with open_model(REPO, options) as model:
            model.read(slices)
        took.append(time.perf_counter() - began)
    return seconds(statistics.median(took))
