"""The orchestrator of studies: open, compare, run experiments, draw from what was written, report.

The comparison is the answer: the main pair with an error rate, its controls and known relatives.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from modelkin._version import __version__
from modelkin.comparison import Comparison, compare
from modelkin.document import LANGUAGES, Language, load_language, write_folder
from modelkin.errors import ModelkinError, UsageError
from modelkin.figures import Animation, Format, alt_of, animate, draw
from modelkin.message import Message, say, told
from modelkin.model import Model, open_model
from modelkin.options import CompareOptions, FetchOptions
from modelkin.progress import Progress

from .bench import Bench, NotDone
from .folder import Folder
from .report import FOLDER, report_page, report_text, results_text
from .result import SCHEMA, MissingModel, ModelRecord, Step, StudyResult
from .spec import Drawing, Study, replace_models

_LIBRARIES = ("numpy", "matplotlib")
DPI = 150


def run_study(
    study: Study,
    out: str | os.PathLike[str],
    *,
    models: Mapping[str, str] | None = None,
    seed: int = 0,
    language: str = "en",
    fetch: FetchOptions | None = None,
    dpi: int = DPI,
    formats: Sequence[Format] = ("svg",),
    progress: Progress | None = None,
) -> StudyResult:
    """Run a study, write everything into a folder, and return its manifest.

    `models` replaces the models of some aliases, and `seed` chooses samples and draws. Reports are in
    `language` and show the SVG, whatever the `formats` of the pictures.
    """
    if "svg" not in formats:
        raise UsageError("formats", say("problem.no-svg", formats=", ".join(formats)))
    if language not in LANGUAGES:
        raise UsageError(language, say("problem.report-language", known=", ".join(LANGUAGES)))
    chosen = replace_models(study, models or {})
    folder = Folder(Path(out))
    folder.prepare()
    folder.text("study.yaml", study.text)
    with ExitStack() as stack:
        options = stack.enter_context(_reading_once(fetch or FetchOptions()))
        opened, missing = open_study_models(chosen, options, progress, stack)
        bench = Bench(
            study=chosen,
            folder=folder,
            models=opened,
            missing=missing,
            seed=seed,
            fetch=options,
            replaced=frozenset(models or {}),
        )
        comparison, answer = _compare(bench, language, dpi, formats)
        experiments = tuple(_experiments(bench, progress))
        records = tuple(_record(bench, alias) for alias in opened)
    figures = tuple(_figures(bench, dpi, formats, load_language(language), progress))
    result = StudyResult(
        schema=SCHEMA,
        study=study.name,
        seed=seed,
        language=language,
        versions={
            "modelkin": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in _LIBRARIES},
        },
        models=records,
        missing=missing_models(bench),
        answer=answer,
        comparison=comparison,
        experiments=experiments,
        figures=figures,
        left_out=tuple(dict.fromkeys(bench.left)),
        files=(),
    )
    folder.by = "report"
    folder.text("REPORT.md", report_text(bench, result))
    if chosen.results is not None:
        folder.text(chosen.results, results_text(bench, result, chosen.results))
    folder.text("report.html", report_page(bench, result))
    result = replace(result, files=tuple(sorted(folder.written.values(), key=lambda item: item.path)))
    folder.json("manifest.json", result)
    return result


@contextmanager
def _reading_once(fetch: FetchOptions) -> Iterator[FetchOptions]:
    """Keep fetched ranges at least for the duration of the run: experiments share them."""
    if fetch.use_store:
        yield fetch
        return
    with TemporaryDirectory(prefix="modelkin-study-") as place:
        yield replace(fetch, use_store=True, store_dir=Path(place))


def open_study_models(
    study: Study, fetch: FetchOptions, progress: Progress | None, stack: ExitStack
) -> tuple[dict[str, Model], dict[str, Message]]:
    """Open all models side by side and read their headers; unreadable ones are missing, with a reason."""

    def opened(ref: str) -> Model | Message:
        try:
            model = open_model(ref, fetch, progress=progress)
        except ModelkinError as error:
            return told(error)
        try:
            model.architecture  # noqa: B018  reads config and headers
        except ModelkinError as error:
            model.close()
            return told(error)
        return model

    with ThreadPoolExecutor(max(1, len(study.models))) as pool:
        found = dict(
            zip(study.models, pool.map(opened, [model.ref for model in study.models.values()]), strict=True)
        )
    models = {alias: model for alias, model in found.items() if isinstance(model, Model)}
    for model in models.values():
        stack.callback(model.close)
    return models, {alias: reason for alias, reason in found.items() if isinstance(reason, Message)}


def _compare(
    bench: Bench, language: str, dpi: int, formats: Sequence[Format]
) -> tuple[Step | None, Mapping[str, object] | None]:
    if bench.study.compare is None:
        return None, None
    bench.id = bench.folder.by = "comparison"
    try:
        answer = run_comparison(bench, language=language, dpi=dpi, formats=formats)
    except (NotDone, ModelkinError) as error:
        return skipped_step("comparison", "compare", error), None
    return Step(id="comparison", kind="compare", status="done", reason=None), answer


def _experiments(bench: Bench, progress: Progress | None) -> Iterator[Step]:
    for item in bench.study.experiments:
        bench.id = bench.folder.by = item.id
        if progress is not None:
            progress.note(say("step-experiment", name=item.id))
        try:
            item.run(bench)
        except (NotDone, ModelkinError) as error:
            yield skipped_step(item.id, item.kind, error)
            continue
        yield Step(id=item.id, kind=item.kind, status="done", reason=None)


def _figures(
    bench: Bench, dpi: int, formats: Sequence[Format], language: Language, progress: Progress | None
) -> Iterator[Step]:
    for item in bench.study.figures:
        bench.id = bench.folder.by = item.file
        try:
            alt = _drawn(bench, item, dpi, formats, language)
        except (NotDone, ModelkinError) as error:
            yield skipped_step(item.file, item.kind, error)
            continue
        if progress is not None:
            progress.note(say("step-figure", name=item.file))
        yield Step(id=item.file, kind=item.kind, status="done", reason=None, alt=alt)


def _drawn(bench: Bench, item: Drawing, dpi: int, formats: Sequence[Format], language: Language) -> str:
    made = item.make(bench)
    place, name = (bench.folder.root / item.file).parent, Path(item.file).name
    if isinstance(made, Animation):
        paths: tuple[Path, ...] = (animate(made, place, name, dpi=min(dpi, 80), language=language),)
    else:
        paths = draw(made, place, name, dpi=dpi, formats=formats, language=language)
    for path in paths:
        bench.folder.note(str(path.relative_to(bench.folder.root).as_posix()))
    return alt_of(made, language)


def missing_models(bench: Bench) -> tuple[MissingModel, ...]:
    """Return the models that could not be read, each with the reason."""
    return tuple(
        MissingModel(alias=alias, name=bench.name(alias), ref=bench.study.models[alias].ref, reason=reason)
        for alias, reason in bench.missing.items()
    )


def skipped_step(identity: str, kind: str, error: NotDone | ModelkinError) -> Step:
    reason = error.reason if isinstance(error, NotDone) else told(error)
    return Step(id=identity, kind=kind, status="skipped", reason=reason)


def _record(bench: Bench, alias: str) -> ModelRecord:
    model = bench.models[alias]
    location, architecture, totals = model.location, model.architecture, model.totals()
    return ModelRecord(
        alias=alias,
        name=bench.name(alias),
        ref=location.ref,
        replaced=alias in bench.replaced,
        origin=location.origin,
        revision=location.revision,
        family=architecture.family,
        layers=len(architecture.layers),
        mtp_layers=len(architecture.mtp_layers),
        hidden_size=architecture.sizes.get("residual"),
        requests=totals.requests,
        bytes_fetched=totals.bytes_fetched,
        bytes_needed=totals.bytes_needed,
    )


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
