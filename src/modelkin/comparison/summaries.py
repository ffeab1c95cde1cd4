"""What a comparison records about its models: summary, ledger."""

from __future__ import annotations

from collections.abc import Mapping

from modelkin.comparison.record import LedgerRecord, ModelSummary, RangeRecord
from modelkin.model import Model


def model_summary(model: Model) -> ModelSummary:
    """Describe one side of a comparison."""
    location, index, architecture = model.location, model.index, model.architecture
    skipped = [f"{len(architecture.unknown)} tensors have no known role"] if architecture.unknown else []
    skipped += [f"{len(architecture.other)} tensors belong to other parts"] if architecture.other else []
    skipped += [*architecture.notes]
    return ModelSummary(
        ref=location.ref,
        kind=location.kind,
        origin=location.origin,
        revision=location.revision,
        family=architecture.family,
        model_type=architecture.model_type,
        layers=architecture.n_layers if architecture.is_known else None,
        hidden_size=architecture.sizes.get("residual"),
        vocab_size=architecture.sizes.get("vocab"),
        parameters=index.n_parameters,
        n_bytes=index.n_bytes,
        dtypes=dict(index.dtypes),
        skipped=tuple(skipped),
        format=model.weights.format,
        notes=model.weights.notes,
        guessed=architecture.guessed,
    )


def ledger_record(models: Mapping[str, Model]) -> LedgerRecord:
    """Sum up what was read of both models, and list it."""
    totals = [model.totals() for model in models.values()]
    return LedgerRecord(
        requests=sum(item.requests for item in totals),
        bytes_fetched=sum(item.bytes_fetched for item in totals),
        bytes_needed=sum(item.bytes_needed for item in totals),
        cache_hits=sum(item.cache_hits for item in totals),
        seconds=max(item.seconds for item in totals),
        ranges=tuple(
            RangeRecord(
                model=name,
                file=entry.file,
                start=entry.start,
                stop=entry.stop,
                etag=entry.etag,
                sha256=entry.sha256,
                origin=entry.origin,
            )
            for name, model in models.items()
            for entry in model.fetcher.ledger.entries
        ),
    )
