"""The code of two repositories: heads of files, what they have in common, commits. Claims, not evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from modelkin.describe import FilePair, RepositoryComparison, RepositoryFacts
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.untrusted import visible

_COMMITS = 10


def repositories_view(found: RepositoryComparison, *, verbose: bool = False) -> tuple[Block, ...]:
    """Return a comparison of code as blocks.

    Parameters
    ----------
    found
        What was found.
    verbose
        All commits, not the newest ten.
    """
    return tuple(_blocks(found, verbose=verbose))


def _blocks(found: RepositoryComparison, *, verbose: bool) -> Iterator[Block]:
    yield Paragraph("What the files say. It is no evidence about weights, and no verdict uses it.", "strong")
    for side, facts in (("Candidate", found.candidate), ("Base", found.base)):
        yield Section(title=f"{side}: {visible(facts.ref)}", blocks=tuple(_facts(facts)))
    if found.pairs:
        yield Section(title="Files of one kind, the most alike", blocks=(_pairs(found.pairs),))
    else:
        yield Paragraph("There are no two files of one kind to compare.")
    for control in found.controls:
        title = f"The candidate's files and a control: {visible(control.ref)}"
        block = _pairs(control.pairs) if control.pairs else Paragraph(str(control.reason))
        yield Section(title=title, blocks=(block,))
    for side, facts in (("candidate", found.candidate), ("base", found.base)):
        if facts.commits:
            shown = facts.commits if verbose else facts.commits[:_COMMITS]
            rows = [
                (
                    commit.id[:10],
                    commit.date or "-",
                    ", ".join(map(visible, commit.authors)),
                    visible(commit.title),
                )
                for commit in shown
            ]
            blocks: list[Block] = [table(("commit", "date", "by", "title"), rows)]
            if len(facts.commits) > len(shown):
                blocks.append(Paragraph(f"and {len(facts.commits) - len(shown)} more (-v)", "note"))
            yield Section(title=f"Commits of the {side}, as the source dates them", blocks=tuple(blocks))
    yield Section(title="How to read this", blocks=(Bullets(tuple(map(str, found.limits))),))


def _facts(facts: RepositoryFacts) -> Iterator[Block]:
    if not facts.files:
        yield Paragraph("no code and no licence files of its own")
    else:
        rows = [
            (
                visible(file.name),
                file.kind,
                f"{file.lines:,}",
                file.licence or "-",
                "; ".join(map(visible, file.copyrights)) or "-",
                ", ".join(
                    map(visible, [*([file.generated_from] if file.generated_from else []), *file.copied_from])
                )
                or "-",
                ", ".join(map(str, file.layer_numbers)) or "-",
            )
            for file in facts.files
        ]
        titles = ("file", "kind", "lines", "licence", "copyright lines", "said to come from", "layers named")
        yield table(titles, rows, numeric=(2,))
    if facts.notes:
        yield Bullets(tuple(map(str, facts.notes)))


def _pairs(pairs: Sequence[FilePair]) -> Table:
    rows = [
        (
            visible(pair.candidate),
            visible(pair.base),
            "yes" if pair.identical else "no",
            _share(pair.of_candidate),
            _share(pair.renamed_of_candidate),
            _share(pair.renamed_of_base),
            f"{pair.longest_run:,}",
        )
        for pair in pairs
    ]
    titles = (
        *("candidate's file", "other file", "identical", "lines found there", "names taken out"),
        *("of the other's lines", "longest run"),
    )
    return table(titles, rows, numeric=(3, 4, 5, 6))


def _words(texts: Sequence[str | None]) -> str:
    return ", ".join(visible(text) for text in texts if text) or "-"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
