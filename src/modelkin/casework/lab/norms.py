"""The norm experiment: its options, what it records, and how two trained models are measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, Literal, get_args

from modelkin.comparison import compare
from modelkin.errors import UsageError
from modelkin.message import Message, Phrase, joined, phrase, say
from modelkin.options import CompareOptions
from modelkin.source import MemorySource
from modelkin.stats import (
    AxisOptions,
    AxisTest,
    NotTestable,
    axis_test,
    bonferroni,
    cosine_decomposition,
    joint_features,
)

from .builder import gains_of
from .checkpoint import Checkpoint, Floats

ALPHA: Final = 0.01
"""Probability of any false alarm among all pairs of the experiment, for one kind of test."""

GainInit = Literal["ones", "near-one", "random"]
INITS: Final[tuple[GainInit, ...]] = get_args(GainInit)
"""How gains begin: all one, as in real models; drawn from N(1, 0.1); from N(0, 1), as once published."""

Text = Literal["written", "cyclic"]
LETTERS: Final = 128
CYCLE: Final = 256

Family = Literal["gpt2", "llama"]
FAMILIES: Final[tuple[Family, ...]] = get_args(Family)

PairRelation = Literal["unrelated, same data", "unrelated, other data", "same start", "fine-tuned"]
RELATIONS: Final[tuple[PairRelation, ...]] = get_args(PairRelation)
"""What is known about two models. `same start`: one initialisation, trained on different corpora."""

_RELATIONS: Final[dict[PairRelation, str]] = {
    "unrelated, same data": "norms.same-data",
    "unrelated, other data": "norms.other-data",
    "same start": "norms.same-start",
    "fine-tuned": "norms.fine-tuned",
}


def relation_words(relation: PairRelation) -> Phrase:
    """Return a relation in words, for tables and figures."""
    return phrase(_RELATIONS[relation])


@dataclass(frozen=True, slots=True, kw_only=True)
class NormsOptions:
    """The size of the experiment. The defaults take some minutes on one core."""

    family: Family = "gpt2"
    inits: tuple[GainInit, ...] = INITS
    seeds: int = 4
    """Models trained from scratch in each arm; all pairs of them are compared."""
    steps: int = 400
    width: int = 128
    layers: int = 3
    units: int = 256
    """Hidden units of an MLP."""
    characters: int = 300_000
    """Length of each of the two corpora."""
    text: Text = "written"
    """What is learned: two invented styles of writing, or two cycles through all tokens, as once
    published."""
    window: int = 48
    """Tokens that a model sees at once."""
    rows: int = 12
    """Windows per training step."""
    learning_rate: float = 4e-3
    seed: int = 0
    """From which all other seeds are made."""
    n_permutations: int = 9_999
    """Orders drawn by each exact test; far smaller p-values come from its bounds."""

    def __post_init__(self) -> None:
        closed: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
            ("family", (self.family,), FAMILIES),
            ("init", self.inits, INITS),
            ("text", (self.text,), get_args(Text)),
        )
        for what, names, known in closed:
            for name in names:
                if name not in known:
                    raise UsageError(what, say("problem.one-of", known=", ".join(known), got=repr(name)))
        if not self.inits or len(set(self.inits)) < len(self.inits):
            raise UsageError("init", say("problem.one-beginning"))
        for field, least in (("seeds", 2), ("steps", 4), ("layers", 1), ("units", 8), ("n_permutations", 99)):
            if getattr(self, field) < least:
                raise UsageError(field, say("problem.at-least", least=least, got=getattr(self, field)))
        if self.seeds > 50:
            raise UsageError("seeds", say("problem.seeds-most", got=self.seeds))
        if self.width < 16 or self.width % 8:
            raise UsageError("width", say("problem.width-multiple", got=self.width))
        if not 8 <= self.window <= 1024 or not 1 <= self.rows <= 1024:
            raise UsageError("window", say("problem.window-sizes"))
        if self.characters < 5_000:
            raise UsageError("characters", say("problem.characters-least", got=self.characters))
        if not 0 <= self.seed < 2**20:
            raise UsageError("seed", say("problem.seed-range", got=self.seed))

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return CYCLE if self.text == "cyclic" else LETTERS

    def published(self) -> NormsOptions:
        """Return the experiment as it was once published: 12 layers of width 512 on cyclic tokens.

        Two arms of two models, 300 steps at a rate of 0.001. Rows of a step were all equal there, so one is
        enough; that its data were shifts of one sequence is kept. The relatives and tests are our additions.
        """
        return replace(
            self,
            family="gpt2",
            inits=("ones", "random"),
            seeds=2,
            steps=300,
            width=512,
            layers=12,
            units=2048,
            text="cyclic",
            window=128,
            rows=1,
            learning_rate=1e-3,
        )

    def small(self) -> NormsOptions:
        """Return an experiment that takes seconds: it only shows that everything works."""
        return replace(
            self, seeds=2, steps=30, width=48, layers=2, units=64, characters=20_000, n_permutations=499
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """One trained model: what was done, and what became of it."""

    name: str
    init: GainInit
    number: int
    """Which of the models of its arm; models derived from it have the same."""
    relation: str
    """``base``, or what it is to the base of its number: ``same start``, ``fine-tuned``."""
    corpus: str
    init_seed: int
    order_seed: int
    steps: int
    learning_rate: float
    losses: tuple[float, ...]
    """Means over up to 40 equal stretches of the training."""
    held_out: float
    """Loss on new text of its own corpus."""
    held_out_other: float
    """Loss on text of the other corpus, which it saw only if it was fine-tuned from a model trained on it."""
    gain_mean: float
    gain_std: float
    """Standard deviation of the gains within a norm, averaged over norms."""
    gain_moved: float
    """Root mean square distance of gains from where the very first training began."""
    start_kept: float | None
    """Correlation of the gains with those of the very first start, mean over norms; None if all were one."""
    cpu_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCosine:
    """One vector of gains of two models."""

    norm: str
    cosine: float
    expected: float
    """The product of both rho: exactly the mean over all orders of one vector."""
    pearson: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """An exact test, or why it was not made."""

    __test__ = False  # not a pytest class

    log10_p: float | None
    effect: float | None
    """0 for chance, 1 for equal up to a scale."""
    reason: Message | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """Two models with a known relation, measured and tested."""

    init: GainInit
    relation: PairRelation
    candidate: str
    base: str
    cosine: float
    """Mean over norms, as are `expected` and `pearson`."""
    expected: float
    pearson: float | None
    norms: tuple[NormCosine, ...]
    norm_test: TestResult
    """Whether gains rise and fall in the same residual dimensions, all norms together."""
    unit_test: TestResult
    """Whether MLP units in the same places belong together, corrected for the number of layers."""
    verdict: str
    """What `modelkin.compare` concludes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormsResult:
    """The whole experiment."""

    options: NormsOptions
    versions: tuple[tuple[str, str], ...]
    """Packages that trained the models."""
    chance_losses: tuple[tuple[str, float], ...]
    """Corpus, and the loss of a reader who knows only letter frequencies."""
    models: tuple[ModelRun, ...]
    pairs: tuple[PairResult, ...]
    conclusion: tuple[Message, ...]
    """Derived from the numbers above."""
    limits: tuple[Message, ...]

    @property
    def cpu_minutes(self) -> float:
        """CPU time for training."""
        return sum(model.cpu_seconds for model in self.models) / 60

    @property
    def needed_log10_p(self) -> float:
        """What one test must reach, so that false alarms among all pairs are rarer than `ALPHA`."""
        return math.log10(ALPHA / max(1, len(self.pairs)))

    def group(self, init: GainInit, relation: PairRelation) -> tuple[PairResult, ...]:
        """Return the pairs of one arm and relation."""
        return tuple(pair for pair in self.pairs if (pair.init, pair.relation) == (init, relation))


def measure_pair(
    candidate: Checkpoint,
    base: Checkpoint,
    *,
    names: tuple[str, str],
    init: GainInit,
    relation: PairRelation,
    n_permutations: int,
    seed: int,
) -> PairResult:
    """Measure and test two models of one shape; what is known about them is recorded and not used."""
    norms = _norm_cosines(candidate, base)
    correlations = [norm.pearson for norm in norms if norm.pearson is not None]
    comparison = compare(
        candidate=MemorySource(candidate.files("F32"), name=names[0]),
        base=MemorySource(base.files("F32"), name=names[1]),
        options=CompareOptions(seed=seed),
    )
    return PairResult(
        init=init,
        relation=relation,
        candidate=names[0],
        base=names[1],
        cosine=fmean([norm.cosine for norm in norms]),
        expected=fmean([norm.expected for norm in norms]),
        pearson=fmean(correlations) if correlations else None,
        norms=norms,
        norm_test=norm_test(candidate, base, n_permutations=n_permutations, seed=seed),
        unit_test=unit_test(candidate, base, n_permutations=n_permutations, seed=seed),
        verdict=comparison.verdict.conclusion.value,
    )


def norm_test(candidate: Checkpoint, base: Checkpoint, *, n_permutations: int, seed: int) -> TestResult:
    """Test whether gains of both models single out the same residual dimensions.

    One order moves all norms together: layers of one model are not independent of each other. Every order is
    equally likely for independently initialised models, as gains begin equal or are drawn independently
    alike.
    """
    mine, theirs = gains_of(candidate), gains_of(base)
    shared = [name for name in mine if name in theirs]
    joint = joint_features(candidate=[mine[n] for n in shared], base=[theirs[n] for n in shared])
    if isinstance(joint, NotTestable):
        return TestResult(log10_p=None, effect=None, reason=joint.reason)
    options = AxisOptions(unit_rows=False, n_permutations=n_permutations)
    return _result(
        axis_test(candidate=joint.candidate, base=joint.base, exchangeable=True, seed=seed, options=options)
    )


def unit_test(candidate: Checkpoint, base: Checkpoint, *, n_permutations: int, seed: int) -> TestResult:
    """Test whether MLP units in the same places belong together; the best layer counts, corrected for all."""
    options = AxisOptions(n_permutations=n_permutations)
    tests = [
        axis_test(candidate=mine, base=theirs, exchangeable=True, seed=seed, options=options)
        for mine, theirs in zip(unit_rows(candidate), unit_rows(base), strict=True)
    ]
    made = [test for test in tests if isinstance(test, AxisTest)]
    if not made:
        reasons = dict.fromkeys(test.reason for test in tests if isinstance(test, NotTestable))
        return TestResult(log10_p=None, effect=None, reason=joined(reasons))
    return TestResult(
        log10_p=float(bonferroni([test.log10_p for test in made])),
        effect=fmean([test.effect for test in made]),
    )


def unit_rows(checkpoint: Checkpoint) -> list[Floats]:
    """Return the input weights of each MLP unit, one row per unit, layer by layer."""
    gated = [array for name, array in checkpoint.tensors.items() if name.endswith("mlp.gate_proj.weight")]
    plain = [array.T for name, array in checkpoint.tensors.items() if name.endswith("mlp.c_fc.weight")]
    if not gated and not plain:
        raise UsageError(checkpoint.family, say("problem.no-mlp"))
    return gated or plain


def _norm_cosines(candidate: Checkpoint, base: Checkpoint) -> tuple[NormCosine, ...]:
    theirs = gains_of(base)
    found = []
    for name, gains in gains_of(candidate).items():
        parts = cosine_decomposition(candidate=gains, base=theirs[name])
        found.append(
            NormCosine(
                norm=name, cosine=parts.cosine, expected=parts.mean_direction_part, pearson=parts.pearson
            )
        )
    return tuple(found)


def _result(test: AxisTest | NotTestable) -> TestResult:
    if isinstance(test, NotTestable):
        return TestResult(log10_p=None, effect=None, reason=test.reason)
    return TestResult(log10_p=test.log10_p, effect=test.effect)
