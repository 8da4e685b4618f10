"""CTranslate2's search, adapted so that it finds what ours finds.

Its beam search works like ours (mtkit/inference/search/beam.py), with three differences.

It stops once `beam_size` outputs have ended. Ours stops when none would improve within
`stop_margin` tokens. Either may miss a longer output that would have overtaken these.

It excludes tokens (`<pad>`, `<s>`, and any that a setting forbids) before the softmax, ours after
it: the remaining tokens share the excluded probability. That is negligible for `<pad>` and `<s>`,
but large for an early `</s>`. So if a setting forbids tokens, the outputs are scored again and
ranked by the model's own probabilities. The same holds after a prefix, whose tokens CTranslate2
treats as certain.

It compares outputs of different lengths by log-probability / |y|^alpha only. With
`length_penalty.kind = "gnmt"` it finds the same outputs, since their ends depend only on
probabilities, and we rank them by the GNMT form. If more than `beam_size` have ended when the
search stops, the power form decides which ones are dropped.

With a coverage penalty it translates one sentence at a time, which takes longer. Its own penalty
ignores source tokens without any attention, so an output that omits more could look better. We
therefore rank by our penalty; its own only decides which surplus outputs are dropped.

Alignment weights come with the search, with one exception: for several sentences, its beam search
(4.8.5) returns the first step's attention of a wrong one. A head that is read where a token is
predicted needs that step, which then runs once more. A head that is read where a token is the input
doesn't.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, TypeVar

from mtkit.inference.engines.engine import EncodedSource, find_limit, make_batches, restore_order
from mtkit.inference.search.penalties import MIN_COVERAGE, leave_out_beginning, length_penalty
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import EOS

if TYPE_CHECKING:
    from mtkit.inference.engines.ctranslate2_engine import CTranslate2Engine

_NO_PENALTY = 1e-9
"""|y| to this power is 1 in fp32. CTranslate2 ends a search by another rule if alpha is 0."""
_NEVER = -1e9
"""CTranslate2 gives hypotheses that compete with a prefix less than this."""
_MIN_SHARD, _MAX_SHARD = 8, 32
"""Sentences that a thread translates together, if `batch_tokens` allows it."""
_MAX_UNDONE_PENALTY = 64.0
"""CTranslate2's scores are fp32: after subtracting a larger coverage penalty, less than four
decimals of a long output's log-probability are left."""

Attention = Sequence[Sequence[float]]
"""Attention of each output token to each source token, [tgt_len][src_len]."""
Key = TypeVar("Key", bound=Hashable)


class CTranslate2Search:
    """A search with one kind of settings; `stops_early` is as in `CTranslate2Engine`."""

    def __init__(
        self, engine: "CTranslate2Engine", settings: Inference, *, stops_early: bool
    ) -> None:
        if settings.beam_size == 1:
            # Greedy search ranks nothing.
            settings = settings.model_copy(update={"coverage_penalty": 0.0})
        self._engine, self._settings, self._stops_early = engine, settings, stops_early
        # CTranslate2 divides by |y| to this power.
        self._alpha = settings.length_penalty.alpha or _NO_PENALTY

    def run(self, sources: Sequence[EncodedSource]) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as were found."""
        # CTranslate2 skips a source without words.
        found = {
            index: [self._rate((*source.forced, EOS))]
            for index, source in enumerate(sources)
            if all(token == EOS for token in source.tokens)
        }
        rest = [index for index in range(len(sources)) if index not in found]
        for group in _group(rest, [len(source.forced) for source in sources]).values():
            outputs = self._search_alike([sources[index] for index in group])
            found.update(zip(group, outputs, strict=True))
        # Only these: a line's result must not depend on its neighbours.
        to_score = [
            index
            for index in found
            if self._needs_scoring(sources[index]) or any(map(self._is_rough, found[index]))
        ]
        scored = self._score_again(
            [sources[index] for index in to_score], [found[index] for index in to_score]
        )
        found.update(zip(to_score, scored, strict=True))
        best = [
            sorted(found[index], key=lambda one: -one.score)[: self._settings.n_best]
            for index in range(len(sources))
        ]
        if self._settings.alignments:
            best = self._read_weights(sources, best)
        return [
            [leave_out_beginning(each, len(source.begin)) for each in of_source]
            for source, of_source in zip(sources, best, strict=True)
        ]

    def _read_weights(
        self, sources: Sequence[EncodedSource], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Adds the alignment weights that the search returned."""
        counts_coverage = self._settings.coverage_penalty > 0.0
        lacks_first = self._settings.beam_size > 1 and not counts_coverage
        first = {}
        if lacks_first and self._engine.first_aligned_row == 0:
            first = self._attend_first(sources)
        read: list[list[Hypothesis]] = []
        for index, (source, of_source) in enumerate(zip(sources, found, strict=True)):
            read.append([])
            for each in of_source:
                attention = [*(each.attention or ())]
                attention[:1] = first.get(index, attention[:1])
                weights = self._engine.read_weights(source.tokens, each.token_ids, attention)
                kept = each.attention if counts_coverage else None
                read[-1].append(replace(each, attention=kept, alignment_weights=weights))
        return read

    def _attend_first(self, sources: Sequence[EncodedSource]) -> dict[int, Attention]:
        """Returns the first step's attention by index, for sources with words."""
        indices = [
            index
            for index, source in enumerate(sources)
            if any(token != EOS for token in source.tokens)
        ]
        bare = [EncodedSource(sources[index].tokens) for index in indices]
        shards = self._make_shards(bare)
        running = [
            self._engine.start(
                [bare[number] for number in shard],
                beam_size=1,
                max_decoding_length=1,
                return_end_token=True,
                return_attention=True,
            )
            for shard in shards
        ]
        return {
            indices[number]: result.result().attention[0]
            for number, result in zip(chain(*shards), chain(*running), strict=True)
        }

    def _search_alike(self, sources: Sequence[EncodedSource]) -> list[list[Hypothesis]]:
        """Searches sources whose prefixes have the same length."""
        settings = self._settings
        limits = [find_limit(source, settings, self._engine.max_tokens) for source in sources]
        found: dict[int, list[Hypothesis]] = {}
        indices = list(range(len(sources)))
        if self._stops_early:
            # One limit for all; then again those for which their own limit makes a difference.
            max_limit = max(limits)
            found.update(enumerate(self._search(sources, max_limit)))
            indices = [
                index
                for index, limit in enumerate(limits)
                if limit < max_limit and not _ended_before(limit, found[index], settings.beam_size)
            ]
        for limit, group in _group(indices, limits).items():
            outputs = self._search([sources[index] for index in group], limit)
            found.update(zip(group, outputs, strict=True))
        num_prefix = _count_prefix(sources[0])
        if num_prefix and settings.beam_size > 1 and settings.min_length <= num_prefix:
            group = [index for index, limit in enumerate(limits) if num_prefix < limit]
            may_stop = self._may_stop_at_once([sources[index] for index in group])
            for index in compress(group, may_stop):
                # Attention comes before a token is chosen: it is equal for all with the prefix.
                attention = (found[index][0].attention or ())[: num_prefix + 1]
                found[index].append(self._rate((*sources[index].forced, EOS), attention=attention))
        return [found[index] for index in range(len(sources))]

    def _may_stop_at_once(self, sources: Sequence[EncodedSource]) -> list[bool]:
        """Checks for which sources our search returns an output that ends after the prefix."""
        # It does if `</s>` is among the `beam_size` likeliest tokens there. Without this check, a
        # short output with one almost impossible token would beat whole sentences.
        if not sources:
            return []
        num_prefix = _count_prefix(sources[0])
        shards = self._make_shards(sources)
        running = [
            self._engine.start(
                [sources[index] for index in shard],
                beam_size=1,
                # The likeliest tokens at the first position that is free; never </s>.
                return_alternatives=True,
                num_hypotheses=min(self._settings.beam_size, self._engine.vocab_size - 1),
                no_repeat_ngram_size=self._settings.no_repeat_ngram or 0,
                max_decoding_length=num_prefix + 1,
            )
            for shard in shards
        ]
        last = [
            self._engine.read_outputs(each.result())[-1][num_prefix]
            for each in restore_order(shards, running)
        ]
        targets = [
            (*source.forced, token)
            for index, source in enumerate(sources)
            for token in (EOS, last[index])
        ]
        scored = self._engine.score(
            [source.tokens for source in sources for _ in range(2)], targets
        )
        ends, others = scored[::2], scored[1::2]
        return [
            end[num_prefix] >= other[num_prefix] for end, other in zip(ends, others, strict=True)
        ]

    def _search(self, sources: Sequence[EncodedSource], limit: int) -> list[list[Hypothesis]]:
        """Searches all sources with one limit."""
        # All start before the first wait, so that no thread is idle.
        shards = self._make_shards(sources)
        running = [self._start([sources[index] for index in shard], limit) for shard in shards]
        return [self._read_result(each.result()) for each in restore_order(shards, running)]

    def _start(self, sources: Sequence[EncodedSource], limit: int) -> list[Any]:
        """Returns the future result of each source."""
        settings = self._settings
        num_prefix = _count_prefix(sources[0])
        # Right after a prefix, a </s> that isn't the likeliest token would cost a hypothesis.
        min_length = num_prefix + 1 if num_prefix and settings.beam_size > 1 else 0
        # At most `beam_size` end at each step.
        to_limit = not self._stops_early and settings.beam_size > 1
        num_ended = settings.beam_size * (limit + 1 if to_limit else 1)
        return self._engine.start(
            sources,
            beam_size=settings.beam_size,
            # CTranslate2 must not choose by its own scores if we rank by others.
            num_hypotheses=num_ended
            if self._needs_scoring(sources[0]) or settings.coverage_penalty
            else settings.beam_size,
            patience=num_ended / settings.beam_size,
            length_penalty=self._alpha,
            coverage_penalty=settings.coverage_penalty,
            no_repeat_ngram_size=settings.no_repeat_ngram or 0,
            min_decoding_length=min(max(settings.min_length, min_length), limit),
            max_decoding_length=limit,
            return_scores=True,
            return_end_token=True,
            return_attention=settings.coverage_penalty > 0.0 or settings.alignments,
        )

    def _make_shards(self, sources: Sequence[EncodedSource]) -> list[list[int]]:
        """Returns the indices of the sources that a thread takes together, shard by shard."""
        num_sentences = -(-len(sources) // self._engine.num_threads)
        max_sentences = max(_MIN_SHARD, min(_MAX_SHARD, num_sentences))
        return make_batches(
            [len(source.tokens) for source in sources],
            self._settings.batch_tokens // self._engine.num_threads,
            # With several sentences the first step's attention is of a wrong one.
            max_sentences=1 if self._settings.coverage_penalty else max_sentences,
        )

    def _read_result(self, result: Any) -> list[Hypothesis]:
        hypotheses = []
        attentions = result.attention or [()] * len(result.scores)
        for tokens, score, attention in zip(
            self._engine.read_outputs(result), result.scores, attentions, strict=True
        ):
            penalty = find_own_penalty(attention, self._settings.coverage_penalty)
            log_probability = (score - penalty) * len(tokens) ** self._alpha
            hypotheses.append(self._rate(tokens, log_probability, attention=attention))
        return hypotheses

    def _rate(
        self,
        tokens: tuple[int, ...],
        log_probability: float = 0.0,
        of_tokens: Sequence[float] = (),
        *,
        attention: Attention = (),
    ) -> Hypothesis:
        penalty = self._settings.length_penalty
        divisor = length_penalty(penalty.kind, penalty.alpha, len(tokens))
        coverage = rate_coverage(attention, self._settings.coverage_penalty)
        return Hypothesis(
            tokens,
            log_probability,
            log_probability / divisor + coverage,
            is_finished=tokens[-1] == EOS,
            token_log_probabilities=tuple(of_tokens),
            attention=attention or None,
        )

    def _needs_scoring(self, source: EncodedSource) -> bool:
        """Checks whether CTranslate2's sum of log-probabilities differs from the model's own."""
        settings = self._settings
        return bool(source.prefix or settings.min_length or settings.no_repeat_ngram)

    def _is_rough(self, hypothesis: Hypothesis) -> bool:
        """Checks whether rounding left few digits of the log-probability."""
        penalty = find_own_penalty(hypothesis.attention or (), self._settings.coverage_penalty)
        return penalty < -_MAX_UNDONE_PENALTY

    def _score_again(
        self, sources: Sequence[EncodedSource], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Returns hypotheses with the model's own log-probabilities."""
        kept = [
            [each for each in of_source if each.log_probability > _NEVER] for of_source in found
        ]
        scored = iter(
            self._engine.score(
                [source.tokens for source, own in zip(sources, kept, strict=True) for _ in own],
                [each.token_ids for own in kept for each in own],
            )
        )
        return [
            [
                self._rate_again(each, of_tokens, len(source.begin))
                for each, of_tokens in zip(own, scored, strict=False)
            ]
            for source, own in zip(sources, kept, strict=True)
        ]

    def _rate_again(
        self, hypothesis: Hypothesis, of_tokens: Sequence[float], num_begun: int
    ) -> Hypothesis:
        """Returns an output with its tokens' log-probabilities: 0 for the `begin` tokens."""
        told = (*[0.0] * num_begun, *of_tokens[num_begun:])
        attention = hypothesis.attention or ()
        return self._rate(hypothesis.token_ids, sum(told), told, attention=attention)


def _count_prefix(source: EncodedSource) -> int:
    """Returns the number of forced tokens if there is a prefix."""
    # `begin` tokens are as certain here as in our search, and need no care.
    return len(source.forced) if source.prefix else 0


def _ended_before(limit: int, outputs: Sequence[Hypothesis], beam_size: int) -> bool:
    """Checks that a search with a larger limit ran as it would have with this one."""
    # A beam search does if it had ended before: the last of its outputs to end is among those
    # returned, since fewer than `beam_size` had ended a step earlier.
    max_length = max(len(output.token_ids) for output in outputs)
    if beam_size == 1:
        return max_length <= limit
    return len(outputs) == beam_size and max_length < limit


def _group(indices: Iterable[int], keys: Sequence[Key]) -> dict[Key, list[int]]:
    groups: dict[Key, list[int]] = defaultdict(list)
    for index in indices:
        groups[keys[index]].append(index)
    return groups


def rate_coverage(attention: Attention, beta: float) -> float:
    """Returns the coverage term of an output's score: at most 0."""
    if not beta:
        return 0.0
    return beta * sum(math.log(max(share, MIN_COVERAGE)) for share in _find_shares(attention))


def find_own_penalty(attention: Attention, beta: float) -> float:
    """Returns the coverage penalty that CTranslate2 added to an output's score."""
    if not beta:
        return 0.0
    return beta * sum(math.log(share) for share in _find_shares(attention) if share > 0.0)


def _find_shares(attention: Attention) -> list[float]:
    """Returns the total attention to each source token, at most 1."""
    return [min(sum(of_token), 1.0) for of_token in zip(*attention, strict=True)]
