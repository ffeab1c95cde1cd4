"""The only orchestrator: open, plan, read, test, decide. All numbers come from the layers below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from modelkin._version import __version__
from modelkin.comparison.adapters import adapter_flags, bare_updates
from modelkin.comparison.claims import read_claims
from modelkin.comparison.controls import (
    agreement_flag,
    agreement_score,
    calibrated,
    can_be_control,
    reference_folders,
    worth_calibrating,
)
from modelkin.comparison.deep import DeepResult, DeepStage, agreements
from modelkin.comparison.identity import (
    CopyKind,
    kind_of_copy,
    published_digests,
    same_bits,
    same_file,
    same_layout,
)
from modelkin.comparison.kinship import alignment_summary, relation_of
from modelkin.comparison.methods import (
    EqualityCount,
    Evidence,
    Pair,
    Side,
    Skipped,
    Task,
    all_methods,
    count_equal,
)
from modelkin.comparison.record import Comparison, ControlResult, Environment
from modelkin.comparison.summaries import ledger_record, model_summary
from modelkin.comparison.verdict import GUESSED, Conclusion, Identity, Verdict, decide, load_rule
from modelkin.describe.configs import config_difference
from modelkin.describe.tokenizers import Cell, tokenizer_record
from modelkin.model import MAX_TOKENIZER_BYTES, Model, open_model
from modelkin.options import READING, CompareOptions
from modelkin.progress import Progress
from modelkin.source import BytePlan, Source
from modelkin.tensors import Array, TensorSlice
from modelkin.tokenizer import TokenPairs, equal_rows, read_vocabulary, shared_tokens

VOCABULARY_BYTES = 2_000_000
"""Of each tokenizer at most this much is read: some hundred shared tokens are enough."""

_EQUAL_TABLE = (
    "both tables are equal bit for bit and what they are for was guessed: nobody may have trained them"
)
_MOST_FITTINGS = 6
_SAMPLED = 0.12
"""Part of the bytes of the deep stage for the samples of the stages before it."""
_INDEX_BYTES_A_TENSOR = 100
"""Of a shard index, roughly."""

ModelLike = str | Source | Model


def compare(
    *,
    candidate: ModelLike,
    base: ModelLike,
    options: CompareOptions | None = None,
    controls: Sequence[ModelLike] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Ask whether the candidate was derived from the base.

    Parameters
    ----------
    candidate, base
        Model references, sources, or opened models.
    options
        Depth, seed, and how to fetch.
    controls
        Models that are thought to be unrelated: they are compared with both sides under the same plan.
    progress
        Told about long reads.

    Returns
    -------
    Comparison
        The verdict with all evidence, and everything needed to check it.
    """
    options = options or CompareOptions()
    opened = [_opened(model, options, progress) for model in (candidate, base, *controls)]
    try:
        return _Run(opened[0], opened[1], options).result(opened[2:])
    finally:
        for model, given in zip(opened, (candidate, base, *controls), strict=True):
            if model is not given:
                model.close()


def plan_comparison(
    *,
    candidate: ModelLike,
    base: ModelLike,
    options: CompareOptions | None = None,
    progress: Progress | None = None,
) -> tuple[BytePlan, BytePlan]:
    """Say what `compare` would request of both models at most. Headers and tokenizers are read, no tensor."""
    options = options or CompareOptions()
    opened = [_opened(model, options, progress) for model in (candidate, base)]
    try:
        return _Run(opened[0], opened[1], options).plans()
    finally:
        for model, given in zip(opened, (candidate, base), strict=True):
            if model is not given:
                model.close()


def _opened(model: ModelLike, options: CompareOptions, progress: Progress | None) -> Model:
    return model if isinstance(model, Model) else open_model(model, options.fetch, progress=progress)


@dataclass(slots=True)
class _Run:
    """One pair on its way to a verdict."""

    candidate: Model
    base: Model
    options: CompareOptions
    evidence: list[Evidence] = field(default_factory=list)
    equality: EqualityCount = field(default_factory=EqualityCount)
    tokens: TokenPairs | None = None
    no_tokens: str = "the tokenizers were not read at this depth"
    deep: DeepResult | None = None
    flags: list[str] = field(default_factory=list)

    def result(self, controls: Sequence[Model]) -> Comparison:
        verdict = self.verdict(controls)
        decided_early = verdict.stage == "quick"  # then nothing more is read
        tokenizer = self._tokenizer(whole=not decided_early)
        claims = {} if decided_early else self._claims()
        copy = self._copy_kind(verdict)
        ledger = ledger_record({"candidate": self.candidate, "base": self.base})  # before controls read on
        rule = load_rule()
        checked = tuple(item for model in controls for item in self._control(model))
        alignment = alignment_summary(self.candidate, self.base, verdict, self.evidence, self.deep)
        return Comparison(
            candidate=model_summary(self.candidate),
            base=model_summary(self.base),
            verdict=verdict,
            evidence=tuple(self.evidence),
            alignment=alignment,
            relation=relation_of(
                self.candidate,
                self.base,
                verdict,
                alignment,
                self.equality,
                copy=copy,
            ),
            controls=checked,
            tokenizer=tokenizer,
            config=config_difference(self.candidate, self.base),
            claims=claims,
            ledger=ledger,
            environment=Environment(
                modelkin=__version__,
                methods={method.card.name: method.card.version for method in all_methods()},
                rule=verdict.rule,
                thresholds={
                    "log10_p": rule.log10_p,
                    "effect_floor": rule.effect_floor,
                    "matched_floor": float(rule.matched_floor),
                },
                seed=self.options.seed,
                depth=self.options.depth,
                byte_budget=self.options.fetch.byte_budget,
                controls=tuple(model.location.ref for model in controls),
            ),
            flags=(*adapter_flags(self.candidate, self.base), *self.flags),
        )

    def verdict(self, controls: Sequence[Model] = ()) -> Verdict:
        """Read stage by stage until the verdict is decided."""
        identity = self._published_identity()
        if identity is not None:
            return self._decide("quick", identity)
        self._stage("quick")
        if self.options.depth == "quick":
            return self._decide("quick", None)
        self._pair_tokens()
        self._stage("standard")
        identity = self._full_identity()
        if self.options.depth == "standard" or identity is not None:
            return self._decide("standard", identity)
        self._align(controls)
        return self._decide("deep", None)

    def plans(self) -> tuple[BytePlan, BytePlan]:
        """Plan all stages of the depth."""
        tasks = self._tasks("quick")
        if self.options.depth != "quick":
            self._pair_tokens()
            tasks += self._tasks("standard")
        mine = [item for task in tasks for item in task.candidate]
        theirs = [item for task in tasks for item in task.base]
        if self._is_deep:
            # Either units were reordered, or not; what is said of each model is the dearer of both.
            ways = [self._rehearsed(with_units=with_units) for with_units in (False, True)]
            mine += max((way[0] for way in ways), key=lambda way: self.candidate.plan(way).bytes_needed)
            theirs += max((way[1] for way in ways), key=lambda way: self.base.plan(way).bytes_needed)
        return self.candidate.plan(mine), self.base.plan(theirs)

    def _rehearsed(self, *, with_units: bool) -> tuple[list[TensorSlice], list[TensorSlice]]:
        stage = self._deep_stage()
        stage.rehearse(with_units=with_units)
        return stage.reading.asked

    # -- stages ----------------------------------------------------------------------------------------

    def _tasks(self, stage: str) -> list[Task]:
        """Plan a stage so that it fits into the bytes of the depth."""
        room = allowance = int(self._room() * (_SAMPLED if self._is_deep else 1.0))
        methods = [method for method in all_methods() if method.card.stage == stage]
        for _ in range(_MOST_FITTINGS):
            plans = [method.plan(self._pair(allowance)) for method in methods]
            tasks = [task for plan in plans for task in plan.tasks]
            cost = self._cost(tasks)
            if cost <= room:
                break
            # Methods ask for shares that add up to more than one where a model has dense and sparse layers.
            allowance = int(0.98 * allowance * room / cost)
        self.evidence += [skipped for plan in plans for skipped in plan.skipped]
        return tasks

    def _room(self) -> int:
        """Return what headers, gains and tokenizer leave for samples: by shapes alone, so always the same."""
        ceiling, _ = READING[self.options.depth]
        taken = max(self._overhead(model) for model in (self.candidate, self.base))
        taken += MAX_TOKENIZER_BYTES if self._is_deep else 0
        return max(ceiling // 5, int(0.96 * ceiling) - taken - VOCABULARY_BYTES)

    @property
    def _is_deep(self) -> bool:
        return self.options.depth in ("deep", "full")

    def _deep_stage(self) -> DeepStage:
        pair = self._pair(int((1.0 - _SAMPLED) * self._room()))
        return DeepStage(self.candidate, self.base, pair, self.tokens, self.evidence)

    def _overhead(self, model: Model) -> int:
        """Return the bytes of headers, shard index, gains and biases."""
        index = model.index
        headers = len(index.files) * self.options.fetch.head_bytes + len(index) * _INDEX_BYTES_A_TENSOR
        return headers + sum(info.n_bytes for info in index.values() if len(info.shape) == 1)

    def _cost(self, tasks: Sequence[Task]) -> int:
        mine = self.candidate.plan([item for task in tasks for item in task.candidate])
        theirs = self.base.plan([item for task in tasks for item in task.base])
        return max(mine.bytes_needed, theirs.bytes_needed)

    def _stage(self, stage: str) -> None:
        tasks = self._tasks(stage)
        mine, theirs = _read_both(
            (self.candidate, [task.candidate for task in tasks]),
            (self.base, [task.base for task in tasks]),
        )
        for task, left, right in zip(tasks, mine, theirs, strict=True):
            found = self._unless_fixed(task.evaluate(left, right), left, right)
            self.evidence.append(found)
            # Tables that training never touches are equal between strangers.
            if task.same_parts and not isinstance(found, Skipped):
                self.equality += count_equal(left, right, dtypes=self._dtypes(task))

    def _align(self, controls: Sequence[Model]) -> None:
        """Find out which parts face each other, and test them there."""
        self.deep = self._deep_stage().run()
        scores = self._control_scores(controls) if worth_calibrating(self.deep.evidence) else []
        self.evidence += calibrated(self.deep.evidence, scores)
        flag = agreement_flag(self.evidence, len(scores), int(load_rule().agreement["control_pairs"]))
        self.flags += [flag] if flag else []

    def _control_scores(self, controls: Sequence[Model]) -> list[float]:
        """Measure the agreement of all pairs that have an unrelated model in them."""
        wanted = int(load_rule().agreement["control_pairs"])
        usable = [model for model in controls if self._unrelated(model)]
        with ExitStack() as opened:
            # The few models of the package help out where the caller's are not enough.
            for folder in reference_folders() if _n_pairs(len(usable)) < wanted else ():
                shipped = opened.enter_context(open_model(str(folder), self.options.fetch))
                usable += [shipped] if self._unrelated(shipped) else []
            return self._scores_of(usable)

    def _scores_of(self, controls: Sequence[Model]) -> list[float]:
        """Measure controls with both sides and among themselves, each lineage once.

        A control that is a relative of another, or the same model again, would let one accident count twice.
        """
        kept: list[Model] = []
        scores: list[float | None] = []
        for control in controls:
            among = [_Run(other, control, self.options).control_score() for other in kept]
            if any(related for _, related in among):
                continue
            kept.append(control)
            sides = [
                _Run(side, control, self.options).control_score() for side in (self.candidate, self.base)
            ]
            scores += [score for score, related in (*sides, *among) if not related]
        return [score for score in scores if score is not None]

    def control_score(self) -> tuple[float | None, bool]:
        """Return the agreement of a pair, None if it cannot be measured, and whether they are relatives."""
        found = self.agreements()
        if not found:
            return None, False
        plain = replace(self.options, depth="standard")
        related = worth_calibrating(found) and _Run(self.candidate, self.base, plain).verdict().related
        return agreement_score(found), bool(related)

    def agreements(self) -> tuple[Evidence, ...]:
        """Measure the agreement of this pair and nothing else."""
        self._pair_tokens()
        stage = self._deep_stage()
        return agreements(self.candidate, self.base, stage.pair, self.tokens)

    def _unrelated(self, control: Model) -> bool:
        """Say whether a model can stand for strangers: comparable, and no relative as far as can be seen."""
        plain = replace(self.options, depth="standard")
        return can_be_control(control.architecture, self.base.architecture) and not any(
            _Run(model, control, plain).verdict().related for model in (self.candidate, self.base)
        )

    def _pair(self, allowance: int) -> Pair:
        return Pair(
            candidate=_side(self.candidate, self.base),
            base=_side(self.base, self.candidate),
            seed=self.options.seed,
            tokens=self.tokens,
            no_tokens=self.no_tokens,
            byte_allowance=allowance,
            n_layers=READING[self.options.depth][1],
        )

    def _dtypes(self, task: Task) -> tuple[str, str]:
        if not task.candidate or not task.base:
            return "", ""
        mine, theirs = task.candidate[0].name, task.base[0].name
        return self.candidate.index[mine].dtype, self.base.index[theirs].dtype

    def _decide(self, stage: str, identity: Identity | None) -> Verdict:
        return decide(
            self.evidence,
            load_rule(),
            candidate=self.candidate.location.ref,
            base=self.base.location.ref,
            stage=stage,
            identity=identity,
            frame=self.deep.frame if self.deep else "identity",
            extra_limitations=(GUESSED,) if self._has_guesses() else (),
        )

    def _unless_fixed(self, found: Evidence, left: Sequence[Array], right: Sequence[Array]) -> Evidence:
        """Leave out equal tables whose role was guessed: they may be random numbers that nobody trained.

        Trained rows that were copied show in other parts as well, or after any further training.
        """
        table = found.component in ("embedding", "head") and self._has_guesses()
        if isinstance(found, Skipped) or not table or not all(map(np.array_equal, left, right)):
            return found
        method = next(method for method in all_methods() if method.card.name == found.method)
        return method.skip(_EQUAL_TABLE, layers=found.layers, role=found.role)

    def _has_guesses(self) -> bool:
        return self.candidate.architecture.guessed or self.base.architecture.guessed

    # -- identity --------------------------------------------------------------------------------------

    def _published_identity(self) -> Identity | None:
        """Compare the digests that sources publish, before a byte of a tensor is read."""
        mine, theirs = (published_digests(model) for model in (self.candidate, self.base))
        if mine and mine == theirs:
            return Identity(all_files_equal=True, how="every file with weights has the same published digest")
        return None

    def _full_identity(self) -> Identity | None:
        """Compare every byte, where nothing read so far differs and that is cheap or was asked for."""
        if self.equality.n_equal < self.equality.n_compared or not self._may_walk():
            return None
        if not same_layout(self.candidate, self.base) or not same_bits(self.candidate, self.base):
            return None
        return Identity(all_files_equal=True, how="every value of every tensor was compared")

    def _may_walk(self) -> bool:
        """Say whether both models may be read from beginning to end, which costs nothing where they lie here.

        Twice at most: for equal bits, and then for what rounding and codes explain.
        """
        sides = self.candidate, self.base
        if self.options.depth != "full" and any(model.fetcher.source.remote for model in sides):
            return False
        budget = self.options.fetch.byte_budget
        return budget is None or all(
            model.fetcher.source.budget.spent + 2 * model.index.n_bytes <= budget for model in sides
        )

    # -- tokens ----------------------------------------------------------------------------------------

    def _pair_tokens(self) -> None:
        # Some weight files hold a tokenizer, which counts as a file of the model.
        sizes = [model.file_size("tokenizer.json") for model in (self.candidate, self.base)]
        vocabularies = [model.architecture.sizes.get("vocab") for model in (self.candidate, self.base)]
        if sizes[0] is None or sizes[1] is None:
            if sizes[0] is sizes[1] and vocabularies[0] is not None and vocabularies[0] == vocabularies[1]:
                self.tokens = equal_rows(
                    vocabularies[0], how="rows of equal number: no tokenizer, equal sizes"
                )
            else:
                self.no_tokens = "a tokenizer.json is missing, so tokens cannot be matched by text"
            return
        if vocabularies[0] and same_file(self.candidate, self.base, "tokenizer.json"):
            smaller = min(size for size in vocabularies if size is not None)
            self.tokens = equal_rows(smaller, how="rows of equal number: both tokenizers are the same file")
            return
        read = [
            read_vocabulary(model.start_of("tokenizer.json", limit=VOCABULARY_BYTES))
            for model in (self.candidate, self.base)
        ]
        if read[0] is None or read[1] is None:
            self.no_tokens = "a tokenizer.json holds no vocabulary of a known form"
            return
        self.tokens = shared_tokens(read[0], read[1])

    # -- what is said beside the verdict ---------------------------------------------------------------

    def _copy_kind(self, verdict: Verdict) -> CopyKind | None:
        """Walk over relatives that may be copies: nothing else is worth the bytes."""
        if not verdict.related or verdict.conclusion is Conclusion.IDENTICAL or not self._may_walk():
            return None
        return kind_of_copy(self.candidate, self.base)

    def _tokenizer(self, *, whole: bool) -> Mapping[str, Cell]:
        sizes = [model.file_size("tokenizer.json") for model in (self.candidate, self.base)]
        return {
            "candidate_has_tokenizer_json": sizes[0] is not None,
            "base_has_tokenizer_json": sizes[1] is not None,
            "same_file": same_file(self.candidate, self.base, "tokenizer.json"),
            "shared_tokens": len(self.tokens) if self.tokens is not None else None,
            "paired": self.tokens.how if self.tokens is not None else self.no_tokens,
            **(self._whole_tokenizers() if whole else {"compared": "no: not at this stage"}),
        }

    def _whole_tokenizers(self) -> Mapping[str, Cell]:
        """Compare whole vocabularies where that costs next to nothing, or much may be read."""
        far = self.candidate.fetcher.source.remote or self.base.fetcher.source.remote
        cheap = far and self.options.depth == "standard"
        # Half, because the beginning may have been read before, for the rows of tokens.
        limit = VOCABULARY_BYTES // 2 if cheap else MAX_TOKENIZER_BYTES
        return tokenizer_record(self.candidate, self.base, limit=limit)

    def _claims(self) -> dict[str, tuple[str, ...]]:
        sides = {"candidate": self.candidate, "base": self.base}
        return {name: said for name, model in sides.items() if (said := read_claims(model).sentences())}

    # -- controls --------------------------------------------------------------------------------------

    def _control(self, control: Model) -> list[ControlResult]:
        results = []
        for model in (self.candidate, self.base):
            run = _Run(model, control, self.options)
            verdict = run.verdict()
            results.append(
                ControlResult(
                    pair=(model.location.ref, control.location.ref),
                    revision=control.location.revision,
                    conclusion=verdict.conclusion.value,
                    effect=verdict.effect,
                    log10_p=verdict.log10_p,
                    usable=verdict.related is False,
                    reason=_control_problem(verdict),
                )
            )
        return results


def _n_pairs(n_controls: int) -> int:
    """Return in how many pairs of models there is a control: with both sides, and among themselves."""
    return 2 * n_controls + n_controls * (n_controls - 1) // 2


def _control_problem(verdict: Verdict) -> str | None:
    if verdict.related:
        return "this control is a relative itself and cannot serve as a negative"
    if verdict.related is None:
        reasons = dict.fromkeys(part.reason for part in verdict.components.values() if part.reason)
        return "; ".join(reason for reason in reasons if reason)
    return None


def _read_both(
    *sides: tuple[Model, list[tuple[TensorSlice, ...]]],
) -> tuple[list[list[Array]], ...]:
    """Read what all tasks want of both models, each in one pass, side by side."""

    def read(model: Model, wanted: list[tuple[TensorSlice, ...]]) -> list[list[Array]]:
        arrays = iter(model.read([item for slices in wanted for item in slices]))
        return [[next(arrays) for _ in slices] for slices in wanted]

    with ThreadPoolExecutor(len(sides)) as pool:
        return tuple(pool.map(lambda side: read(*side), sides))


def _side(model: Model, other: Model) -> Side:
    return Side(
        name=model.location.ref,
        index=model.index,
        architecture=model.architecture,
        updates=bare_updates(model, other),
    )
