"""What a comparison says in addition to its verdict: models, tokenizers, configs, claims."""

from __future__ import annotations

from collections.abc import Iterator

from modelkin.comparison import Comparison, ModelSummary
from modelkin.describe import known_fields
from modelkin.document.blocks import Block, Bullets, Paragraph, Section, Strong, table
from modelkin.document.language import Language
from modelkin.document.numbers import count_text, value_text
from modelkin.message import Message

from .grids import grids
from .words import config_value, told_value

_MOST_FIELDS = 12
_LONGEST = 24


def model_line(model: ModelSummary, language: Language) -> str:
    """Name a model with its commit and what it is."""
    say = language.say
    facts = [model.family or say("text.no_family")]
    facts += [say("text.n_layers", number=str(model.layers))] if model.layers is not None else []
    facts += [say("text.width", number=str(model.hidden_size))] if model.hidden_size is not None else []
    facts.append(say("text.n_parameters", number=count_text(model.parameters)))
    commit = f" @ {model.revision[:12]}" if model.revision else ""
    return f"{model.ref}{commit}  ({', '.join(facts)})"


def models_section(result: Comparison, language: Language) -> Section:
    """Show both models side by side, with their full references."""
    say = language.say
    pairs = zip(_model_rows(result.candidate, language), _model_rows(result.base, language), strict=True)
    rows = [(name, left, right) for (name, left), (_, right) in pairs if (left, right) != ("-", "-")]
    titles = ("", say("side.candidate"), say("side.base"))
    return Section(title=say("title.models"), key="models", blocks=(table(titles, rows),))


def beside_models(result: Comparison, language: Language) -> Iterator[Section]:
    """Show tokenizers and configs, which most readers do not need."""
    say = language.say
    fields = tuple(grids(result.config, language, first="label.field"))
    tokenizers = tuple(grids(_tokenizer_facts(result, language), language))
    yield Section(title=say("title.tokenizers"), key="tokenizers", blocks=tokenizers, closed=True)
    shown: tuple[Block, ...] = fields or (Paragraph(say("text.no_config")),)
    yield Section(title=say("title.config"), key="config", blocks=shown, closed=True)


def _model_rows(model: ModelSummary, language: Language) -> Iterator[tuple[str, str]]:
    """Yield what is known about a model, under the same names for every model."""
    stored = ", ".join(f"{name} {number:,}" for name, number in model.dtypes.items())
    kind = language.word("source-kind", model.kind)
    rows = {
        "reference": model.ref,
        "found_at": kind if model.origin == model.ref else f"{kind}: {model.origin}",
        "commit": model.revision or "-",
        "architecture": model.family or language.say("word.unknown"),
        "model_type": model.model_type or "-",
        "layers": value_text(model.layers),
        "hidden_size": value_text(model.hidden_size),
        "vocabulary": value_text(model.vocab_size),
        "parameters": f"{count_text(model.parameters)} ({model.parameters:,})",
        "stored_as": f"{model.format}: {stored or '-'}",
        "notes": "; ".join(language.tell(note) for note in model.notes) or "-",
    }
    for key, value in rows.items():
        yield language.say(f"label.{key}"), value


def lineage_section(result: Comparison, language: Language) -> Section:
    """Show what publishers say, as a claim."""
    key = "text.lineage_claim" if result.claims else "text.no_lineage"
    blocks: list[Block] = [Paragraph(language.say(key), "lead" if result.claims else "plain")]
    for side, claims in result.claims.items():
        blocks.append(Paragraph(Strong(language.word("side", side))))
        blocks.append(Bullets(tuple(language.tell(claim) for claim in claims)))
    title = language.say("title.lineage")
    return Section(title=title, key="lineage", blocks=tuple(blocks), closed=True)


# -- in a few lines ------------------------------------------------------------------------------------


def beside_sections(result: Comparison, language: Language) -> Iterator[Section]:
    """Show tokenizers, configs and claims briefly: facts that the verdict does not use."""
    say = language.say
    lines = (*tokenizer_lines(result, language), *config_lines(result, language))
    blocks: list[Block] = [Bullets(lines)]
    if rows := config_rows(result, language):
        titles = (say("label.config_field"), say("side.candidate"), say("side.base"), say("label.meaning"))
        blocks.append(table(titles, rows))
    yield Section(title=say("title.beside"), blocks=tuple(blocks))
    said = [
        say("text.of_side", side=language.word("side", side), text=language.tell(claim))
        for side, claims in result.claims.items()
        for claim in claims
    ]
    if said:
        yield Section(title=say("title.claims"), blocks=(Bullets(tuple(said)),))


def _tokenizer_facts(result: Comparison, language: Language) -> dict[str, object]:
    """Return what is recorded about the tokenizers, with its words in a language."""
    facts: dict[str, object] = dict(result.tokenizer)
    relation = facts.get("relation")
    if isinstance(relation, str):
        facts["relation"] = language.word("vocabulary", relation.replace(" ", "-"))
    return facts | ({"compared": True} if facts.get("compared") == "yes" else {})


def tokenizer_lines(result: Comparison, language: Language) -> Iterator[str]:
    """Say in a line or two what the tokenizers have in common."""
    facts, say = result.tokenizer, language.say
    if facts.get("same_file") is True:
        yield say("beside.same_file")
        return
    relation = facts.get("relation")
    if not isinstance(relation, str):
        compared = facts.get("compared")
        why = dict(compared.values).get("why") if isinstance(compared, Message) else None
        reason = told_value(why if isinstance(why, Message) else compared, language)
        yield say("beside.not_compared", reason=reason)
        return
    yield say(
        "beside.relation",
        relation=language.word("beside", relation.replace(" ", "-")),
        candidate=str(facts.get("candidate_tokens")),
        base=str(facts.get("base_tokens")),
    )
    share = facts.get("share_of_smaller")
    if isinstance(share, float) and relation != "same":
        strangers = told_value(facts.get("share_of_smaller_in_strangers"), language)
        yield say("beside.share", share=f"{share:.2f}", strangers=strangers)


def config_lines(result: Comparison, language: Language) -> Iterator[str]:
    """Say how many fields of the configs differ."""
    telling, rest = len(_telling(result)), len(result.config) - len(_telling(result))
    if not result.config:
        yield language.say("beside.no_field")
        return
    many = "beside.bookkeeping-one" if rest == 1 else "beside.bookkeeping"
    more = language.say(many, number=str(rest)) if rest else ""
    shown = language.say("beside.first", number=str(_MOST_FIELDS)) if telling > _MOST_FIELDS else ""
    key = "beside.field" if telling == 1 else "beside.fields"
    yield language.say(key, number=str(telling)) + shown + more


def config_rows(result: Comparison, language: Language) -> list[tuple[str, str, str, str]]:
    """Return the fields that differ and matter: name, both values, meaning."""
    known = known_fields()
    return [
        (
            name[:_LONGEST],
            config_value(left[:_LONGEST], language),
            config_value(right[:_LONGEST], language),
            language.tell(known[name].meaning) if name in known else "",
        )
        for name, (left, right) in _telling(result)[:_MOST_FIELDS]
    ]


def _telling(result: Comparison) -> list[tuple[str, tuple[str, str]]]:
    known = known_fields()
    return [
        (name, values)
        for name, values in result.config.items()
        if name not in known or known[name].group != "bookkeeping"
    ]
