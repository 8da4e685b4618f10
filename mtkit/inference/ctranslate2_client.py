"""Runs CTranslate2 itself, to compare an export with its model."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mtkit.cpus import count_threads
from mtkit.inference.engines.engine import EncodedSource, find_limit
from mtkit.inference.search.penalties import leave_out_beginning, length_penalty
from mtkit.inference.translation import Hypothesis
from mtkit.model.exporters.ctranslate2 import load_library
from mtkit.model.exporters.ctranslate2_files import LENGTH_KEY, OWN_CONFIG_FILE, VOCABULARY_FILES
from mtkit.paths import for_library
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS, EOS, PAD

_SENTENCES, _SCORED_TOKENS = 32, 2_048
"""Batch sizes per thread; scoring keeps the logits of all tokens in memory."""
_NO_PENALTY = 1e-9
"""|y| to this power is 1 in fp32. CTranslate2 has another stopping rule if alpha is 0."""


class CTranslate2Client:
    """A CPU engine with plain beam search; no source may be empty.

    Its search excludes `<pad>` and `<s>` before the softmax, ours after it: scores shift by
    the probability of those. Outputs of different lengths compete by log-probability / |y|^alpha.

    Args:
        folder: CTranslate2's files, as `mtkit export` has just written them.
        stops_early: A search ends once `beam_size` outputs have ended; otherwise only at the length
            limit, which is slow, with the same results as our search.
    """

    def __init__(self, folder: Path, *, stops_early: bool = True) -> None:
        self._stops_early = stops_early
        self.max_tokens: int = _read_json(folder / OWN_CONFIG_FILE)[LENGTH_KEY]
        shared, *of_sides = (folder / name for name in VOCABULARY_FILES)
        paths = [shared, shared] if shared.is_file() else of_sides
        self._source_names, self._target_names = map(_read_json, paths)
        self._target_ids = {name: token for token, name in enumerate(self._target_names)}
        self.batches_at_once = count_threads()
        with for_library(folder) as readable:
            self._translator = load_library().Translator(
                str(readable), device="cpu", inter_threads=count_threads(), intra_threads=1
            )

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as were found."""
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, source in enumerate(sources):
            limit = find_limit(source, settings, self.max_tokens)
            groups[limit, len(source.forced)].append(index)
        found: dict[int, list[Hypothesis]] = {}
        for (limit, _), group in groups.items():
            outputs = self._search([sources[index] for index in group], settings, limit)
            found.update(zip(group, outputs, strict=True))
        return [found[index] for index in range(len(sources))]

    def _search(
        self, sources: Sequence[EncodedSource], settings: Inference, limit: int
    ) -> list[list[Hypothesis]]:
        """Searches sources with the same limit and the same number of forced tokens."""
        penalty = settings.length_penalty
        # CTranslate2 divides by |y| to this power.
        alpha = penalty.alpha or _NO_PENALTY
        to_limit = not self._stops_early and settings.beam_size > 1
        results = self._translator.translate_batch(
            [_name(source.tokens, self._source_names) for source in sources],
            target_prefix=[_name(source.forced, self._target_names) for source in sources]
            if sources[0].forced
            else None,
            max_batch_size=_SENTENCES,
            max_input_length=0,
            beam_size=settings.beam_size,
            num_hypotheses=settings.beam_size,
            # At most `beam_size` end at each step.
            patience=limit + 1 if to_limit else 1,
            length_penalty=alpha,
            no_repeat_ngram_size=settings.no_repeat_ngram or 0,
            min_decoding_length=min(settings.min_length, limit),
            max_decoding_length=limit,
            suppress_sequences=[[self._target_names[PAD]], [self._target_names[BOS]]],
            return_scores=True,
            return_end_token=True,
        )
        found = []
        for source, result in zip(sources, results, strict=True):
            hypotheses = []
            for names, score in zip(result.hypotheses, result.scores, strict=True):
                tokens = tuple([self._target_ids[name] for name in names])
                total = score * len(tokens) ** alpha
                divisor = length_penalty(penalty.kind, penalty.alpha, len(tokens))
                is_finished = tokens[-1] == EOS
                hypotheses.append(Hypothesis(tokens, total, total / divisor, is_finished))
            best = sorted(hypotheses, key=lambda one: -one.score)[: settings.n_best]
            found.append([leave_out_beginning(each, len(source.begin)) for each in best])
        return found

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the natural log-probability of each token of each given target."""
        results = self._translator.score_batch(
            [_name(tokens, self._source_names) for tokens in source_batch],
            [_name(tokens, self._target_names) for tokens in target_batch],
            max_input_length=0,
            max_batch_size=_SCORED_TOKENS,
            batch_type="tokens",
        )
        # CTranslate2 appends its own </s> to each target.
        return [
            list(result.log_probs[: len(target)])
            for result, target in zip(results, target_batch, strict=True)
        ]


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _name(tokens: Sequence[int], names: Sequence[str]) -> list[str]:
    return [names[token] for token in tokens]
