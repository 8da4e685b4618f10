"""Translators of corpora: model folders, servers and large language models, and their checks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtkit.data.preparation.held_out import check_unseen
from mtkit.data.preparation.teachers import TranslateLines
from mtkit.errors import MtkitError, suggest
from mtkit.executor import WorkerNeeds
from mtkit.inference.translator import Translator
from mtkit.model.card import find_licence
from mtkit.model.config import check_translates, open_model_folder, read_settings
from mtkit.model.digest import digest_model
from mtkit.pipeline.line_teacher import LineTeacher
from mtkit.pipeline.teacher_runs import Run, is_llm_recipe
from mtkit.pipeline.translate import open_models
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import TranslatedCorpus, corpus_names, list_translated
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference
from mtkit.recipe.invalidation import Invalidates
from mtkit.recipe.synthesis import PAIRS, REVERSE, Synthesis, is_address
from mtkit.recipe.tables import WHOLE_RECIPE, relative_to_root, select_keys
from mtkit.storage import describe_location
from mtkit.text.languages import TranslatorLanguages, is_language_tag
from mtkit.workspace import Workspace

_PROCESS_BYTES = 600 << 20
"""Memory of Python, torch and a block of text in a process, besides weights."""
_OF_INFERENCE = WHOLE_RECIPE.of_key("inference")
_KEYS_OF_FOLDERS = ("beam_size", "sampling", "closest_to_reference", "drop_flagged", "keep")
"""Keys of `synthesis` for which the translator must be a model folder."""


@dataclass(frozen=True)
class _Named:
    """A translator that a recipe names: what it resolves to, and the key that names it.

    Attributes:
        found: Model folders; or one address, or the file of a large language model.
        made_by: The recipe from which `mtkit run` trains it, if any.
        languages: What it reads and writes.
    """

    key: str
    names: tuple[str, ...]
    found: tuple[str, ...]
    made_by: Recipe | None
    languages: tuple[str, str]

    @property
    def is_remote(self) -> bool:
        """Whether it runs elsewhere: a server, or a large language model."""
        return is_remote(self.found[0])

    @property
    def folders(self) -> list[Path]:
        """The model folders; none if it runs elsewhere."""
        return [] if self.is_remote else list(map(Path, self.found))


@dataclass(frozen=True)
class ModelTeachers:
    """Opens the translators that corpora of a recipe name; one thread each on a CPU."""

    recipe: Recipe
    workspace: Path

    def is_ready(self, corpus: TranslatedCorpus) -> bool:
        """Checks that the models of a corpus exist, or have existed for the run's translations."""
        exist = all(folder.is_dir() for each in self._list(corpus) for folder in each.folders)
        return exist or self._read_recorded(corpus) is not None

    def are_trained_first(self, corpus: TranslatedCorpus) -> bool:
        """Checks that `mtkit run` must first train a model of a corpus."""
        made = (each for each in self._list(corpus) if each.made_by is not None)
        return not all(folder.is_dir() for each in made for folder in each.folders)

    def keeps_translations(self, corpus: TranslatedCorpus) -> bool:
        """Checks that a run has learned from translations, which then stay as they are."""
        return Workspace(self.workspace).has_checkpoints and self._read_recorded(corpus) is not None

    def check(self, corpus: TranslatedCorpus, *, are_trained_first: bool = False) -> None:
        """Checks, before work starts, that the models of a corpus can translate it.

        Models that aren't trained yet are an error unless they `are_trained_first`.
        """
        keeps = self.keeps_translations(corpus)
        for each in self._list(corpus):
            if keeps:
                self._check_unseen(folder for folder in each.folders if folder.is_dir())
            elif each.is_remote:
                self._check_remote(corpus, each)
                if is_address(each.found[0]):
                    # Whether it answers, in these languages.
                    self._open(each, Synthesis()).translate("1")
            elif each.made_by is not None and are_trained_first:
                _check_recipe(each, each.made_by)
            else:
                self._check_folders(each)

    def describe(self, corpus: TranslatedCorpus) -> dict[str, Any]:
        """Returns names, digests and licences of the models of a corpus.

        A run that has learned from translations keeps them, and so does one whose model is gone.
        """
        named = self._list(corpus)
        is_missing = not all(folder.is_dir() for each in named for folder in each.folders)
        recorded = self._read_recorded(corpus)
        if recorded is not None and (is_missing or self.keeps_translations(corpus)):
            return recorded
        root = str(self.recipe.data.data_root)
        every = [name for each in named for name in each.found]
        return {
            "names": [relative_to_root(name, root) for name in named[0].names],
            "digests": [
                *(digest for each in named for digest in self._digest(each, corpus.synthesis)),
                *filter(None, [_find_tag(corpus, named[0])]),
            ],
            "licences": {
                relative_to_root(name, root): licence
                for name in every
                if (licence := _find_licence(name))
            },
        }

    def open(self, corpus: TranslatedCorpus) -> TranslateLines:
        """Returns what translates a corpus's lines."""
        teacher, *checkers = self._list(corpus)
        for each in (teacher, *checkers):
            if each.is_remote:
                # Also where a run keeps its translations, and its text has changed.
                self._check_remote(corpus, each)
        synthesis = corpus.synthesis
        tag = _find_tag(corpus, teacher)
        opened = self._open(teacher, synthesis, tag)
        checker = self._open(checkers[0], Synthesis()) if checkers else None
        return LineTeacher(synthesis, opened, checker, tag)

    def needs(self, corpus: TranslatedCorpus) -> WorkerNeeds:
        """Returns what a worker that translates a corpus needs."""
        named = self._list(corpus)
        if any(each.is_remote for each in named):
            # It sends several requests at once.
            return WorkerNeeds(is_remote=True)
        return estimate_needs([path for each in named for path in each.folders])

    def _list(self, corpus: TranslatedCorpus) -> list[_Named]:
        """Returns the translator of a corpus, and the one that checks it, if any."""
        given = self.recipe.data.languages
        languages = given[::-1] if corpus.is_backwards else given
        index = self.recipe.data.train.index(corpus)
        named = [("translated_by", corpus.translated_by, languages)]
        if corpus.synthesis.checked_by:
            checker = (corpus.synthesis.checked_by,)
            named.append(("synthesis.checked_by", checker, languages[::-1]))
        found, run = [], Run(self.recipe, Workspace(self.workspace))
        for key, names, pair in named:
            made = run.find_teacher(names[0], corpus.synthesis.rounds)
            folders = names if made is None else (str(made.workspace.model),)
            made_by = None if made is None else made.recipe
            found.append(_Named(f"data.train.{index}.{key}", names, folders, made_by, pair))
        return found

    def _read_recorded(self, corpus: TranslatedCorpus) -> dict[str, Any] | None:
        """Returns what the workspace's translations of a corpus were made by; None without any."""
        prepared = Workspace(self.workspace).read_manifest().get("prepare", {})
        train = self.recipe.data.train
        known: dict[str, dict[str, Any]] = prepared.get("teachers", {})
        index, names = train.index(corpus), corpus_names(train)
        translated = [train.index(each) for each in list_translated(train)]
        if names[index] not in known and len(translated) == len(known):
            # It may have got another name.
            found = list(known.values())[translated.index(index)]
            root = str(self.recipe.data.data_root)
            own = [relative_to_root(name, root) for name in corpus.translated_by]
            return found if found["names"] == own else None
        return known.get(names[index])

    def _check_remote(self, corpus: TranslatedCorpus, named: _Named) -> None:
        key = named.key.split(".", 3)[3]
        if key not in corpus.command_line_keys:
            raise MtkitError(
                f"{named.key}: your text would be sent to {named.names[0]}, which only the recipe "
                "names",
                f"to allow this, name it on the command line: --set {named.key}={named.names[0]}",
            )
        keys = _KEYS_OF_FOLDERS if key == "translated_by" else ("keep",)
        default = Synthesis()
        ignored = [
            name for name in keys if getattr(corpus.synthesis, name) != getattr(default, name)
        ]
        if ignored:
            raise MtkitError(
                f"{named.key}: {named.names[0]} runs elsewhere and has its own settings, so "
                f"synthesis.{ignored[0]} has no effect",
                "remove it, or name a model folder",
            )
        if not is_address(named.found[0]):
            # Imported here: few corpora are translated by one.
            from mtkit.llm.open_llm import open_llm  # noqa: PLC0415

            source, target = named.languages
            try:
                open_llm(Path(named.found[0]), source_language=source, target_language=target)
            except MtkitError as error:
                fault = f"{named.key}: {named.names[0]}: {error.message}"
                raise MtkitError(fault, error.hint) from error

    def _check_folders(self, named: _Named) -> None:
        for name, folder in zip(named.names, named.folders, strict=True):
            if not folder.is_dir():
                raise _explain_missing(named, name, folder)
            try:
                opened = open_model_folder(folder)
            except MtkitError as error:
                raise MtkitError(f"{named.key}: {error.message}", error.hint) from error
            check_translates(opened.config, named.key, takes_decoder_only=True)
            config = opened.config
            has = TranslatorLanguages.of(
                opened.tokenizer.languages, config.source_language, config.target_language
            )
            _check_languages(named, name, has)
            self._check_unseen([folder])

    def _check_unseen(self, folders: Iterable[Path]) -> None:
        """Checks that models haven't learned from the recipe's test sets."""
        for folder in folders:
            check_unseen(
                Workspace(folder.parent), self.recipe.data, self.recipe.evaluation.test_sets
            )

    def _digest(self, named: _Named, synthesis: Synthesis) -> Iterator[Any]:
        """Yields what a translation depends on: models and search settings."""
        for folder in named.folders:
            yield digest_model(folder)
        if named.folders:
            settings = self._choose_settings(named, synthesis).model_dump(mode="json")
            yield select_keys(settings, Invalidates.TRANSLATIONS, declared=_OF_INFERENCE)
            if settings["precision"] != "auto":
                yield settings["precision"]
        elif is_address(named.found[0]):
            yield named.found[0]
        else:
            yield describe_location(Path(named.found[0]))

    def _choose_settings(self, named: _Named, synthesis: Synthesis) -> Inference:
        return read_settings(Path(named.found[0])).model_copy(
            update={
                "beam_size": synthesis.beam_size,
                "n_best": synthesis.beam_size if synthesis.closest_to_reference else 1,
                "sampling": synthesis.sampling,
                "rerank": None,
                "flags": Flags() if synthesis.drop_flagged else None,
                "coverage_penalty": 0.0,
                "glossary": None,
                "quality": None,
                "fusion": None,
                "processes": 1,
            }
        )

    def _open(self, named: _Named, synthesis: Synthesis, tag: str = "") -> Translator:
        """Returns a translator; a `tag` of its lines may choose their target language."""
        source, target = named.languages
        if named.is_remote:
            return open_models(named.found, source_language=source, target_language=target)
        return Translator(
            named.folders,
            settings=self._choose_settings(named, synthesis),
            source_language=source,
            target_language="" if is_language_tag(tag) else target,
            warns=False,
        )


def estimate_needs(folders: Iterable[Path], device: str = "auto") -> WorkerNeeds:
    """Returns what a worker needs that opens the models in some folders."""
    # Imported here: without models, preparing needs no torch.
    from mtkit.model.adapter import list_weight_files  # noqa: PLC0415
    from mtkit.network.device import find_device  # noqa: PLC0415

    files = (path for folder in set(folders) for path in list_weight_files(folder))
    # Weights exist twice while they are loaded or reordered.
    num_bytes = 2 * sum(path.stat().st_size for path in files) + _PROCESS_BYTES
    return WorkerNeeds(num_bytes, on_gpu=find_device(device).type != "cpu")


def _find_tag(corpus: TranslatedCorpus, teacher: _Named) -> str:
    """Returns the tag that a teacher reads before each line: the corpus's, if it knows it."""
    if not corpus.tag or corpus.is_backwards:
        return ""
    tokenizers = (open_model_folder(folder).tokenizer for folder in teacher.folders)
    return corpus.tag if any(corpus.tag in each.tags for each in tokenizers) else ""


def _check_recipe(named: _Named, recipe: Recipe) -> None:
    """Checks, before it is trained, that a recipe's model will translate a corpus."""
    if recipe.objective not in ("translation", "denoising"):
        raise MtkitError(
            f"{named.key}: {named.names[0]}: its objective is {recipe.objective}",
            "name the recipe of a translator",
        )
    if recipe.training.start_from is None:
        # A public model that it starts from may know more languages.
        _check_languages(
            named, named.names[0], TranslatorLanguages.of(None, *recipe.data.languages)
        )


def _check_languages(named: _Named, name: str, has: TranslatorLanguages) -> None:
    source, target = named.languages
    try:
        has.resolve(source, target)
    except MtkitError as error:
        raise MtkitError(
            f"{named.key}: {name} doesn't translate {source} into {target}: {error.message}",
            "for a corpus with `target` alone `translated_by` translates backwards, from "
            "the recipe's target language; `checked_by` translates the other way",
        ) from error


def _explain_missing(named: _Named, name: str, folder: Path) -> MtkitError:
    if named.made_by is not None:
        return MtkitError(
            f"{named.key}: {name}: its model isn't trained yet ({folder})",
            "`mtkit run` trains it first",
        )
    what = "is a file, not a model folder" if folder.is_file() else "no such folder"
    return MtkitError(
        f"{named.key}: {folder}: {what}{suggest(Path(name).name, (REVERSE, PAIRS))}",
        "name the model/ folder of a run; paths are relative to data.data_root",
    )


def is_remote(name: str) -> bool:
    """Checks whether a translator runs elsewhere: a server, or a large language model's file."""
    return is_address(name) or (name.endswith(".toml") and is_llm_recipe(Path(name)))


def _find_licence(name: str) -> str:
    if is_address(name):
        return ""
    if name.endswith(".toml"):
        from mtkit.llm.settings import read_llm_settings  # noqa: PLC0415

        return read_llm_settings(Path(name)).licence
    return find_licence(Path(name))
