"""Translates the lines of a corpus, and reports which translations are dropped."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from mtkit.data.preparation.teachers import TeacherLine, Translated
from mtkit.data.sources.corpora import put_tag
from mtkit.inference.request import BAD_ANSWER, Request
from mtkit.inference.streams.byte_lines import answer_each
from mtkit.inference.translation import Translation
from mtkit.inference.translator import Translator
from mtkit.recipe.synthesis import Synthesis


class LineTeacher:
    """Translates lines, and says which translations are dropped, and why.

    `tag` precedes each line, for a model that was trained with it.
    """

    def __init__(
        self,
        synthesis: Synthesis,
        teacher: Translator,
        checker: Translator | None,
        tag: str = "",
    ) -> None:
        self._synthesis, self._teacher, self._checker = synthesis, teacher, checker
        self._tag = tag
        metric = synthesis.closest_to_reference
        self._closeness = None if metric is None else _open_closeness(metric)

    def __call__(self, lines: Sequence[TeacherLine]) -> Translated:
        """Returns the translations of lines, which aren't blank."""
        if not lines:
            return Translated([], [], np.zeros(0), np.zeros(0))
        # A line's number seeds its sampling.
        requests = [Request(put_tag(self._tag, line.text), line=line.number) for line in lines]
        with one_thread():
            found = self._teacher.search(requests, warns=False)
            chosen = self._choose(requests, found, lines)
            texts = [each.text for each in chosen]
            reasons = list(map(self._find_reason, chosen))
            self._check_round_trip(lines, texts, reasons)
            scores = self._score(lines, texts, reasons)
        log_probabilities = _list_log_probabilities(chosen)
        return Translated(texts, reasons, scores, log_probabilities, self._teacher.summary)

    def _choose(
        self,
        requests: Sequence[Request],
        found: Sequence[Translation],
        lines: Sequence[TeacherLine],
    ) -> list[Translation]:
        """Returns each line's candidate that is closest to its reference, with its own flags."""
        closeness, chosen = self._closeness, list(found)
        if closeness is None:
            return chosen
        others = []
        for index, (each, line) in enumerate(zip(found, lines, strict=True)):
            if line.reference.strip():
                # The first of equals is the most probable one.
                scores = [closeness(one.text, line.reference) for one in each.candidates]
                best = scores.index(max(scores))
                others += [index] if best else []
                chosen[index] = replace(each, candidates=each.candidates[best:])
        if others and self._synthesis.drop_flagged:
            # The search has flagged the most probable one.
            pairs = [Request(requests[i].text, chosen[i].text) for i in others]
            found_flags = answer_each(pairs, self._teacher.score)
            for index, scored in zip(others, found_flags, strict=True):
                if scored is not None:
                    chosen[index] = replace(chosen[index], flags=scored.flags)
        return chosen

    def _find_reason(self, found: Translation) -> str:
        if not found.text.strip():
            return "no translation"
        # A tag may ask for another language than the recipe's.
        flags = [
            flag.name
            for flag in found.flags or ()
            if not (self._tag and flag.name == "wrong language")
        ]
        if BAD_ANSWER in flags:
            return BAD_ANSWER
        return flags[0] if self._synthesis.drop_flagged and flags else ""

    def _check_round_trip(
        self, lines: Sequence[TeacherLine], texts: Sequence[str], reasons: list[str]
    ) -> None:
        """Adds a reason for each translation that comes back too different."""
        limit = self._synthesis.min_round_trip
        if limit is None or self._checker is None:
            return
        chosen = [index for index, reason in enumerate(reasons) if not reason]
        back = self._checker.search([texts[index] for index in chosen], warns=False)
        closeness = _open_closeness("chrf")
        for index, each in zip(chosen, back, strict=True):
            if closeness(each.text, lines[index].text) < limit:
                reasons[index] = "round_trip"

    def _score(
        self, lines: Sequence[TeacherLine], texts: Sequence[str], reasons: list[str]
    ) -> np.ndarray:
        """Returns exp(-(|H_A - H_B| + (H_A + H_B) / 2)) per line, [lines]; NaN without `keep`.

        Adds a reason for each translation that is too long for one of the models.
        """
        scores = np.full(len(lines), np.nan)
        if self._synthesis.keep is None or self._checker is None:
            return scores
        chosen = [index for index, reason in enumerate(reasons) if not reason]
        pairs = [Request(put_tag(self._tag, lines[i].text), texts[i]) for i in chosen]
        reversed_pairs = [Request(texts[i], lines[i].text) for i in chosen]
        forward, backward = (
            -_list_log_probabilities(answer_each(given, model.score))
            for model, given in ((self._teacher, pairs), (self._checker, reversed_pairs))
        )
        scores[chosen] = np.exp(-(np.abs(forward - backward) + (forward + backward) / 2))
        for index in chosen:
            if np.isnan(scores[index]):
                reasons[index] = "too long to score"
        return scores


def _list_log_probabilities(found: Iterable[Translation | None]) -> np.ndarray:
    """Returns the best candidates' mean log-probability of a token, [lines]; NaN without any."""
    return np.array(
        [np.nan if each is None else each.candidates[0].mean_log_probability for each in found],
        float,
    )


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits torch, if it is loaded, to one thread while the block runs.

    Sums, and so the choice between equally good outputs, are then the same in any process.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _open_closeness(metric: str) -> Callable[[str, str], float]:
    """Returns a sentence score of a text and its reference."""
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415
    from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415

    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    return lambda text, reference: float(scorer.sentence_score(text, [reference]).score)
