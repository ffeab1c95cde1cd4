"""Byte plans and method cards as a person reads them."""

import io

from rich.console import Console

from modelkin.comparison.methods import load_cards
from modelkin.document import methods_view, plans_view, render_terminal
from modelkin.source import BytePlan, ByteRange


def drawn(view):
    file = io.StringIO()
    Console(width=100, file=file, highlight=False).print(render_terminal(view))
    return file.getvalue()


def test_plans_of_several_models_are_summed_up():
    plan = BytePlan(requests=(("[b]\x1b.safetensors", ByteRange(0, 1500)),), bytes_needed=1000)
    text = drawn(plans_view({"candidate: a": plan, "base: b": plan}))
    assert text.count("1 request for 1.5 kB") == 2
    assert "together at most 3 kB" in text
    assert r"[b]\x1b.safetensors" in text


def test_a_card_says_what_it_claims_and_what_defeats_it():
    cards = load_cards().values()
    text = " ".join(drawn(methods_view(cards)).split())
    for card in cards:
        for words in (card.name, card.claim, card.null, card.needs, card.defeated_by, card.reference):
            assert str(words) in text
