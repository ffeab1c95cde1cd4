"""The code of two repositories: heads of files, what they have in common, commits. Claims, not evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from modelkin.describe import FilePair, RepositoryComparison, RepositoryFacts
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Table, table
from modelkin.document.language import ENGLISH, Language
from modelkin.untrusted import visible

_COMMITS = 10


def repositories_view(
    found: RepositoryComparison, language: Language = ENGLISH, *, verbose: bool = False
) -> tuple[Block, ...]:
    """Return a comparison of code as blocks; with all commits if `verbose`, not only the newest ten."""
    return tuple(_blocks(found, language, verbose=verbose))


def _blocks(found: RepositoryComparison, language: Language, *, verbose: bool) -> Iterator[Block]:
    say = language.of("repositories")
    yield Paragraph(say("no_evidence"), "strong")
    for side, facts in (("candidate", found.candidate), ("base", found.base)):
        title = say(f"of_{side}", model=visible(facts.ref))
        yield Section(title=title, blocks=tuple(_facts(facts, language)))
    if found.pairs:
        yield Section(title=say("alike"), blocks=(_pairs(found.pairs, say),))
    else:
        yield Paragraph(say("none_alike"))
    for control in found.controls:
        block = _pairs(control.pairs, say) if control.pairs else Paragraph(language.told(control.reason))
        yield Section(title=say("with_control", model=visible(control.ref)), blocks=(block,))
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
            titles = [say(key) for key in ("commit", "date", "by", "title")]
            blocks: list[Block] = [table(titles, rows)]
            if len(facts.commits) > len(shown):
                more = say("and_more", n=str(len(facts.commits) - len(shown)))
                blocks.append(Paragraph(more, "note"))
            yield Section(title=say(f"commits_of_{side}"), blocks=tuple(blocks))
    yield Section(title=say("how_to_read"), blocks=(Bullets(tuple(map(language.tell, found.limits))),))


def _facts(facts: RepositoryFacts, language: Language) -> Iterator[Block]:
    say = language.of("repositories")
    if not facts.files:
        yield Paragraph(say("no_files"))
    else:
        rows = [
            (
                visible(file.name),
                language.word("file_kind", file.kind),
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
        keys = ("file", "kind", "lines", "licence", "copyright", "said_from", "layers")
        yield table([say(key) for key in keys], rows, numeric=(2,))
    if facts.notes:
        yield Bullets(tuple(map(language.tell, facts.notes)))


def _pairs(pairs: Sequence[FilePair], say: Callable[..., str]) -> Table:
    rows = [
        (
            visible(pair.candidate),
            visible(pair.base),
            say("yes" if pair.identical else "no"),
            _share(pair.of_candidate),
            _share(pair.renamed_of_candidate),
            _share(pair.renamed_of_base),
            f"{pair.longest_run:,}",
        )
        for pair in pairs
    ]
    keys = ("candidate_file", "other_file", "identical", "found", "renamed", "of_other", "longest_run")
    return table([say(key) for key in keys], rows, numeric=(3, 4, 5, 6))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
