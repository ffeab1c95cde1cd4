"""Kinds of figures. Each declares its options, and is made from saved data alone."""

from modelkin.casework.studies.spec import Drawing

from . import _along_layers as along
from . import _baselines as baselines
from . import _between as between
from . import _values as values

PLOTS: tuple[type[Drawing], ...] = (
    along.LayerCurves,
    along.RouterMatches,
    along.NormCosines,
    along.WithControls,
    along.Comprehensive,
    along.Proof,
    along.LayerDecay,
    along.Intuition,
    along.ChangedValues,
    along.ShuffleSummary,
    along.Statistics,
    along.InputMinusPost,
    between.DistributionByType,
    between.TypeSummary,
    between.ClaimedEvidence,
    between.CosineAndPearson,
    between.PairMatrices,
    between.ConfusionView,
    baselines.LayerPairBars,
    baselines.ModelMatrix,
    baselines.LayerRange,
    baselines.GroupMeans,
    baselines.MeasureComparison,
    baselines.ExperimentsSummary,
    values.RowSimilarity,
    values.VocabularyMapping,
    values.CentringView,
    values.Surfaces,
    values.Trajectories,
    values.Ridges,
    values.SyntheticView,
)

__all__ = ["PLOTS"]
