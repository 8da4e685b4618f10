"""CTranslate2 as the engine, on a CPU or one GPU; torch is never loaded.

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
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from mtkit.errors import MtkitError
from mtkit.inference.batches import make_batches
from mtkit.inference.engines.engine import EncodedSource, find_limit
from mtkit.inference.hypothesis import Hypothesis
from mtkit.inference.search.penalties import MIN_COVERAGE, length_penalty
from mtkit.model.config import read_config
from mtkit.model.exporters.ctranslate2_files import (
    ENGINE_FOLDER,
    EXPORT_AGAIN,
    MODEL_FILE,
    read_names,
)
from mtkit.model.exporters.ctranslate2_library import (
    count_threads,
    find_device,
    load_library,
)
from mtkit.model.exporters.ctranslate2_weights import check_engine_folder, check_network
from mtkit.paths import for_library
from mtkit.recipe.inference import Inference
from mtkit.text.token_ids import BOS, EOS, PAD

_NO_PENALTY = 1e-9
"""|y| to this power is 1 in fp32. CTranslate2 ends a search by another rule where alpha is 0."""
_NEVER = -1e9
"""CTranslate2 gives less than this to what it holds beside a prefix."""
_BATCHES_OF_A_THREAD = 4
_MIN_SHARE, _MAX_SHARE = 8, 32
"""Sentences that a thread translates together, where `batch_tokens` lets it."""
_SCORED_TOKENS = 2_048
"""Tokens scored at once: their logits are in memory together."""
_MAX_UNDONE_PENALTY = 64.0
"""CTranslate2's scores are in fp32: taken out of one again, a coverage penalty of more leaves less
than four decimals of a long output's log-probability."""


class CTranslate2Engine:
    """Searches with what `mtkit export` made.

    Args:
        folder: CTranslate2's own files: the folder `ctranslate2` in an exported model's.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.
        stops_early: A search ends once `beam_size` outputs have ended; otherwise at the length
            limit alone, which finds what our own search finds, and is slow.

    Raises:
        MtkitError: CTranslate2 isn't installed, there is no such device, or the folder holds no
            model or a damaged one.
    """

    def __init__(self, folder: Path, device: str = "cpu", *, stops_early: bool = True) -> None:
        library = load_library()
        self._stops_early = stops_early
        self._max_tokens, self._source_names, self._target_names = read_names(folder)
        check_engine_folder(folder)
        self._target_ids = {name: token for token, name in enumerate(self._target_names)}
        self._never_emitted = [[self._target_names[PAD]], [self._target_names[BOS]]]
        kind, index = find_device(device, library)
        try:
            # Threads that each translate a batch of their own are quicker than threads that share
            # one: by a third in float32, several times in int8 (docs/performance.md).
            self._num_threads = count_threads() if kind == "cpu" else 1
            with for_library(folder) as readable:
                self._translator = library.Translator(
                    str(readable),
                    device=kind,
                    device_index=index,
                    inter_threads=self._num_threads,
                    intra_threads=1,
                )
        except (RuntimeError, ValueError) as error:
            raise MtkitError(
                f"{folder}: CTranslate2 can't load it: {error}", EXPORT_AGAIN
            ) from error

    @property
    def max_tokens(self) -> int | None:
        """The longest source and output the model can take, `</s>` counted."""
        return self._max_tokens

    @property
    def device(self) -> str:
        """Kind of what it runs on: `cpu` or `cuda`."""
        return str(self._translator.device)

    @property
    def precision(self) -> str:
        """What CTranslate2 computes in here, such as `int8_float32`."""
        return str(self._translator.compute_type)

    @property
    def batches_at_once(self) -> int:
        """Enough that threads seldom wait for the last of them to finish."""
        return _BATCHES_OF_A_THREAD * self._num_threads

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        """Returns each source's `n_best` hypotheses, best first, or as many as were found.

        What is found for a source doesn't depend on its neighbours, but for rounding.

        Args:
            sources: What is translated together.
            settings: How to search.

        Raises:
            MtkitError: A setting that this engine can't do, or a source longer than `max_tokens`.
        """
        check_settings(settings)
        if settings.beam_size == 1:
            # Greedy search ranks nothing.
            settings = settings.model_copy(update={"coverage_penalty": 0.0})
        # CTranslate2 leaves out a source without words.
        found = {
            place: [_Output((*source.prefix, EOS))]
            for place, source in enumerate(sources)
            if all(token == EOS for token in source.tokens)
        }
        rest = [place for place in range(len(sources)) if place not in found]
        for places in _group(rest, [len(source.prefix) for source in sources]).values():
            outputs = self._search_alike([sources[place] for place in places], settings)
            found.update(zip(places, outputs, strict=True))
        # No others: what is told of a line must not depend on its neighbours.
        to_score = [
            place
            for place in found
            if _needs_scoring(sources[place], settings)
            or any(output.is_rough for output in found[place])
        ]
        scored = self._score_anew(
            [sources[place] for place in to_score], [found[place] for place in to_score]
        )
        found.update(zip(to_score, scored, strict=True))
        return [
            sorted(
                (output.rate(settings) for output in found[place]),
                key=lambda hypothesis: -hypothesis.score,
            )[: settings.n_best]
            for place in range(len(sources))
        ]

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Returns the natural log-probability of each token of each given target.

        Args:
            source_batch: Source tokens of each sentence, closed by `</s>`.
            target_batch: Its target tokens, as a search finds them.
        """
        results = self._translator.score_batch(
            [_name(tokens, self._source_names) for tokens in source_batch],
            [_name(tokens, self._target_names) for tokens in target_batch],
            max_input_length=0,
            max_batch_size=_SCORED_TOKENS,
            batch_type="tokens",
        )
        # CTranslate2 closes each target with a </s> of its own.
        return [
            list(result.log_probs[: len(target)])
            for result, target in zip(results, target_batch, strict=True)
        ]

    def _share_out(self, sources: Sequence[EncodedSource], settings: Inference) -> list[list[int]]:
        """Returns the places of the sources that a thread takes at once, of all such shares."""
        num_sentences = -(-len(sources) // self._num_threads)
        most = max(_MIN_SHARE, min(_MAX_SHARE, num_sentences))
        return make_batches(
            [len(source.tokens) for source in sources],
            settings.batch_tokens // self._num_threads,
            # Of several sentences CTranslate2 4.8.5 mixes up the attention of their hypotheses.
            max_sentences=1 if settings.coverage_penalty else most,
        )

    def _search_alike(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list["_Output"]]:
        """Returns what CTranslate2 finds for sources whose prefixes are of one length."""
        limits = [find_limit(source, settings, self._max_tokens) for source in sources]
        found: dict[int, list[_Output]] = {}
        places = list(range(len(sources)))
        if self._stops_early:
            # One limit for all, and again those to whom their own would have made a difference.
            greatest = max(limits)
            found.update(enumerate(self._search(sources, greatest, settings)))
            places = [
                place
                for place, limit in enumerate(limits)
                if limit < greatest and not _ended_before(limit, found[place], settings.beam_size)
            ]
        for limit, those in _group(places, limits).items():
            outputs = self._search([sources[place] for place in those], limit, settings)
            found.update(zip(those, outputs, strict=True))
        num_prefix = len(sources[0].prefix)
        if num_prefix and settings.beam_size > 1 and settings.min_length <= num_prefix:
            those = [place for place, limit in enumerate(limits) if num_prefix < limit]
            may_stop = self._may_stop_at_once([sources[place] for place in those], settings)
            for place in compress(those, may_stop):
                # Attention is paid before a token is chosen: all with the prefix paid the same.
                attention = found[place][0].attention[: num_prefix + 1]
                found[place].append(_Output((*sources[place].prefix, EOS), attention=attention))
        return [found[place] for place in range(len(sources))]

    def _may_stop_at_once(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[bool]:
        """Returns of which sources our search takes the output that ends right behind its prefix.

        It does where `</s>` is among the `beam_size` likeliest tokens there. Taken in any case, a
        short output with one token that is next to impossible would outdo whole sentences.

        Args:
            sources: What is translated; their prefixes are of one length.
            settings: How to search.
        """
        if not sources:
            return []
        num_prefix = len(sources[0].prefix)
        running = [
            (
                share,
                self._translator.translate_batch(
                    [_name(sources[place].tokens, self._source_names) for place in share],
                    target_prefix=[
                        _name(sources[place].prefix, self._target_names) for place in share
                    ],
                    asynchronous=True,
                    beam_size=1,
                    # The likeliest tokens at the first place that is free; never </s>.
                    return_alternatives=True,
                    num_hypotheses=min(settings.beam_size, len(self._target_names) - 1),
                    suppress_sequences=self._never_emitted,
                    no_repeat_ngram_size=settings.no_repeat_ngram or 0,
                    max_decoding_length=num_prefix + 1,
                    max_input_length=0,
                ),
            )
            for share in self._share_out(sources, settings)
        ]
        last = {
            place: self._target_ids[result.result().hypotheses[-1][num_prefix]]
            for share, results in running
            for place, result in zip(share, results, strict=True)
        }
        targets = [
            (*source.prefix, token)
            for place, source in enumerate(sources)
            for token in (EOS, last[place])
        ]
        scored = self.score([source.tokens for source in sources for _ in range(2)], targets)
        ends, others = scored[::2], scored[1::2]
        return [
            end[num_prefix] >= other[num_prefix] for end, other in zip(ends, others, strict=True)
        ]

    def _search(
        self, sources: Sequence[EncodedSource], limit: int, settings: Inference
    ) -> list[list["_Output"]]:
        """Returns what CTranslate2 finds with one limit for all, none left out."""
        # All of them before the first is waited for: so no thread is idle.
        running = [
            (share, self._start([sources[place] for place in share], limit, settings))
            for share in self._share_out(sources, settings)
        ]
        found = {
            place: self._read_outputs(result.result(), settings)
            for share, results in running
            for place, result in zip(share, results, strict=True)
        }
        return [found[place] for place in range(len(sources))]

    def _start(self, sources: Sequence[EncodedSource], limit: int, settings: Inference) -> Any:
        """Returns what a thread will have found for each source, as CTranslate2 promises it."""
        num_prefix = len(sources[0].prefix)
        # Right behind a prefix, a </s> that isn't the likeliest token would cost it a hypothesis.
        least = num_prefix + 1 if num_prefix and settings.beam_size > 1 else 0
        # More than `beam_size` at each step there can't be.
        to_limit = not self._stops_early and settings.beam_size > 1
        num_ended = settings.beam_size * (limit + 1 if to_limit else 1)
        return self._translator.translate_batch(
            [_name(source.tokens, self._source_names) for source in sources],
            target_prefix=[_name(source.prefix, self._target_names) for source in sources]
            if num_prefix
            else None,
            asynchronous=True,
            beam_size=settings.beam_size,
            # Where CTranslate2's own scores aren't the last word, it must not choose by them.
            num_hypotheses=num_ended
            if _needs_scoring(sources[0], settings) or settings.coverage_penalty
            else settings.beam_size,
            patience=num_ended / settings.beam_size,
            length_penalty=_find_alpha(settings),
            coverage_penalty=settings.coverage_penalty,
            suppress_sequences=self._never_emitted,
            no_repeat_ngram_size=settings.no_repeat_ngram or 0,
            min_decoding_length=min(max(settings.min_length, least), limit),
            max_decoding_length=limit,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
            return_attention=settings.coverage_penalty > 0.0,
        )

    def _read_outputs(self, result: Any, settings: Inference) -> list["_Output"]:
        """Returns what CTranslate2 found for a source."""
        outputs = []
        attentions = result.attention or [()] * len(result.scores)
        for names, score, attention in zip(
            result.hypotheses, result.scores, attentions, strict=True
        ):
            tokens = tuple([self._target_ids[name] for name in names])
            penalty = _find_own_penalty(attention, settings.coverage_penalty)
            log_probability = (score - penalty) * len(tokens) ** _find_alpha(settings)
            is_rough = penalty < -_MAX_UNDONE_PENALTY
            outputs.append(_Output(tokens, log_probability, attention, is_rough=is_rough))
        return outputs

    def _score_anew(
        self, sources: Sequence[EncodedSource], found: Sequence[Sequence["_Output"]]
    ) -> list[list["_Output"]]:
        """Returns outputs with the log-probabilities that the model gives them."""
        kept = [[o for o in outputs if o.log_probability > _NEVER] for outputs in found]
        each = [
            (source.tokens, output.tokens)
            for source, outputs in zip(sources, kept, strict=True)
            for output in outputs
        ]
        scored = iter(self.score([source for source, _ in each], [target for _, target in each]))
        return [
            [
                output._replace(log_probability=sum(of_tokens), of_tokens=tuple(of_tokens))
                for output, of_tokens in zip(outputs, scored, strict=False)
            ]
            for outputs in kept
        ]


class _Output(NamedTuple):
    """What a search came upon.

    Attributes:
        tokens: The output.
        log_probability: Sum of its tokens' log-probabilities.
        attention: What each of its tokens paid to the source [tgt_len][src_len]; nothing where no
            coverage penalty asks for it.
        of_tokens: Each token's own log-probability; none where it isn't known.
        is_rough: Rounding has left few digits of `log_probability`.
    """

    tokens: tuple[int, ...]
    log_probability: float = 0.0
    attention: Sequence[Sequence[float]] = ()
    of_tokens: tuple[float, ...] = ()
    is_rough: bool = False

    def rate(self, settings: Inference) -> Hypothesis:
        """Returns the output with its score."""
        penalty = settings.length_penalty
        coverage = _rate_coverage(self.attention, settings.coverage_penalty)
        divisor = length_penalty(penalty.kind, penalty.alpha, len(self.tokens))
        return Hypothesis(
            self.tokens,
            self.log_probability,
            self.log_probability / divisor + coverage,
            is_finished=self.tokens[-1] == EOS,
            token_log_probabilities=self.of_tokens,
        )


def open_ctranslate2_engine(folders: Sequence[Path], device: str) -> CTranslate2Engine:
    """Returns an engine with an exported model.

    Args:
        folders: The folder that `mtkit export` left, alone.
        device: `cpu`, `cuda`, `cuda:1`, or `auto`: a GPU where there is one.

    Raises:
        MtkitError: There are several folders, one holds no export, or what the engine raises.
    """
    if len(folders) > 1:
        raise MtkitError(
            f"CTranslate2 runs one model, but {len(folders)} shall speak together",
            "take --engine torch",
        )
    folder = folders[0]
    if not (folder / ENGINE_FOLDER).is_dir():
        raise MtkitError(
            f"{folder}: nothing was exported for CTranslate2 here (no {ENGINE_FOLDER}/)",
            f"mtkit export --model {folder} --output {folder}-ctranslate2",
        )
    config = read_config(folder)
    max_tokens, *names = read_names(folder / ENGINE_FOLDER)
    path = folder / ENGINE_FOLDER / MODEL_FILE
    if tuple(map(len, names)) != config.vocab_sizes:
        raise MtkitError(f"{path}: a model of another vocabulary than {folder}'s", EXPORT_AGAIN)
    check_network(path, config.model, config.vocab_sizes, max_tokens)
    return CTranslate2Engine(folder / ENGINE_FOLDER, device)


def check_settings(settings: Inference) -> None:
    """Checks that this engine can search so.

    Raises:
        MtkitError: It can't.
    """
    if settings.sampling is not None:
        raise MtkitError(
            "inference.sampling: CTranslate2 has one seed for a whole process, so what is drawn "
            "for a line would depend on the lines before it",
            'take engine = "torch" on the model that was exported',
        )


def _find_alpha(settings: Inference) -> float:
    """Returns the power of |y| that CTranslate2 is to divide by."""
    return settings.length_penalty.alpha or _NO_PENALTY


def _rate_coverage(attention: Sequence[Sequence[float]], beta: float) -> float:
    """Returns what an output's attention [tgt_len][src_len] adds to its score: at most 0.

    As `coverage_penalty` in mtkit/inference/search/coverage.py does, without torch.
    """
    return beta * sum(math.log(max(share, MIN_COVERAGE)) for share in _find_shares(attention))


def _find_own_penalty(attention: Sequence[Sequence[float]], beta: float) -> float:
    """Returns what CTranslate2 has added to an output's score for its attention."""
    return beta * sum(math.log(share) for share in _find_shares(attention) if share > 0.0)


def _find_shares(attention: Sequence[Sequence[float]]) -> list[float]:
    """Returns how much attention each source token got from the whole output, 1 at most."""
    return [min(sum(of_token), 1.0) for of_token in zip(*attention, strict=True)]


def _needs_scoring(source: EncodedSource, settings: Inference) -> bool:
    """Returns whether CTranslate2's sum of log-probabilities isn't the model's own."""
    return bool(source.prefix or settings.min_length or settings.no_repeat_ngram)


def _ended_before(limit: int, outputs: Sequence[_Output], beam_size: int) -> bool:
    """Returns whether a search with a greater limit went as it would have gone with this one.

    A beam search does where it was over before: the last of its outputs to end is among those
    returned, since fewer than `beam_size` had ended a step earlier.
    """
    longest = max(len(output.tokens) for output in outputs)
    if beam_size == 1:
        return longest <= limit
    return len(outputs) == beam_size and longest < limit


def _group(places: Iterable[int], keys: Sequence[int]) -> dict[int, list[int]]:
    """Returns places by their keys."""
    groups: dict[int, list[int]] = defaultdict(list)
    for place in places:
        groups[keys[place]].append(place)
    return groups


def _name(tokens: Sequence[int], names: Sequence[str]) -> list[str]:
    return [names[token] for token in tokens]
