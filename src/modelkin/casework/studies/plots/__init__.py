"""Kinds of figures. Each declares its options and its views, and is made only from saved data."""

from modelkin.casework.studies.spec import Drawing

from ._models import ModelsFigure
from ._others import CentringView, ClaimedEvidence, SyntheticView, TokensFigure
from ._pair import PairFigure
from ._pairs import PairsFigure
from ._plot import Viewed
from ._rows import RowsFigure, VectorsFigure

VIEWED: tuple[type[Viewed], ...] = (
    *(PairFigure, PairsFigure, ModelsFigure, RowsFigure, VectorsFigure, TokensFigure),
)
PLOTS: tuple[type[Drawing], ...] = (*VIEWED, ClaimedEvidence, CentringView, SyntheticView)
