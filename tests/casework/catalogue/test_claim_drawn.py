"""The claim and its refutation as they are drawn: words in a corner hide no number."""

from typing import Literal

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from modelkin.casework.catalogue import claim
from modelkin.document import ENGLISH
from modelkin.figures._layout import lay_out
from modelkin.figures.pen import settings
from modelkin.figures.theme import THEMES

SERVED: tuple[Literal["baseline", "evidence", "beside"], ...] = (
    *("baseline", "baseline", "evidence"),
    *("beside", "beside", "beside"),
)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("n", [3, 6])
def test_no_number_of_a_claim_is_behind_its_words(n, narrow):
    claims = [
        claim.Claim(label=f"group {i}", cosine=0.99, expected=0.9, served=word)
        for i, word in enumerate(SERVED[:n])
    ]
    figure = claim.claimed_evidence(claims, difference=-0.032, expected_difference=0.01, sigmas=182)
    with settings(THEMES["light"]):
        canvas = lay_out(figure, THEMES["light"], language=ENGLISH, narrow=narrow)
        drawer = FigureCanvasAgg(canvas)
        drawer.draw()
        for plane in canvas.axes[:2]:
            (words,) = (text for text in plane.texts if "difference" in text.get_text())
            numbers = [text for text in plane.texts if text is not words and text.get_text()]
            assert len(numbers) >= n
            patch = words.get_bbox_patch()
            assert patch is not None
            box = patch.get_window_extent()
            assert not any(box.overlaps(number.get_window_extent()) for number in numbers)
