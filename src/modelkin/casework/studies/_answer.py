"""The answer of a study: the main pair compared with an error rate, its controls and known relatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modelkin.comparison import Comparison, compare
from modelkin.document import write_folder
from modelkin.figures import Format
from modelkin.message import say
from modelkin.options import CompareOptions

from .bench import Bench, NotDone
from .report import FOLDER


def run_comparison(
    bench: Bench, *, language: str, dpi: int, formats: Sequence[Format]
) -> Mapping[str, object]:
    """Compare the main pair, if it is there; write its report folder, and return the answer in short."""
    main = bench.study.compare
    if main is None:
        raise NotDone(say("study.no-question"))
    models = bench.available((main.candidate, main.base), least=2)
    options = CompareOptions(depth=main.depth, seed=bench.seed, fetch=bench.fetch)
    controls = [alias for alias in main.controls if alias in bench.models]
    result = compare(
        candidate=models[main.candidate],
        base=models[main.base],
        options=options,
        controls=[bench.models[alias] for alias in controls],
    )
    drawn = formats if "png" in formats else ()  # no page shows them
    written = write_folder(result, bench.folder.root / FOLDER, language=language, dpi=dpi, formats=drawn)
    for path in written:
        bench.folder.note(path.relative_to(bench.folder.root).as_posix())
    answer = {
        "candidate": main.candidate,
        "base": main.base,
        **_short(result),
        "limitations": result.verdict.limitations,
        "controls": _controls(bench, result, controls, main.controls),
        "relatives": _relatives(bench, options),
    }
    bench.folder.json("data/comparison.json", answer)
    return answer


def _short(result: Comparison) -> dict[str, object]:
    verdict = result.verdict
    return {
        "conclusion": verdict.conclusion.value,
        "related": verdict.related,
        "summary": verdict.summary,
        "log10_p": verdict.log10_p,
        "effect": verdict.effect,
        "detection_limit": verdict.detection_limit,
    }


def _controls(
    bench: Bench, result: Comparison, used: list[str], wanted: tuple[str, ...]
) -> list[dict[str, object]]:
    """List every control: its outcome, or why there is none. A missing one is never a zero."""
    main = bench.study.compare
    assert main is not None
    found: list[dict[str, object]] = []
    sides = [(alias, side) for alias in used for side in (main.candidate, main.base)]
    for (alias, side), item in zip(sides, result.controls, strict=True):
        found.append(
            {
                "models": [side, alias],
                "available": True,
                "conclusion": item.conclusion,
                "effect": item.effect,
                "log10_p": item.log10_p,
                "usable": item.usable,
                "reason": item.reason,
            }
        )
    for alias in wanted:
        if alias not in used:
            found.append({"models": [alias], "available": False, "reason": bench.missing[alias]})
    return found


def _relatives(bench: Bench, options: CompareOptions) -> list[dict[str, object]]:
    """Compare pairs known to be related: if a method misses them, its negative results mean nothing."""
    main = bench.study.compare
    assert main is not None
    found: list[dict[str, object]] = []
    for a, b in main.relatives:
        gone = next((alias for alias in (a, b) if alias in bench.missing), None)
        if gone is not None:
            found.append({"models": [a, b], "available": False, "reason": bench.missing[gone]})
            continue
        result = compare(candidate=bench.models[b], base=bench.models[a], options=options)
        found.append({"models": [a, b], "available": True, **_short(result)})
    return found
