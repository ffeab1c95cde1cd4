"""``repositories``: code, licence headers and copyright lines of two models, as claims, not evidence."""

from __future__ import annotations

from modelkin.casework.studies.bench import Bench, NotDone, said, shown
from modelkin.casework.studies.reading import AliasPair, Controls
from modelkin.casework.studies.spec import Experiment
from modelkin.describe import compare_repositories
from modelkin.document import plain_object
from modelkin.message import say


class Repositories(Experiment, tag="repositories"):
    """Code files of two repositories compared as text, with what unrelated ones have in common."""

    pair: AliasPair
    controls: Controls = Controls()

    def run(self, bench: Bench) -> None:
        """Read the text files of both, and compare shares of common lines with the controls'."""
        a, b = self.pair
        models = bench.available(self.pair, least=2)
        others = {alias: bench.models[alias] for alias in self.controls if alias in bench.models}
        found = compare_repositories(models[a], models[b], controls=tuple(others.values()))
        if not found.candidate.files and not found.base.files:
            raise NotDone(say("study.no-code"))
        heads = [
            {
                "model": bench.name(alias),
                "file": file.name,
                "licence": file.licence,
                "copyright": "; ".join(file.copyrights) or None,
                "layers_named": ", ".join(map(str, file.layer_numbers)) or None,
            }
            for alias, facts in ((a, found.candidate), (b, found.base))
            for file in facts.files
        ]
        sides = [(bench.name(b), found.pairs)]
        sides += [
            (bench.name(alias), control.pairs) for alias, control in zip(others, found.controls, strict=True)
        ]
        pairs = [
            {
                "file": pair.candidate,
                "model": name,
                "other_file": pair.base,
                "lines_there": pair.of_candidate,
                "lines_there_renamed": pair.renamed_of_candidate,
                "longest_run_lines": pair.longest_run,
            }
            for name, many in sides
            for pair in many
        ]
        tables = [shown("repository_files", heads)]
        tables += [shown("repository_pairs", pairs, a=bench.name(a))] if pairs else []
        bench.document(plain_object(found), tables=tables, said=[said("repositories")])
