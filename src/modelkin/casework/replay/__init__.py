"""The dispute about Solar and GLM, told from published measurements alone: nothing is downloaded."""

from modelkin.document import LANGUAGES

from ._figures import replay_figures
from ._markdown import replay_markdown
from ._page import replay_html
from ._record import Case, Chapter, Check, Contradiction, Grid, Replay
from ._tell import replay_solar_glm
from ._view import replay_view
from ._write import write_replay

__all__ = [
    "LANGUAGES",
    "Case",
    "Chapter",
    "Check",
    "Contradiction",
    "Grid",
    "Replay",
    "replay_figures",
    "replay_html",
    "replay_markdown",
    "replay_solar_glm",
    "replay_view",
    "write_replay",
]
