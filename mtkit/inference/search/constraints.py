"""Phrases that an output must contain: dynamic beam allocation.

Post and Vilar 2018 (arXiv 1804.06609), for batches as in Hu et al. 2019 (N19-1090). A hypothesis's
progress is its number of phrase tokens, including those of a phrase that has begun. Hypotheses of
equal progress form a bank, and the banks share the beam: first each bank's best, in order of
descending progress, then each one's second, and so on. An output only ends when it has all phrases.

An automaton of their prefixes (Aho and Corasick 1975) finds the phrases in a hypothesis, so that
a phrase whose beginning repeats itself, as in `a a b`, isn't missed. A phrase must occur as often
as it is given, not counting occurrences inside another phrase; occurrences may overlap.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mtkit.text.token_ids import EOS

_MAX_ADDED = 16
"""Maximum extra hypotheses of a sentence, one for each token that it must have."""
_NO_TOKEN = -1

Phrase = tuple[int, ...]


@dataclass(frozen=True)
class _Automaton:
    """A sentence's phrases as an automaton; in state 0 no phrase has begun."""

    # `wanted` is how often each phrase must occur. Any token outside `alphabet` leads to state 0.
    # `next_states` are by state and index in the alphabet. By state and phrase, `ends` says whether
    # the phrase ends there, and `depths` how many of its tokens have begun.

    phrases: tuple[Phrase, ...]
    wanted: tuple[int, ...]
    alphabet: tuple[int, ...]
    next_states: list[list[int]]
    ends: list[list[bool]]
    depths: list[list[int]]

    @classmethod
    def of(cls, given: Sequence[Sequence[int]]) -> "_Automaton":
        counts = Counter(map(tuple, given))
        phrases = tuple(counts)
        wanted = tuple(
            count + sum(counts[other] * _count_inside(phrase, other) for other in phrases)
            for phrase, count in counts.items()
        )
        alphabet = tuple(dict.fromkeys(token for phrase in phrases for token in phrase))
        prefixes = {phrase[:end] for phrase in phrases for end in range(len(phrase) + 1)} | {()}
        states = sorted(prefixes, key=len)
        numbers = {prefix: number for number, prefix in enumerate(states)}
        # For each state, the longest proper suffix of its tokens that is also a state.
        failure_links = [0] * len(states)
        next_states: list[list[int]] = []
        ends: list[list[bool]] = []
        depths: list[list[int]] = []
        for number, prefix in enumerate(states):
            fallback = failure_links[number]
            following = []
            for index, token in enumerate(alphabet):
                known = numbers.get((*prefix, token))
                otherwise = next_states[fallback][index] if number else 0
                following.append(otherwise if known is None else known)
                if known is not None:
                    failure_links[known] = otherwise
            next_states.append(following)
            ends.append(
                [
                    phrase == prefix or bool(number and ends[fallback][index])
                    for index, phrase in enumerate(phrases)
                ]
            )
            depths.append(
                [
                    len(prefix)
                    if len(prefix) < len(phrase) and phrase[: len(prefix)] == prefix
                    else (depths[fallback][index] if number else 0)
                    for index, phrase in enumerate(phrases)
                ]
            )
        return cls(phrases, wanted, alphabet, next_states, ends, depths)


def _count_inside(phrase: Phrase, other: Phrase) -> int:
    """Returns how often a phrase occurs in a longer one."""
    if len(phrase) >= len(other):
        return 0
    starts = range(len(other) - len(phrase) + 1)
    return sum(other[start : start + len(phrase)] == phrase for start in starts)


@dataclass(frozen=True)
class RelevantCandidates:
    """The relevant candidates of each sentence, in the order of the banks.

    Attributes:
        values: Log-probabilities; -inf for no candidate.
        indices: Hypothesis times vocabulary size, plus token.
        may_enter: Which ones enter the pool of finished hypotheses, if they end.
        may_live: Which ones stay alive.
    """

    values: Float[Tensor, "batch candidates"]
    indices: Int[Tensor, "batch candidates"]
    may_enter: Bool[Tensor, "batch candidates"]
    may_live: Bool[Tensor, "batch candidates"]


class RequiredPhrases:
    """The phrases of a batch's sentences, and the progress of each live hypothesis.

    A sentence without phrases is searched as without this class. One with phrases has a wider beam:
    one more hypothesis per phrase token, at most 16. At the length limit, missing phrases are
    forced.
    """

    def __init__(
        self,
        phrases: Sequence[Sequence[Sequence[int]]],
        limits: Int[Tensor, " batch"],
        beam_size: int,
        device: torch.device,
    ) -> None:
        automata = [_Automaton.of(each) for each in phrases]
        num_phrases = max(1, *(len(each.phrases) for each in automata))
        num_states = max(len(each.next_states) for each in automata)
        num_tokens = max(1, *(len(each.alphabet) for each in automata))
        batch = len(automata)
        self._alphabet_BA = torch.full((batch, num_tokens), _NO_TOKEN)
        # The last column is for all other tokens.
        self._next_BNA = torch.zeros((batch, num_states, num_tokens + 1), dtype=torch.int64)
        self._ends_BNP = torch.zeros((batch, num_states, num_phrases), dtype=torch.int64)
        self._depths_BNP = torch.zeros((batch, num_states, num_phrases), dtype=torch.int64)
        self._lengths_BP = torch.zeros((batch, num_phrases), dtype=torch.int64)
        self._wanted_BP = torch.zeros((batch, num_phrases), dtype=torch.int64)
        for row, each in enumerate(automata):
            if not each.phrases:
                continue
            states, of_row = len(each.next_states), len(each.phrases)
            self._alphabet_BA[row, : len(each.alphabet)] = torch.tensor(each.alphabet)
            self._next_BNA[row, :states, : len(each.alphabet)] = torch.tensor(each.next_states)
            self._ends_BNP[row, :states, :of_row] = torch.tensor(each.ends).long()
            self._depths_BNP[row, :states, :of_row] = torch.tensor(each.depths)
            self._lengths_BP[row, :of_row] = torch.tensor(list(map(len, each.phrases)))
            self._wanted_BP[row, :of_row] = torch.tensor(each.wanted)
        for name, table in list(vars(self).items()):
            setattr(self, name, table.to(device))
        self._totals_B = (self._wanted_BP * self._lengths_BP).sum(dim=1)
        self._limits_B = limits.to(device)
        self._widths_B = beam_size + self._totals_B.clamp(max=_MAX_ADDED)
        self._states_BW = torch.zeros((batch, 1), dtype=torch.int64, device=device)
        self._counts_BWP = torch.zeros((batch, 1, num_phrases), dtype=torch.int64, device=device)

    @property
    def max_width(self) -> int:
        """The largest beam of a sentence."""
        return int(self._widths_B.max())

    def find_advancing(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns sentence, hypothesis and token for each token that advances a phrase."""
        rows, hypotheses, columns = self._find_advances().nonzero(as_tuple=True)
        return rows, hypotheses, self._alphabet_BA[rows, columns]

    def restrict(
        self,
        log_probs: Float[Tensor, "batch beam vocab"],
        length: int,
        is_forced: Bool[Tensor, " batch"],
    ) -> None:
        """Writes -inf where an output would end, or grow too long, without all phrases."""
        is_free_B = ~is_forced
        banked_BW = self._measure(self._states_BW * 0, self._counts_BWP)
        progress_BW = self._measure(self._states_BW, self._counts_BWP)
        lacks_BW = (progress_BW < self._totals_B[:, None]) & is_free_B[:, None]
        log_probs[..., EOS].masked_fill_(lacks_BW, -torch.inf)
        room_B = self._limits_B - length - 1
        scarce_BW = (self._totals_B[:, None] - banked_BW > room_B[:, None]) & is_free_B[:, None]
        if not bool(scarce_BW.any()):
            return
        progress_BWA = self._look_ahead()
        lacking_BWA = self._totals_B[:, None, None] - progress_BWA
        allowed_BWA = (progress_BWA >= 0) & (lacking_BWA <= room_B[:, None, None])
        # If there is too little room for all of them, the search does what it can.
        scarce_BW &= allowed_BWA.any(dim=-1)
        rows, hypotheses = scarce_BW.nonzero(as_tuple=True)
        tokens_HA = self._alphabet_BA[rows].clamp(min=0)
        before_HV = log_probs[rows, hypotheses]
        kept_HA = before_HV.gather(1, tokens_HA).masked_fill(
            ~allowed_BWA[rows, hypotheses], -torch.inf
        )
        log_probs[rows, hypotheses] = torch.full_like(before_HV, -torch.inf).scatter(
            1, tokens_HA, kept_HA
        )

    def choose(
        self,
        extended: Float[Tensor, "batch beam vocab"],
        best: tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"]],
        length: int,
    ) -> RelevantCandidates:
        """Returns the relevant continuations: the best, and those that advance phrases.

        `extended` are cumulative log-probabilities of all continuations. `best` are at least twice
        the beam, with indices into a sentence's continuations. `length` includes the next token.
        """
        vocab = extended.shape[2]
        values_BK, indices_BK = best
        ranks_K = torch.arange(values_BK.shape[1], device=extended.device)
        values_BK = values_BK.masked_fill(ranks_K >= 2 * self._widths_B[:, None], -torch.inf)
        values_BC, indices_BC = self._add_candidates(extended, values_BK, indices_BK)
        order_BC = values_BC.argsort(dim=1, descending=True, stable=True)
        values_BC, indices_BC = values_BC.gather(1, order_BC), indices_BC.gather(1, order_BC)

        states_BC, counts_BCP = self._follow(indices_BC // vocab, indices_BC % vocab)
        progress_BC = self._measure(states_BC, counts_BCP)
        is_candidate_BC = values_BC > -torch.inf
        order_BC = self._allocate(progress_BC, is_candidate_BC)[:, : 2 * self.max_width]
        values_BC, indices_BC = values_BC.gather(1, order_BC), indices_BC.gather(1, order_BC)
        progress_BC = progress_BC.gather(1, order_BC)
        is_candidate_BC = is_candidate_BC.gather(1, order_BC)

        positions_C = torch.arange(values_BC.shape[1], device=extended.device)
        may_enter_BC = is_candidate_BC & (positions_C < self._widths_B[:, None])
        is_last_B = length >= self._limits_B
        # If no candidate has all phrases at the limit, those that lack the fewest tokens.
        furthest_B = progress_BC.masked_fill(~may_enter_BC, -1).amax(dim=1)
        may_enter_BC &= ~is_last_B[:, None] | (progress_BC == furthest_B[:, None])
        goes_on_BC = indices_BC % vocab != EOS
        may_live_BC = goes_on_BC & (goes_on_BC.cumsum(dim=1) <= self._widths_B[:, None])
        return RelevantCandidates(values_BC, indices_BC, may_enter_BC, may_live_BC)

    def keep(self, parents: Int[Tensor, "batch beam"], tokens: Int[Tensor, "batch beam"]) -> None:
        """Updates the hypotheses with their parents and newest tokens."""
        self._states_BW, self._counts_BWP = self._follow(parents, tokens)

    def select(self, rows: Int[Tensor, " kept"]) -> None:
        """Keeps these sentences, in this order."""
        for name, table in list(vars(self).items()):
            setattr(self, name, table[rows])

    def _measure(self, states_BC: Tensor, counts_BCP: Tensor) -> Tensor:
        """Returns the number of phrase tokens of hypotheses."""
        wanted_BCP, lengths_BCP = self._wanted_BP[:, None], self._lengths_BP[:, None]
        held_BC = (counts_BCP.minimum(wanted_BCP) * lengths_BCP).sum(dim=-1)
        rows_B1 = torch.arange(len(states_BC), device=states_BC.device)[:, None]
        begun_BCP = self._depths_BNP[rows_B1, states_BC] * (counts_BCP < wanted_BCP)
        progress: Tensor = held_BC + begun_BCP.amax(dim=-1)
        return progress

    def _follow(self, parents_BC: Tensor, tokens_BC: Tensor) -> tuple[Tensor, Tensor]:
        """Returns states and counts of hypotheses after one more token."""
        matches_BCA = tokens_BC[:, :, None] == self._alphabet_BA[:, None]
        other = self._alphabet_BA.shape[1]
        columns_BC = matches_BCA.int().argmax(dim=-1).masked_fill(~matches_BCA.any(dim=-1), other)
        return self._move(parents_BC, columns_BC)

    def _move(self, parents_BC: Tensor, columns_BC: Tensor) -> tuple[Tensor, Tensor]:
        rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
        states_BC = self._next_BNA[rows_B1, self._states_BW.gather(1, parents_BC), columns_BC]
        counts_BCP = self._counts_BWP[rows_B1, parents_BC] + self._ends_BNP[rows_B1, states_BC]
        return states_BC, counts_BCP

    def _look_ahead(self) -> Tensor:
        """Returns each hypothesis's progress with each phrase token; -1 without a token."""
        batch, width = self._states_BW.shape
        num_tokens = self._alphabet_BA.shape[1]
        device = self._states_BW.device
        hypotheses = torch.arange(width, device=device).repeat_interleave(num_tokens)
        columns = torch.arange(num_tokens, device=device).repeat(width)
        moved = self._move(hypotheses.expand(batch, -1), columns.expand(batch, -1))
        progress_BWA = self._measure(*moved).view(batch, width, num_tokens)
        return progress_BWA.masked_fill((self._alphabet_BA == _NO_TOKEN)[:, None], -1)

    def _find_advances(self) -> Tensor:
        """Returns which phrase tokens advance a hypothesis."""
        progress_BW = self._measure(self._states_BW, self._counts_BWP)
        return self._look_ahead() > progress_BW[:, :, None]

    def _add_candidates(
        self, extended_BWV: Tensor, values_BK: Tensor, indices_BK: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Adds each hypothesis's next phrase tokens and its best token to the best candidates."""
        # Duplicates have -inf, and so have all in sentences without phrases.
        _, width, vocab = extended_BWV.shape
        advances_BWA = self._find_advances()
        tokens_BWA = self._alphabet_BA.clamp(min=0)[:, None].expand(-1, width, -1)
        of_phrases_BWA = extended_BWV.gather(2, tokens_BWA).masked_fill(~advances_BWA, -torch.inf)
        best_BW, tokens_BW = extended_BWV.max(dim=-1)
        best_BW = best_BW.masked_fill(self._totals_B[:, None] == 0, -torch.inf)
        firsts_W = torch.arange(width, device=extended_BWV.device) * vocab
        phrase_indices_BC = (firsts_W[:, None] + tokens_BWA).flatten(1)
        best_indices_BW = firsts_W + tokens_BW
        of_phrases_BC = of_phrases_BWA.flatten(1)
        # Where -inf marks no candidate, the index has no meaning.
        taken_BK = indices_BK.masked_fill(values_BK == -torch.inf, -1)
        _drop_known(of_phrases_BC, phrase_indices_BC, taken_BK)
        _drop_known(best_BW, best_indices_BW, taken_BK)
        offered_BC = phrase_indices_BC.masked_fill(of_phrases_BC == -torch.inf, -1)
        _drop_known(best_BW, best_indices_BW, offered_BC)
        return (
            torch.cat((values_BK, of_phrases_BC, best_BW), dim=1),
            torch.cat((indices_BK, phrase_indices_BC, best_indices_BW), dim=1),
        )

    def _allocate(self, progress_BC: Tensor, is_candidate_BC: Tensor) -> Tensor:
        """Returns the order of candidates in which the banks share the beam."""
        same_bank_BCC = progress_BC[:, :, None] == progress_BC[:, None, :]
        same_bank_BCC &= is_candidate_BC[:, None, :]
        ranks_BC = same_bank_BCC.tril(diagonal=-1).sum(dim=-1)
        # One bank more than there are tokens; entries without a candidate come last.
        num_banks = int(self._totals_B.max()) + 1
        keys_BC = ranks_BC * num_banks - progress_BC
        last = progress_BC.shape[1] * num_banks
        return keys_BC.masked_fill(~is_candidate_BC, last).argsort(dim=1, stable=True)


def _drop_known(values_BC: Tensor, indices_BC: Tensor, known_BK: Tensor) -> None:
    is_known_BC = (indices_BC[:, :, None] == known_BK[:, None]).any(dim=-1)
    values_BC.masked_fill_(is_known_BC, -torch.inf)
