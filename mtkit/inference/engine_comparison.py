"""Checks that an exported model translates as the original does.

Parity: both searches find the same outputs in fp32. Quality: the export has its own precision.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.evaluation.scores import score_corpus
from mtkit.inference.engines.engine import EncodedSource, Engine, search_in_batches
from mtkit.inference.search.penalties import length_penalty
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.text.languages import NO_MARKS, LanguageTokens
from mtkit.text.tokenizer import SubwordTokenizer

MAX_GAP = 1e-3
"""Largest difference allowed between two engines' scores of the same output, in fp32."""
NEAR_TIE = 1e-4
"""Outputs whose scores are this close may swap ranks."""
MAX_SHARE_DIFFERENT = 0.02
"""Share of lines (at least one line) that may differ by more than near-ties: if two candidates
were almost equal at one step, everything after it differs."""

_MAX_TRAINED_SHIFT = 1e-2
"""With a trained model, the probability of <pad> and <s> shifts scores by less than this."""
_EXTRA_TOKENS = 10
"""A search that ends only at the length limit is slow."""
MAX_LOSS = 1.0
"""A quantized model that loses more BLEU than this against references is rejected."""
MIN_AGREEMENT = 70.0
"""Without references, a lower BLEU against mtkit's output gives a warning."""


@dataclass(frozen=True)
class Parity:
    """How an engine's outputs compare with another library's.

    Attributes:
        library: The name of the other library.
        num_near_ties: Lines where outputs with almost equal scores swap ranks.
        num_different: Lines that differ by more.
        largest_gap: Largest difference between the two scores of an output.
        largest_shift: Largest difference between an output's score in the other library's search
            and the score that its model gives it.
    """

    library: str
    num_lines: int
    num_near_ties: int
    num_different: int
    largest_gap: float
    largest_shift: float

    def describe(self) -> str:
        """Returns the comparison as one line."""
        num_equal = self.num_lines - self.num_near_ties - self.num_different
        shifted = (
            f", and by at most {self.largest_shift:.1e} in its search, which excludes <pad> and <s>"
        )
        return (
            f"{self.library} in float32: the same outputs on {num_equal} of {self.num_lines} "
            f"lines, {self.num_near_ties} differ only by near-ties, {self.num_different} by more; "
            f"scores of the same output differ by at most {self.largest_gap:.1e}"
            f"{shifted if self.largest_shift else ''}"
        )


def exact_settings(settings: Inference, sources: Sequence[Sequence[int]]) -> Inference:
    """Returns settings for exact search, with the whole beam as n-best list.

    The length penalty has the power form, which all engines have.
    """
    return Inference(
        beam_size=settings.beam_size,
        n_best=settings.beam_size,
        length_penalty=LengthPenalty(kind="power", alpha=settings.length_penalty.alpha),
        max_extra_tokens=min(settings.max_extra_tokens, _EXTRA_TOKENS),
        stop_margin=max(map(len, sources), default=0) + _EXTRA_TOKENS,
        batch_tokens=settings.batch_tokens,
    )


def check_parity(
    reference: Engine,
    candidate: Engine,
    sources: Sequence[Sequence[int]],
    settings: Inference,
    *,
    library: str,
    num_compared: int,
    marks: LanguageTokens = NO_MARKS,
) -> Parity:
    """Returns how both engines' outputs compare, or raises an MtkitError if they differ.

    Both engines have the same weights in fp32 and search in the same way. The length penalty of
    `settings` has the power form. Each source ends with `</s>`. The best `num_compared` outputs of
    a line are compared.
    """
    encoded = [_mark(source, marks) for source in sources]
    expected, found = (
        search_in_batches(engine, encoded, settings) for engine in (reference, candidate)
    )
    gaps, shifts = [0.0], [0.0]
    num_near_ties = num_different = 0
    num_begun = len(marks.begin)
    for source, ours, theirs in zip(encoded, expected, found, strict=True):
        wanted, given = ours[:num_compared], theirs[:num_compared]
        exact = [
            sum(each[num_begun:])
            / length_penalty("power", settings.length_penalty.alpha, len(each))
            for each in candidate.score(
                [source.tokens] * (len(wanted) + len(given)),
                [(*marks.begin, *hypothesis.token_ids) for hypothesis in chain(wanted, given)],
            )
        ]
        _refuse_diverged(exact)
        gaps += [abs(h.score - score) for h, score in zip(wanted, exact, strict=False)]
        # A search that excludes <pad> and <s> before the softmax ranks by slightly other scores.
        of_given = exact[len(wanted) :]
        shift = max(
            (abs(h.score - score) for h, score in zip(given, of_given, strict=True)), default=0.0
        )
        shifts.append(shift)
        if [h.token_ids for h in wanted] == [h.token_ids for h in given]:
            continue
        if _are_near_ties(wanted, given, of_given, shift):
            num_near_ties += 1
        else:
            num_different += 1
    parity = Parity(library, len(sources), num_near_ties, num_different, max(gaps), max(shifts))
    _refuse_unequal(parity)
    return parity


def _mark(source: Sequence[int], marks: LanguageTokens) -> EncodedSource:
    return EncodedSource([*marks.before, *source, *marks.behind], begin=marks.begin)


def _are_near_ties(
    wanted: Sequence[Hypothesis],
    given: Sequence[Hypothesis],
    exact: Sequence[float],
    shift: float,
) -> bool:
    """Checks that two lists differ only where scores are almost equal."""
    # `exact` are the model's scores of `given`, whose ranking used scores at most `shift` away.
    return len(wanted) == len(given) and all(
        ours.token_ids == theirs.token_ids or abs(ours.score - score) < NEAR_TIE + shift
        for ours, theirs, score in zip(wanted, given, exact, strict=True)
    )


def _refuse_diverged(scores: Sequence[float]) -> None:
    if any(map(math.isnan, scores)):
        raise MtkitError(
            "the model's probabilities are NaN; nothing was exported",
            "its training diverged: use an earlier checkpoint, or train with a lower learning rate",
        )


def _refuse_unequal(parity: Parity) -> None:
    hint = f"please report this, with the model's config.json and the version of {parity.library}"
    if not parity.largest_gap <= MAX_GAP:
        raise MtkitError(
            f"parity check failed: scores of the same output differ by {parity.largest_gap:.2g}, "
            f"more than {MAX_GAP:g}; nothing was exported",
            hint,
        )
    if parity.num_different <= max(1, MAX_SHARE_DIFFERENT * parity.num_lines):
        return
    different = f"{parity.num_different} of {parity.num_lines} lines have different outputs"
    if parity.largest_shift > _MAX_TRAINED_SHIFT:
        warn(
            f"{different}: the model gives high probability to <pad> and <s>, which the two "
            "engines treat differently; it is barely trained"
        )
        return
    raise MtkitError(
        f"parity check failed: {different} that aren't near-ties; nothing was exported", hint
    )


@dataclass(frozen=True)
class EngineComparison:
    """How a model in fp32 and its export translate the same lines.

    Attributes:
        agreement: BLEU of the candidate's translations against the reference engine's.
        bleu: BLEU of the reference engine's and of the candidate's translations against human
            references; None without references.
    """

    num_lines: int
    num_equal: int
    agreement: float
    bleu: tuple[float, float] | None

    def describe(self) -> list[str]:
        """Returns the comparison as lines."""
        lines = [
            f"same translation as mtkit on {self.num_equal} of {self.num_lines} lines, "
            f"{self.agreement:.1f} BLEU against mtkit's"
        ]
        if self.bleu is not None:
            lines.append(
                f"against the references: mtkit {self.bleu[0]:.1f} BLEU, "
                f"ctranslate2 {self.bleu[1]:.1f}"
            )
        return lines


def compare_engines(
    reference: Engine,
    candidate: Engine,
    tokenizer: SubwordTokenizer,
    lines: Sequence[str],
    references: Sequence[str],
    *,
    settings: Inference,
    evaluation: Evaluation,
    marks: LanguageTokens = NO_MARKS,
) -> EngineComparison:
    """Returns how two engines translate the same non-blank lines."""
    sources = [_mark(source, marks) for source in tokenizer.encode_source(lines)]
    texts: list[list[str]] = []
    for engine in (reference, candidate):
        outputs = search_in_batches(engine, sources, settings)
        texts.append([tokenizer.decode_target(hypotheses[0].token_ids) for hypotheses in outputs])
    scores = [_score_bleu(of_engine, references, evaluation) for of_engine in texts if references]
    return EngineComparison(
        num_lines=len(lines),
        num_equal=sum(one == other for one, other in zip(*texts, strict=True)),
        agreement=_score_bleu(texts[1], texts[0], evaluation),
        bleu=(scores[0], scores[1]) if references else None,
    )


def _score_bleu(texts: Sequence[str], references: Sequence[str], evaluation: Evaluation) -> float:
    bleu_alone = evaluation.model_copy(update={"metrics": ("bleu",)})
    return score_corpus(texts, [references], bleu_alone)[0].value


def check_quality(comparison: EngineComparison, quantization: str) -> None:
    """Warns if an export may be worse than its original, and raises an MtkitError if it is."""
    hint = "export with --quantization float32, or compare on more lines: --lines FILE"
    if comparison.bleu is not None:
        ours, theirs = comparison.bleu
        if ours - theirs > MAX_LOSS:
            raise MtkitError(
                f"{quantization}: {theirs:.1f} BLEU against mtkit's {ours:.1f} on "
                f"{comparison.num_lines} lines, a loss of more than {MAX_LOSS:g}; nothing was "
                "exported",
                hint,
            )
    elif comparison.agreement < MIN_AGREEMENT:
        warn(
            f"{quantization}: the output has {comparison.agreement:.1f} BLEU against mtkit's, less "
            f"than {MIN_AGREEMENT:g}: check it before you use it"
        )
