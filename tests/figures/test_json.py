import json

import pytest

from modelkin.errors import FormatError
from modelkin.figures import Figure, Lines, Panel, ReferenceLine, figure_from_json, figure_to_json

LINE = Lines(name="</script> $x$", x=(0.0, 1.0), y=(0.1, None))
FIGURE = Figure(
    title="t", panels=(Panel(title="p", marks=(ReferenceLine(value=0.0, label="chance"), LINE)),), note="n"
)


def edited(change):
    document = json.loads(figure_to_json(FIGURE))
    change(document)
    return json.dumps(document)


def mark(document):
    return document["figure"]["panels"][0]["marks"][1]


def test_nothing_is_lost():
    assert figure_from_json(figure_to_json(FIGURE)) == FIGURE


def test_missing_is_null_in_json():
    assert mark(json.loads(FIGURE.to_json()))["y"] == [0.1, None]


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(schema="other/1"),
        lambda document: mark(document).update(mark="Nonsense"),
        lambda document: mark(document).update(y="many"),
        lambda document: mark(document).update(y=[True, 1.0]),
        lambda document: mark(document).update(role="king"),
        lambda document: mark(document).pop("name"),
        lambda document: mark(document).update(extra=1),
        lambda document: document["figure"]["panels"][0].update(camera=[1.0]),
        lambda document: document.update(figure=None),
    ],
)
def test_other_documents_are_refused(change):
    with pytest.raises(FormatError, match="figure"):
        figure_from_json(edited(change))


@pytest.mark.parametrize("text", ["", "[", "[]", "3", "[" * 100_000, "\ud800", "1" * 400])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(FormatError, match="figure"):
        figure_from_json(text)


def test_a_refusal_shows_no_control_character():
    with pytest.raises(FormatError, match=r"unknown field `l\\x7fbel`") as caught:
        figure_from_json(edited(lambda document: mark(document).update({"l\x7fbel": 1})))
    assert str(caught.value).isprintable()
