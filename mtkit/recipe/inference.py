"""The `inference` section: how a trained model translates."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.precision import PrecisionChoice
from mtkit.recipe.section import Count, CountFromZero, NumProcesses, Section, Seed

BeamSize = Annotated[int, Field(ge=1, le=1_000)]


class LengthPenalty(Section):
    """What a hypothesis's log-probability is divided by; |y| counts its tokens with `</s>`."""

    kind: Literal["gnmt", "power"] = "gnmt"
    """`gnmt`: ((5 + |y|) / 6)^alpha (arXiv 1609.08144, equation 14); `power`: |y|^alpha."""
    alpha: Annotated[float, Field(ge=0.0, le=10.0)] = 0.6
    """Strength; 0 compares plain log-probabilities, which favours short output."""


class Sampling(Section):
    """Samples outputs instead of searching for the likeliest.

    First the temperature is applied, then `top_k`, then `top_p`.
    """

    temperature: Annotated[float, Field(ge=0.001, le=1_000.0)] = 1.0
    """Logits are divided by it: below 1 makes likely tokens likelier, above 1 less likely."""
    top_k: Count | None = None
    """Draw among this many likeliest tokens; default: among all (arXiv 1805.04833)."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Draw among the fewest tokens that hold this much probability (arXiv 1904.09751)."""
    seed: Seed = 1
    """With a line's number it decides what is drawn for that line, whatever its neighbours."""


class Inference(Section):
    """Decoding defaults; they travel with the model (paper, section 6.1)."""

    engine: Annotated[Literal["torch", "ctranslate2"], Invalidates.NOTHING] = "torch"
    """What runs the network: `torch`, or `ctranslate2` on what `mtkit export` made."""
    precision: Annotated[PrecisionChoice, Invalidates.NOTHING] = "auto"
    """Of `torch`'s arithmetic; `auto`: bf16 where the device multiplies in it, but on a processor
    fp32 for networks narrower than 256; else fp32."""
    beam_size: Annotated[BeamSize, Invalidates.TRANSLATIONS] = 4
    """Hypotheses kept per sentence; 1 is greedy search."""
    n_best: Annotated[BeamSize, Invalidates.TRANSLATIONS] = 1
    """Translations given per line, best first; at most `beam_size`, unless they are sampled."""
    length_penalty: LengthPenalty = LengthPenalty()
    """How hypotheses of different lengths are compared."""
    coverage_penalty: Annotated[float, Field(ge=0.0, le=1_000.0)] = 0.0
    """Strength of a penalty on source tokens that were paid too little attention (arXiv 1609.08144,
    equation 14: beta)."""
    stop_margin: CountFromZero = 5
    """A beam search ends for a line when no output that still grows could beat those that have
    ended within this many more tokens, were they certain. A number as great as an output's limit
    makes it exact: none could ever."""
    min_length: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Fewest tokens of an output, `</s>` not counted."""
    no_repeat_ngram: Count | None = None
    """No sequence of this many tokens comes twice in an output."""
    sampling: Annotated[Sampling | None, Invalidates.TRANSLATIONS] = None
    """Samples outputs instead of a beam."""
    max_extra_tokens: Annotated[int, Field(ge=0, le=10_000)] = 50
    """Maximum output length: that of the source in tokens, plus this many."""
    max_source_tokens: Annotated[int, Field(ge=8, le=100_000)] = 256
    """A line of more tokens is split at ends of sentences or clauses, and joined again."""
    batch_tokens: Annotated[int, Field(ge=1, le=1_000_000), Invalidates.NOTHING] = 4_096
    """Source tokens with padding translated at the same time, by all threads of `ctranslate2`
    together; speed and memory alone depend on it."""
    processes: Annotated[NumProcesses, Invalidates.NOTHING] = "auto"
    """Processes that `torch` shares lines out among, on a CPU under Linux; `auto`: one for each
    core, 16 at most. Speed and memory alone depend on it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.sampling is None and self.n_best > self.beam_size:
            raise ValueError(
                f"n_best = {self.n_best}, but a beam of {self.beam_size} finds no more than that: "
                "raise beam_size"
            )
        if self.sampling is not None and self.coverage_penalty > 0.0:
            raise ValueError("a coverage_penalty ranks hypotheses of a beam: sampling has none")
        return self
