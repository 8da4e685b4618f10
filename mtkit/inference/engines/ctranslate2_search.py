"""CTranslate2's search, made to find what ours finds.

Its beam search walks as ours does (mtkit/inference/search/beam.py) and differs in three things.

It stops once `beam_size` outputs have ended, where ours stops when none would do better within
`stop_margin` tokens: either may miss a longer output that would have overtaken these.

What may not be emitted (`<pad>`, `<s>`, and whatever a setting forbids) it takes out before logits
become probabilities, where ours does so after: the tokens left share what those would have got.
That is next to nothing for `<pad>` and `<s>`, and much for a `</s>` that comes too soon. Where a
setting forbids tokens, the outputs found are therefore scored again and ranked by what the model
itself gives them; so they are behind a prefix, whose tokens it takes for certain.

It compares outputs of different lengths by log-probability / |y|^alpha alone. With
`length_penalty.kind = "gnmt"` the same outputs are found, since when they end depends on
probabilities only, and are then ranked by the GNMT form. Where more than `beam_size` have ended
when the search stops, the surplus is dropped by the power form.

With a coverage penalty it translates a sentence at a time, which takes longer. Its own penalty
passes over source tokens that got no attention at all, so that an output that leaves more out could
look better; outputs are therefore ranked by ours, and a surplus alone is dropped by its own.

What alignments are read from comes with the search, but for one thing: of several sentences its
beam search (4.8.5) takes the first step's attention from a wrong one. A head that is read where a
token is predicted needs that step, which is then taken once more; one that is read where a token is
the input doesn't.
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
"""|y| to this power is 1 in fp32. CTranslate2 ends a search by another rule where alpha is 0."""
_NEVER = -1e9
"""CTranslate2 gives less than this to what it holds beside a prefix."""
_MIN_SHARD, _MAX_SHARD = 8, 32
"""Sentences that a thread translates together, where `batch_tokens` lets it."""
_MAX_UNDONE_PENALTY = 64.0
"""CTranslate2's scores are in fp32: taken out of one again, a coverage penalty of more leaves less
than four decimals of a long output's log-probability."""

Attention = Sequence[Sequence[float]]
"""What each of an output's tokens paid to each source token, [tgt_len][src_len]."""
Key = TypeVar("Key", bound=Hashable)


class CTranslate2Search:
    """A search with one kind of settings.

    Args:
        engine: Whose model it is.
        settings: How to search.
        stops_early: It ends once `beam_size` outputs have ended; otherwise at the length limit
            alone, which finds what our own search finds, and is slow.
    """

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
        # CTranslate2 leaves out a source without words.
        found = {
            index: [self._rate((*source.forced, EOS))]
            for index, source in enumerate(sources)
            if all(token == EOS for token in source.tokens)
        }
        rest = [index for index in range(len(sources)) if index not in found]
        for group in _group(rest, [len(source.forced) for source in sources]).values():
            outputs = self._search_alike([sources[index] for index in group])
            found.update(zip(group, outputs, strict=True))
        # No others: what is said of a line must not depend on its neighbours.
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
        """Returns hypotheses with what alignments are read from, where the search has told it."""
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
        """Returns the first step's attention of each source that has words, by its index."""
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
        """Returns what CTranslate2 finds for sources whose prefixes are of one length."""
        settings = self._settings
        limits = [find_limit(source, settings, self._engine.max_tokens) for source in sources]
        found: dict[int, list[Hypothesis]] = {}
        indices = list(range(len(sources)))
        if self._stops_early:
            # One limit for all, and again those to whom their own would have made a difference.
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
                # Attention is paid before a token is chosen: all with the prefix paid the same.
                attention = (found[index][0].attention or ())[: num_prefix + 1]
                found[index].append(self._rate((*sources[index].forced, EOS), attention=attention))
        return [found[index] for index in range(len(sources))]

    def _may_stop_at_once(self, sources: Sequence[EncodedSource]) -> list[bool]:
        """Checks for which sources our search takes the output that ends right behind its prefix.

        It does where `</s>` is among the `beam_size` likeliest tokens there. Taken in any case, a
        short output with one token that is next to impossible would outdo whole sentences.
        """
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
        """Returns what CTranslate2 finds with one limit for all, none left out."""
        # All of them before the first is waited for: so no thread is idle.
        shards = self._make_shards(sources)
        running = [self._start([sources[index] for index in shard], limit) for shard in shards]
        return [self._read_result(each.result()) for each in restore_order(shards, running)]

    def _start(self, sources: Sequence[EncodedSource], limit: int) -> list[Any]:
        """Returns what a thread will have found for each source, as CTranslate2 promises it."""
        settings = self._settings
        num_prefix = _count_prefix(sources[0])
        # Right behind a prefix, a </s> that isn't the likeliest token would cost it a hypothesis.
        min_length = num_prefix + 1 if num_prefix and settings.beam_size > 1 else 0
        # More than `beam_size` at each step there can't be.
        to_limit = not self._stops_early and settings.beam_size > 1
        num_ended = settings.beam_size * (limit + 1 if to_limit else 1)
        return self._engine.start(
            sources,
            beam_size=settings.beam_size,
            # Where CTranslate2's own scores aren't the last word, it must not choose by them.
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
        """Returns the indices of the sources that a thread takes at once, shard by shard."""
        num_sentences = -(-len(sources) // self._engine.num_threads)
        max_sentences = max(_MIN_SHARD, min(_MAX_SHARD, num_sentences))
        return make_batches(
            [len(source.tokens) for source in sources],
            self._settings.batch_tokens // self._engine.num_threads,
            # Of several sentences the first step's attention would be a wrong one's.
            max_sentences=1 if self._settings.coverage_penalty else max_sentences,
        )

    def _read_result(self, result: Any) -> list[Hypothesis]:
        """Returns what CTranslate2 found for a source."""
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
        """Returns an output with its score."""
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
        """Checks whether CTranslate2's sum of log-probabilities isn't the model's own."""
        settings = self._settings
        return bool(source.prefix or settings.min_length or settings.no_repeat_ngram)

    def _is_rough(self, hypothesis: Hypothesis) -> bool:
        """Checks whether rounding has left few digits of its log-probability."""
        penalty = find_own_penalty(hypothesis.attention or (), self._settings.coverage_penalty)
        return penalty < -_MAX_UNDONE_PENALTY

    def _score_again(
        self, sources: Sequence[EncodedSource], found: Sequence[Sequence[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        """Returns hypotheses with the log-probabilities that the model gives them."""
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
        """Returns an output with its tokens' log-probabilities: 0 of those that begin it."""
        told = (*[0.0] * num_begun, *of_tokens[num_begun:])
        attention = hypothesis.attention or ()
        return self._rate(hypothesis.token_ids, sum(told), told, attention=attention)


def _count_prefix(source: EncodedSource) -> int:
    """Returns how many tokens stand before what is searched, where a prefix is among them.

    What begins every output is as certain here as in our search: it needs no care.
    """
    return len(source.forced) if source.prefix else 0


def _ended_before(limit: int, outputs: Sequence[Hypothesis], beam_size: int) -> bool:
    """Checks whether a search with a greater limit went as it would have gone with this one.

    A beam search does where it was over before: the last of its outputs to end is among those
    returned, since fewer than `beam_size` had ended a step earlier.
    """
    max_length = max(len(output.token_ids) for output in outputs)
    if beam_size == 1:
        return max_length <= limit
    return len(outputs) == beam_size and max_length < limit


def _group(indices: Iterable[int], keys: Sequence[Key]) -> dict[Key, list[int]]:
    """Returns indices by their keys."""
    groups: dict[Key, list[int]] = defaultdict(list)
    for index in indices:
        groups[keys[index]].append(index)
    return groups


def rate_coverage(attention: Attention, beta: float) -> float:
    """Returns what an output's attention adds to its score: at most 0."""
    if not beta:
        return 0.0
    return beta * sum(math.log(max(share, MIN_COVERAGE)) for share in _find_shares(attention))


def find_own_penalty(attention: Attention, beta: float) -> float:
    """Returns what CTranslate2 has added to an output's score for its attention."""
    if not beta:
        return 0.0
    return beta * sum(math.log(share) for share in _find_shares(attention) if share > 0.0)


def _find_shares(attention: Attention) -> list[float]:
    """Returns how much attention each source token got from the whole output, 1 at most."""
    return [min(sum(of_token), 1.0) for of_token in zip(*attention, strict=True)]
