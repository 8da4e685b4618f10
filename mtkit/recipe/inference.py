"""The `inference` section: how a trained model translates."""

from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from mtkit.recipe.flags import Flags
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.recipe.precision import InferencePrecisionChoice
from mtkit.recipe.protection import Protect
from mtkit.recipe.section import (
    Count,
    CountFromZero,
    NumProcesses,
    RecipePath,
    Section,
    Seed,
    WordOrFolder,
)

BeamSize = Annotated[int, Field(ge=1, le=1_000)]


class LengthPenalty(Section):
    """What a hypothesis's log-probability is divided by; |y| counts its tokens with `</s>`."""

    kind: Literal["gnmt", "power"] = "gnmt"
    """`gnmt`: ((5 + |y|) / 6)^alpha (arXiv 1609.08144, equation 14); `power`: |y|^alpha."""
    alpha: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """Strength; 0 compares plain log-probabilities, which favours short output."""


class Sampling(Section):
    """Samples outputs instead of searching for the most probable one.

    The temperature is applied first, then `top_k`, then `top_p`, then `epsilon`.
    """

    temperature: Annotated[float, Field(ge=0.001, le=1_000.0)] = 1.0
    """Logits are divided by it: below 1 makes probable tokens more probable, above 1 less."""
    top_k: Count | None = None
    """Sample among this many of the most probable tokens; default: among all (arXiv 1805.04833)."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Sample among the fewest tokens that together have this much probability (arXiv
    1904.09751)."""
    epsilon: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Sample among the tokens with at least this much probability, or the most probable one (arXiv
    2210.15191, section 3); candidates for minimum Bayes risk are often drawn with 0.02."""
    seed: Seed = 1
    """Seed; with the line's number it decides what is sampled for that line, whatever the lines
    around it."""


UtilityMetric = Literal["chrf", "bleu"]


class RerankModel(Section):
    """Another model whose score of a candidate counts in `rerank`."""

    path: RecipePath
    """Its model folder. A model of the same languages scores the candidate given the line, one of
    the other direction the line given the candidate (noisy channel, arXiv 1908.05731). In a
    recipe relative to `data.data_root`."""
    weight: Annotated[float, Field(ge=-1_000.0, le=1_000.0)] = 1.0
    """What its log-probability per token is multiplied by."""


class Rerank(Section):
    """Minimum Bayes risk: the translation is the candidate that is most like all others.

    A candidate's utility is its mean sentence score against all candidates of its line, itself
    included, each as a reference (arXiv 2108.04718); by a metric without references it is its
    score. Translations are ordered by utility, then by log-probability, each text once. With
    `models`, or a `translator_weight`, they are ordered by a weighted sum; `mtkit tune` finds the
    weights.
    """

    metric: Annotated[str, WordOrFolder(*get_args(UtilityMetric))] = "chrf"
    """Sentence score by sacreBLEU's defaults: chrF2, or BLEU of words (`13a`), over the n-gram
    orders that a candidate is long enough for. Or the path of a learned metric that `mtkit import`
    wrote, with a slash; it isn't saved with the model."""
    candidates: BeamSize | None = None
    """Candidates per line, of which `n_best` are returned; default: `beam_size`, or 32 samples. A
    sample counts as often as it was drawn."""
    aggregate: bool = False
    """Score against a single reference with the mean n-gram counts of all candidates (arXiv
    2402.04251): faster with hundreds of candidates."""
    prune: Count | None = None
    """Score this many of the best by `aggregate` again, against each candidate, and drop the
    others; at least `n_best`. Default: none."""
    utility_weight: Annotated[float, Field(ge=-1_000.0, le=1_000.0)] = 1.0
    """What the utility, in points, is multiplied by; with 0 it isn't computed."""
    translator_weight: Annotated[float, Field(ge=-1_000.0, le=1_000.0)] = 0.0
    """What the translator's own log-probability per token is multiplied by."""
    models: tuple[RerankModel, ...] = Field(default=(), max_length=8)
    """Other models whose scores are added; not saved with the model."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (self.utility_weight or self.translator_weight or self.models):
            raise ValueError("all weights are 0: give one, or models")
        if self.prune is not None and not self.aggregate:
            raise ValueError("prune keeps the best by aggregate: set aggregate to true")
        has_weights = bool(self.models or self.translator_weight or self.utility_weight < 0.0)
        if self.prune is not None and has_weights:
            raise ValueError(
                "prune drops candidates by utility alone: it can't be used with models"
            )
        if self.is_learned and self.aggregate:
            raise ValueError("aggregate is for chrf and bleu: a learned metric counts no n-grams")
        return self

    @property
    def is_learned(self) -> bool:
        """Whether the metric is a folder."""
        return self.metric not in get_args(UtilityMetric)

    @property
    def paths(self) -> frozenset[Path]:
        """Folders of `models`."""
        return frozenset(model.path for model in self.models)

    @property
    def folders(self) -> frozenset[str]:
        """Folders of other models, which a model folder can't hold."""
        named = set(map(str, self.paths))
        return frozenset(named | {self.metric} if self.is_learned else named)


_NUM_SAMPLES = 32
"""Samples that `rerank` has by default."""
Engine = Literal["auto", "torch"]
"""Values of a key."""


class Fusion(Section):
    """Shallow fusion (arXiv 1503.03535, section 4.1): a language model helps to choose each token.

    Outputs are ranked by the translator's log-probability plus `weight` times that of a causal
    language model of the target language, which has the translator's target vocabulary.
    """

    model: RecipePath
    """Its model folder, in a recipe relative to `data.data_root`."""
    weight: Annotated[float, Field(ge=0.0, le=10.0)] = 0.1
    """What the language model's log-probabilities are multiplied by; 0 leaves the search alone."""


class GlossarySection(Section):
    """Terms with their translations, which `mtkit translate` uses and reports."""

    path: RecipePath | None = None
    """A UTF-8 file, one term per line: source, tab, target, and optionally `case_sensitive` or
    `forbidden`. In a recipe relative to `data.data_root`. Without one, only
    requests have terms."""
    way: Literal["auto", "annotation", "constraints", "both"] = "auto"
    """How terms get into a translation. `annotation`: the model reads them after their sources,
    and inflects them, if it was trained with `data.augment.terms`. `constraints`: a line whose
    translation lacks one is searched again among outputs that contain it in the form that the
    glossary has. `both`: by annotation first, and a line that still lacks one is searched
    again. `auto`: `annotation` for a model that was trained so, else `constraints`."""


class Quality(Section):
    """Estimates each translation's quality, and releases those whose errors are bounded.

    Labels of right and wrong translations give the estimate (`mtkit calibrate`). A translation is
    released if its estimate is at least a threshold; at most the share `risk` of those is wrong.
    """

    path: RecipePath
    """The file that `mtkit calibrate` writes, in a recipe relative to `data.data_root`."""
    risk: Annotated[float, Field(ge=0.001, le=0.5)] = 0.05
    """Maximum share of the released translations that is wrong."""
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = 0.95
    """Probability of that, over the draw of the labels."""
    reverse: RecipePath | None = None
    """Model folder of a translator of the other direction, whose scores of the line given its
    translation are part of the estimate."""
    metric: RecipePath | None = None
    """Folder of a learned metric without references, such as CometKiwi (`mtkit import`): its score
    is part of the estimate."""
    samples: Annotated[int, Field(ge=0, le=1_000)] = 0
    """`mtkit calibrate`: samples per line, whose agreement with the translation is part of the
    estimate; they take as long as a beam of as many hypotheses."""


class Inference(Section):
    """Decoding defaults; they are saved with the model (paper, section 6.1)."""

    engine: Annotated[Engine, Invalidates.NOTHING] = "auto"
    """What runs the network. `auto`: on a CPU mtkit's engine in C++, which has all but a few kinds
    of networks, else PyTorch. `torch`: PyTorch."""
    precision: Annotated[InferencePrecisionChoice, Invalidates.NOTHING] = "auto"
    """Arithmetic; `auto`: bf16 on devices that multiply in bf16, but on a CPU fp32 for
    networks narrower than 256; else fp32. `int8`: on a CPU, products of 8-bit integers, each output
    of a weight and each token's vector scaled on its own, with exact sums."""
    allow_int8: Annotated[bool, Invalidates.NOTHING] = False
    """Whether `precision = "auto"` takes `int8` on a CPU that is faster in it; a few translations
    change."""
    beam_size: Annotated[BeamSize, Invalidates.TRANSLATIONS] = 4
    """Hypotheses kept per sentence; 1 is greedy search."""
    n_best: Annotated[BeamSize, Invalidates.TRANSLATIONS] = 1
    """Translations per line, best first; at most `beam_size`, unless they are sampled."""
    length_penalty: LengthPenalty = LengthPenalty()
    """How hypotheses of different lengths are compared."""
    coverage_penalty: Annotated[float, Field(ge=0.0, le=1_000.0)] = 0.0
    """Strength of a penalty on source tokens that received too little attention (arXiv 1609.08144,
    equation 14: beta)."""
    stop_margin: CountFromZero = 5
    """A line's beam search ends when no unfinished hypothesis could beat the finished ones within
    this many more tokens, even if each of those had probability 1. With a number as large as the
    maximum output length the search is exact; with 0 as many outputs as beams must have ended, as
    with `early_stopping = false` in transformers."""
    min_length: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Minimum output length in tokens, `</s>` not counted."""
    no_repeat_ngram: Count | None = None
    """No sequence of this many tokens occurs twice in an output."""
    sampling: Annotated[Sampling | None, Invalidates.TRANSLATIONS] = None
    """Sample outputs instead of using a beam."""
    rerank: Annotated[Rerank | None, Invalidates.TRANSLATIONS] = None
    """Choose among several candidates by minimum Bayes risk; `{}` for all outputs of the beam."""
    fusion: Annotated[Fusion | None, Invalidates.TRANSLATIONS] = None
    """A language model that helps to choose each token; not saved with the model."""
    glossary: Annotated[GlossarySection | None, Invalidates.TRANSLATIONS] = None
    """How terms are to be translated; not saved with the model."""
    alignments: Annotated[bool, Invalidates.NOTHING] = False
    """Link the words of a translation to those of its line, in `--json` and from Python. Without a
    word aligner (`data.word_aligner`) this takes one more pass of the network per line."""
    flags: Annotated[Flags | None, Invalidates.NOTHING] = None
    """Flag translations that look wrong, in `--json`, by the server and from Python."""
    quality: Annotated[Quality | None, Invalidates.NOTHING] = None
    """Estimate the quality of translations, in `--json`, by the server, from Python, and in PO and
    XLIFF; not saved with the model."""
    protect: Annotated[Protect | None, Invalidates.TRANSLATIONS] = None
    """Check that numbers, addresses, placeholders and the like come out as they went in, and
    translate a line in another way where they don't; `{}` for all kinds."""
    protect_strings: Annotated[bool, Invalidates.NOTHING] = True
    """Protect all kinds without `protect`, too, in documents whose texts are a program's strings:
    PO, XLIFF, JSON, YAML, Android's resources."""
    paragraphs: Annotated[Paragraphs | None, Invalidates.TRANSLATIONS] = None
    """Translate a line of several sentences sentence by sentence; `{}` to do so. Documents and the
    server's `/translate` always do."""
    max_extra_tokens: Annotated[int, Field(ge=0, le=10_000)] = 50
    """Maximum output length: the source's length in tokens, or `min_length` if that is more, plus
    this many. For a language model: maximum number of tokens that it adds to a line."""
    max_output_tokens: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Maximum output length in tokens, `</s>` counted, however long the source is; default: none
    but `max_extra_tokens`. Public models bring their own."""
    max_source_tokens: Annotated[int, Field(ge=8, le=100_000)] = 256
    """A line with more tokens is split at ends of sentences or clauses, and its translations are
    joined again."""
    batch_tokens: Annotated[int, Field(ge=1, le=1_000_000), Invalidates.NOTHING] = 4_096
    """Source tokens per batch, padding included: per thread in mtkit's engine, in total in
    PyTorch. Affects only speed and memory."""
    processes: Annotated[NumProcesses, Invalidates.NOTHING] = "auto"
    """Lines are searched on a CPU in this many threads; `auto`: one per core. Affects only speed
    and memory."""

    @property
    def without_paths(self) -> "Inference":
        """These settings without paths of other files, which mean nothing in a copy."""
        changes: dict[str, object] = {"fusion": None, "glossary": None, "quality": None}
        if self.rerank is not None and self.rerank.folders:
            changes["rerank"] = None
        return self.model_copy(update=changes)

    @property
    def num_kept(self) -> int:
        """Finished hypotheses that a line's beam search keeps, which decide when it ends."""
        keeps_all = self.stop_margin == 0 and self.sampling is None
        return self.beam_size if keeps_all else self.n_best

    @property
    def num_candidates(self) -> int:
        """Outputs that a search returns: `n_best`, or the candidates that `rerank` compares."""
        if self.rerank is None:
            return self.n_best
        candidates = self.rerank.candidates
        if self.sampling is None:
            # A request may have lowered the beam size.
            candidates = min(candidates or self.beam_size, self.beam_size)
        return max(self.n_best, candidates or _NUM_SAMPLES)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.sampling is None and self.n_best > self.beam_size:
            raise ValueError(
                f"n_best = {self.n_best} is greater than beam_size = {self.beam_size}: "
                "raise beam_size"
            )
        candidates = None if self.rerank is None else self.rerank.candidates
        if candidates is not None and self.n_best > candidates:
            raise ValueError(
                f"n_best = {self.n_best} is greater than rerank.candidates = {candidates}: "
                "raise rerank.candidates"
            )
        if candidates is not None and self.sampling is None and candidates > self.beam_size:
            raise ValueError(
                f"rerank.candidates = {candidates} is greater than beam_size = {self.beam_size}: "
                "raise beam_size, or sample with inference.sampling"
            )
        if self.sampling is not None and self.coverage_penalty > 0.0:
            raise ValueError(
                "coverage_penalty ranks hypotheses of a beam: it can't be used with sampling"
            )
        if self.sampling is not None and self.glossary is not None:
            raise ValueError("glossary needs a beam: it can't be used with sampling")
        return self
