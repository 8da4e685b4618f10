"""How an export translates beside the model that it was made from: quality and speed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.console import warn
from mtkit.errors import MtkitError
from mtkit.evaluation.scores import score_corpus
from mtkit.inference.engines.batched_search import search_in_batches
from mtkit.inference.engines.engine import EncodedSource, Engine
from mtkit.inference.hypothesis import Hypothesis
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer

MAX_LOSS = 1.0
"""A quantized model that loses more BLEU than this against references is refused."""
MIN_AGREEMENT = 70.0
"""Without references, one whose output has less BLEU than this against torch's is warned of."""


@dataclass(frozen=True)
class EngineComparison:
    """How two engines translate the same lines, each with its own arithmetic.

    Attributes:
        num_lines: Lines translated.
        num_equal: Of these, lines with the same translation.
        agreement: BLEU of the candidate's translations against the reference engine's.
        bleu: BLEU of the reference engine's and of the candidate's translations against people's;
            None where there are none.
        lines_per_second: Speed of the reference engine and of the candidate.
    """

    num_lines: int
    num_equal: int
    agreement: float
    bleu: tuple[float, float] | None
    lines_per_second: tuple[float, float]

    def describe(self) -> list[str]:
        """Returns lines on quality and speed."""
        lines = [
            f"same translation as torch on {self.num_equal} of {self.num_lines} lines, "
            f"{self.agreement:.1f} BLEU against torch's"
        ]
        if self.bleu is not None:
            lines.append(
                f"against the references: torch {self.bleu[0]:.1f} BLEU, "
                f"ctranslate2 {self.bleu[1]:.1f}"
            )
        torch_speed, speed = self.lines_per_second
        lines.append(
            f"speed here: torch {torch_speed:.1f} lines/s, ctranslate2 {speed:.1f} lines/s"
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
) -> EngineComparison:
    """Returns how two engines translate the same lines, and how quickly.

    Args:
        reference: One engine.
        candidate: The other.
        tokenizer: Tokenizer of the model's text.
        lines: Source lines, none of them blank.
        references: Their translations by people; empty where there are none.
        settings: How to search.
        evaluation: How BLEU sees text.
    """
    sources = tokenizer.encode_source(lines)
    texts: list[list[str]] = []
    speeds = []
    for engine in (reference, candidate):
        # An engine's first use, which sets it up, is no part of its speed.
        _search_all(engine, sources[:1], settings)
        start = time.perf_counter()
        outputs = _search_all(engine, sources, settings)
        speeds.append(len(lines) / (time.perf_counter() - start))
        texts.append([tokenizer.decode_target(hypotheses[0].token_ids) for hypotheses in outputs])
    return EngineComparison(
        num_lines=len(lines),
        num_equal=sum(one == other for one, other in zip(*texts, strict=True)),
        agreement=_score_bleu(texts[1], texts[0], evaluation),
        bleu=(
            _score_bleu(texts[0], references, evaluation),
            _score_bleu(texts[1], references, evaluation),
        )
        if references
        else None,
        lines_per_second=(speeds[0], speeds[1]),
    )


def _score_bleu(texts: Sequence[str], references: Sequence[str], evaluation: Evaluation) -> float:
    bleu_alone = evaluation.model_copy(update={"metrics": ("bleu",)})
    return score_corpus(texts, [references], bleu_alone)[0].value


def check_quality(comparison: EngineComparison, quantization: str) -> None:
    """Checks that an export is good enough; warns where it may not be.

    Raises:
        MtkitError: It translates worse than what it was made from.
    """
    hint = "export with --quantization float32, or compare on more lines: --lines FILE"
    if comparison.bleu is not None:
        ours, theirs = comparison.bleu
        if ours - theirs > MAX_LOSS:
            raise MtkitError(
                f"{quantization}: {theirs:.1f} BLEU where torch has {ours:.1f} on "
                f"{comparison.num_lines} lines: a loss of more than {MAX_LOSS:g}; nothing was "
                "exported",
                hint,
            )
    elif comparison.agreement < MIN_AGREEMENT:
        warn(
            f"{quantization}: the output has {comparison.agreement:.1f} BLEU against torch's, less "
            f"than {MIN_AGREEMENT:g}: look at it before you use it"
        )


def _search_all(
    engine: Engine, sources: Sequence[Sequence[int]], settings: Inference
) -> list[list[Hypothesis]]:
    return search_in_batches(engine, [EncodedSource(source) for source in sources], settings)
