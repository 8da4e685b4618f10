"""Translators of corpora: model folders, servers and large language models, and their checks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.data.preparation.held_out import check_unseen
from mtkit.data.preparation.teachers import TeacherLine, Translated, TranslateLines
from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.inference.translation import Translation
from mtkit.inference.translator import Translator
from mtkit.memory import free_memory_bytes
from mtkit.model.card import find_licence
from mtkit.model.config import check_translates, open_model_folder, read_settings
from mtkit.model.digest import digest_model
from mtkit.pipeline.teacher_runs import find_run, is_llm_recipe
from mtkit.pipeline.translate import open_models
from mtkit.recipe import Recipe
from mtkit.recipe.flags import Flags
from mtkit.recipe.synthesis import Synthesis, TranslatedKeys, is_address
from mtkit.recipe.tables import relative_to_root
from mtkit.storage import describe_location
from mtkit.text.languages import TranslatorLanguages
from mtkit.workspace import Workspace

_PROCESS_BYTES = 400 << 20
"""Memory of Python and a block of text in a process, besides weights."""
_BAD_ANSWER = "bad answer"
"""The flag of a line that a large language model didn't translate."""


@dataclass(frozen=True)
class ModelTeachers:
    """Opens the translators that corpora of a recipe name; one thread each on a CPU."""

    recipe: Recipe
    workspace: Path
    device: str = "auto"

    def is_ready(self, corpus: TranslatedKeys) -> bool:
        """Checks that the models of a corpus exist."""
        return all(_is_remote(name) or Path(name).is_dir() for name in self._list(corpus))

    def are_trained_first(self, corpus: TranslatedKeys) -> bool:
        """Checks that a model of a corpus is missing which `mtkit run` trains first."""
        named = {*corpus.translated_by, corpus.synthesis.checked_by}
        made = set(self._list(corpus)) - named
        return not all(Path(name).is_dir() for name in made)

    def check(self, corpus: TranslatedKeys, languages: tuple[str, str]) -> None:
        """Checks, before work starts, that the models of a corpus can translate it."""
        for given, others, wanted in (
            (corpus.translated_by, self._resolve(corpus, corpus.translated_by), languages),
            ((corpus.synthesis.checked_by,), self._resolve_checker(corpus), languages[::-1]),
        ):
            for name, found in zip(given, others, strict=False):
                _check_teacher(corpus, name, found, wanted)
                if not _is_remote(found):
                    origin = Workspace(Path(found).parent)
                    check_unseen(origin, self.recipe.data, self.recipe.evaluation.test_sets)

    def describe(self, corpus: TranslatedKeys) -> dict[str, Any]:
        """Returns names, digests and licences of the models of a corpus."""
        names = self._list(corpus)
        folders = [Path(name) for name in names if not _is_remote(name)]
        licences = {name: licence for name in names if (licence := _find_licence(name))}
        root = str(self.recipe.data.data_root)
        named = (*corpus.translated_by, corpus.synthesis.checked_by)
        return {
            "names": [relative_to_root(name, root) for name in named if name],
            "digests": [
                *(
                    name if is_address(name) else describe_location(Path(name))
                    for name in names
                    if _is_remote(name)
                ),
                *map(digest_model, folders),
            ],
            "licences": {relative_to_root(name, root): each for name, each in licences.items()},
        }

    def open(self, corpus: TranslatedKeys, languages: tuple[str, str]) -> TranslateLines:
        """Returns what translates a corpus's lines; `languages` are theirs and the other."""
        synthesis = corpus.synthesis
        teacher = self._open(self._resolve(corpus, corpus.translated_by), languages, synthesis)
        checker = None
        if synthesis.checked_by:
            checker = self._open(self._resolve_checker(corpus), languages[::-1], Synthesis())
        return LineTeacher(synthesis, teacher, checker)

    def max_processes(self, corpus: TranslatedKeys) -> int | None:
        """Returns how many processes have memory for all these models; one with a GPU."""
        names = self._list(corpus)
        if any(map(_is_remote, names)):
            # It sends several requests at once.
            return 1
        # Imported here: without such corpora, preparing needs no torch.
        from mtkit.network.device import find_device  # noqa: PLC0415

        if find_device(self.device).type != "cpu":
            return 1
        free = free_memory_bytes()
        if free is None:
            return None
        num_bytes = sum(
            path.stat().st_size for name in names for path in Path(name).glob("*.safetensors")
        )
        # The engine keeps its own copy of the weights.
        return max(1, free // (2 * num_bytes + _PROCESS_BYTES))

    def _resolve(self, corpus: TranslatedKeys, names: Sequence[str]) -> list[str]:
        """Returns model folders, or what is asked elsewhere, for names in a recipe."""
        workspace, rounds = Workspace(self.workspace), corpus.synthesis.rounds
        found = []
        for name in names:
            run = None if _is_remote(name) else find_run(name, self.recipe, workspace, rounds)
            found.append(name if run is None else str(run.workspace.model))
        return found

    def _resolve_checker(self, corpus: TranslatedKeys) -> list[str]:
        return self._resolve(corpus, [name for name in (corpus.synthesis.checked_by,) if name])

    def _list(self, corpus: TranslatedKeys) -> list[str]:
        return [*self._resolve(corpus, corpus.translated_by), *self._resolve_checker(corpus)]

    def _open(
        self, names: Sequence[str], languages: tuple[str, str], synthesis: Synthesis
    ) -> Translator:
        if _is_remote(names[0]):
            return open_models(names, source_language=languages[0], target_language=languages[1])
        settings = read_settings(Path(names[0])).model_copy(
            update={
                "beam_size": synthesis.beam_size,
                "n_best": synthesis.beam_size if synthesis.closest_to_reference else 1,
                "sampling": synthesis.sampling,
                "rerank": None,
                "flags": Flags() if synthesis.drop_flagged else None,
                "coverage_penalty": 0.0,
                "glossary": None,
                "fusion": None,
                "processes": 1,
            }
        )
        return Translator(
            list(map(Path, names)),
            engine="torch",
            device=self.device,
            settings=settings,
            source_language=languages[0],
            target_language=languages[1],
            warns=False,
        )


class LineTeacher:
    """Translates lines, and says which translations are dropped, and why."""

    def __init__(
        self, synthesis: Synthesis, teacher: Translator, checker: Translator | None
    ) -> None:
        self._synthesis, self._teacher, self._checker = synthesis, teacher, checker
        self._closeness = _open_closeness(synthesis.closest_to_reference)

    def __call__(self, lines: Sequence[TeacherLine]) -> Translated:
        """Returns the translations of lines, which aren't blank."""
        if not lines:
            return Translated([], [], np.zeros(0), np.zeros(0))
        # A line's number seeds its sampling.
        found = self._teacher.search(
            [Request(line.text, line=line.number) for line in lines], warns=False
        )
        texts = [
            self._choose(each, line.reference) for each, line in zip(found, lines, strict=True)
        ]
        reasons = [self._find_reason(each, text) for each, text in zip(found, texts, strict=True)]
        self._check_round_trip(lines, texts, reasons)
        return Translated(
            texts,
            reasons,
            self._score(lines, texts, reasons),
            np.array([_mean_probability(each) for each in found]),
            self._teacher.summary,
        )

    def _choose(self, found: Translation, reference: str) -> str:
        closeness = self._closeness
        if closeness is None or not reference.strip():
            return found.text
        # The first of equals is the most probable one.
        texts = (each.text for each in found.candidates)
        return max(texts, key=lambda text: closeness(text, reference))

    def _find_reason(self, found: Translation, text: str) -> str:
        if not text.strip():
            return "no translation"
        flags = [flag.name for flag in found.flags or ()]
        if _BAD_ANSWER in flags:
            return _BAD_ANSWER
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
        assert closeness is not None
        for index, each in zip(chosen, back, strict=True):
            if closeness(each.text, lines[index].text) < limit:
                reasons[index] = "round_trip"

    def _score(
        self, lines: Sequence[TeacherLine], texts: Sequence[str], reasons: Sequence[str]
    ) -> np.ndarray:
        """Returns exp(-(|H_A - H_B| + (H_A + H_B) / 2)) of each line, [lines]; NaN if not asked."""
        scores = np.full(len(lines), np.nan)
        if self._synthesis.keep is None or self._checker is None:
            return scores
        chosen = [index for index, reason in enumerate(reasons) if not reason]
        pairs = [(lines[index].text, texts[index]) for index in chosen]
        entropies = [
            np.array([-_mean_probability(each) for each in model.score(given)])
            for model, given in (
                (self._teacher, pairs),
                (self._checker, [pair[::-1] for pair in pairs]),
            )
        ]
        scores[chosen] = np.exp(-(np.abs(entropies[0] - entropies[1]) + sum(entropies) / 2))
        return scores


def _mean_probability(found: Translation) -> float:
    """Returns the mean log-probability of the best candidate's tokens; NaN without any."""
    best = found.candidates[0]
    count = len(best.token_log_probabilities)
    return best.log_probability / count if count else math.nan


def _open_closeness(metric: str | None) -> Callable[[str, str], float] | None:
    """Returns a sentence score of a text and its reference."""
    if metric is None:
        return None
    from sacrebleu.metrics.bleu import BLEU  # noqa: PLC0415
    from sacrebleu.metrics.chrf import CHRF  # noqa: PLC0415

    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    return lambda text, reference: float(scorer.sentence_score(text, [reference]).score)


def _is_remote(name: str) -> bool:
    """Checks whether a translator runs elsewhere: a server, or a large language model's file."""
    return is_address(name) or (name.endswith(".toml") and is_llm_recipe(Path(name)))


def _check_teacher(
    corpus: TranslatedKeys, name: str, found: str, languages: tuple[str, str]
) -> None:
    if _is_remote(found):
        if not corpus.is_typed:
            raise MtkitError(
                f"translated_by: {name} would get your text, and only the recipe names it",
                "if that is meant, name it on the command line: "
                f"--set data.train.N.translated_by={name}",
            )
        return
    folder = Path(found)
    if not folder.is_dir():
        is_made = found != name
        raise MtkitError(
            f"translated_by: {name}: "
            + (f"its model isn't trained yet ({folder})" if is_made else f"no folder {folder}"),
            "`mtkit run` trains it first"
            if is_made
            else "name the model/ folder of a run; a relative path starts from data.data_root",
        )
    opened = open_model_folder(folder)
    check_translates(opened.config, "translated_by")
    config = opened.config
    has = TranslatorLanguages.of(
        opened.tokenizer.languages, config.source_language, config.target_language
    )
    try:
        has.resolve(*languages)
    except MtkitError as error:
        raise MtkitError(
            f"translated_by: {name} doesn't translate {languages[0]} into {languages[1]}: "
            f"{error.message}",
            "for a corpus with `target` alone it is the translator in the other direction",
        ) from error


def _find_licence(name: str) -> str:
    if is_address(name):
        return ""
    if name.endswith(".toml"):
        from mtkit.llm.settings import read_llm_settings  # noqa: PLC0415

        return read_llm_settings(Path(name)).licence
    return find_licence(Path(name))
