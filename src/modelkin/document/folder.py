"""The report folder: everything about one comparison, for people and for programs."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from modelkin._version import __version__
from modelkin.comparison import Comparison
from modelkin.errors import UsageError, not_written
from modelkin.message import say
from modelkin.registry import ScanResult
from modelkin.untrusted import JsonRefused, quoted, strict_object

from .blocks import Marked
from .codec import dumps
from .evidence import tensors_csv
from .html import render_html, stacks_svg
from .language import ENGLISH, Language, load_language
from .markdown import render_markdown
from .results import to_json
from .views.case import case_blocks
from .views.comparison import comparison_view, verdict_card
from .views.names import with_short_names
from .views.scan import scan_view, verified_folder

if TYPE_CHECKING:
    from modelkin.figures import Format
    from modelkin.progress import Progress

RECORD = "comparison.json"
MANIFEST = "manifest.json"


def write_folder(
    result: Comparison,
    folder: str | os.PathLike[str],
    *,
    language: str = "en",
    dpi: int = 150,
    formats: Sequence[Format] = (),
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Write the record, ``report.html``, ``REPORT.md`` and ``tensors.csv``; return their paths.

    The folder is created if it is missing. Each file is complete or absent: it is written to a temporary file
    and then moved, so that an older report is never left half overwritten. Figures for papers and slides take
    as long as everything else; by default there are no `formats` to draw. Raises `UsageError` if the folder
    cannot be made or written, or holds the report of another pair.
    """
    texts = load_language(language)
    check_folder(folder, (result.candidate.origin, result.base.origin))
    files = {
        **document_files(result, language),
        **drawing_files(result, texts),
        **(_figures(result, dpi, formats, texts, progress) if formats else {}),
    }
    return write_files(Path(folder), {**files, MANIFEST: _manifest(files)})


def document_files(result: Comparison, language: str) -> dict[str, str | bytes]:
    """Return the files of a report that contain words or numbers: they follow from the record."""
    texts = load_language(language)
    return {
        RECORD: to_json(result) + "\n",
        "report.html": report_html(result, texts),
        "REPORT.md": report_markdown(result, texts),
        "tensors.csv": tensors_csv(result),
    }


def _manifest(files: Mapping[str, str | bytes]) -> str:
    """List all files with their digests."""
    listed = {}
    for name, content in sorted(files.items()):
        data = _as_bytes(content)
        listed[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return dumps({"schema": "modelkin.manifest/1", "modelkin": __version__, "files": listed}) + "\n"


def check_folder(folder: str | os.PathLike[str], origins: tuple[str, str]) -> None:
    """Check that a folder is free for the report of a pair, or holds an earlier one of the same pair.

    `origins` are those of candidate and base. Raises `UsageError` if it is a file, or holds the report of
    another pair or a record that cannot be read.
    """
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(str(folder), say("problem.report-place"))
    record = Path(folder) / RECORD
    if not record.is_file():
        return
    hint = say("hint.another-out")
    try:
        found = strict_object(record.read_bytes())
        held = [found[side]["origin"] for side in ("candidate", "base")]  # type: ignore[index]
    except (OSError, JsonRefused, LookupError, TypeError):
        raise UsageError(str(record), say("problem.no-record"), hint=hint) from None
    if held != list(origins):
        names = " and ".join(quoted(str(origin)) for origin in held)
        raise UsageError(str(folder), say("problem.other-report", names=names), hint=hint)


def drawing_files(result: Comparison, language: Language = ENGLISH) -> dict[str, str]:
    """Return the drawing of both models, which ``REPORT.md`` shows, by its path in the folder."""
    drawing = verdict_card(result, language).drawing
    return {drawing.file: stacks_svg(drawing)} if drawing else {}


def report_markdown(result: Comparison, language: Language = ENGLISH) -> str:
    """Write the whole record as a document."""
    return render_markdown((*comparison_view(result, language), *case_blocks(result, language)))


def report_html(result: Comparison, language: Language = ENGLISH) -> str:
    """Write the whole record as a page."""
    short = with_short_names(result)
    names = {"candidate": short.candidate.ref, "base": short.base.ref}
    return render_html(
        (*comparison_view(result, language), *case_blocks(result, language)),
        title=language.say("title.question", **names),
        language=language,
        version=result.environment.modelkin,
        footer=(Marked(language.say("text.digits")),),
    )


def scan_html(result: ScanResult, language: Language = ENGLISH) -> str:
    """Write a scan as a page, with the pictures of layers of the verified hits."""
    return render_html(
        scan_view(result, language=language, page=True),
        title=f"modelkin scan: {result.query.ref}",
        language=language,
        version=__version__,
    )


def write_scan(
    result: ScanResult, folder: str | os.PathLike[str], *, language: str = "en"
) -> tuple[Path, ...]:
    """Write ``scan.json``, ``report.html``, ``REPORT.md``, and a report folder for each verified hit."""
    texts = load_language(language)
    place = Path(folder)
    files = write_files(
        place,
        {
            "scan.json": to_json(result) + "\n",
            "report.html": scan_html(result, texts),
            "REPORT.md": render_markdown(scan_view(result, language=texts, page=True)),
        },
    )
    for number, hit in enumerate(result.hits, start=1):
        if hit.verified.comparison is not None:
            files += write_folder(hit.verified.comparison, place / verified_folder(number), language=language)
    return files


def _figures(
    result: Comparison, dpi: int, formats: Sequence[Format], language: Language, progress: Progress | None
) -> dict[str, str | bytes]:
    """Draw every figure of a comparison, together with the data it is drawn from, which is in English."""
    from modelkin.figures import figure_to_json, renderings  # matplotlib takes its time
    from modelkin.figures.comparison import comparison_figures

    files: dict[str, str | bytes] = {}
    figures = comparison_figures(result)
    for done, (name, figure) in enumerate(figures.items()):
        if progress is not None:
            progress.count(done, len(figures), say("step-drawing"))
        files[f"figures/{name}.json"] = figure_to_json(figure) + "\n"
        for kind, content in renderings(figure, formats, dpi=dpi, language=language).items():
            files[f"figures/{name}.{kind}"] = content
    return files


def try_folder(folder: Path) -> None:
    """Check by trying that files can be written into a folder; neither they nor a folder made for them stay.

    Raises what `write_files` would raise after the work.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    made: list[Path] = []
    try:
        for place in reversed(missing):
            with suppress(FileExistsError):
                place.mkdir()
                made.append(place)
        trial = folder / f".modelkin.{secrets.token_hex(4)}"
        _replace(trial, b"\n")  # a byte, as a full disk may still take empty files
        trial.unlink()
    except OSError as error:
        raise not_written(str(folder), say("part.the-report"), error) from error
    finally:
        with suppress(OSError):  # another process may have begun to write there
            for place in reversed(made):
                place.rmdir()


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write files into a folder; each is complete or absent."""
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _replace(folder / name, content)
    except OSError as error:
        raise not_written(str(folder), say("part.the-report"), error) from error
    return tuple(folder / name for name in files)


def _as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")


def _replace(path: Path, content: str | bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    data = _as_bytes(content)
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
