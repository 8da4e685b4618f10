"""The front door of `mtkit export`: a run's model, or a model folder, for other programs."""

from collections.abc import Sequence
from pathlib import Path

from mtkit.console import say, warn
from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepared import read_dev_text, read_facts
from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.inference.export import ExportReport
from mtkit.inference.export import export as export_folder
from mtkit.inference.export_argos import export_argos
from mtkit.inference.export_transformers import export_transformers
from mtkit.model.card import find_licence
from mtkit.model.config import ModelConfig, open_model_folder, read_config
from mtkit.model.exporters.ctranslate2_files import ENGINE_FOLDER, read_origin
from mtkit.model.importers.licence import Licence
from mtkit.pipeline.engine_choice import check_gains, find_export_fault, read_quantization
from mtkit.pipeline.import_model import tell_licence
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import HubTrainingCorpus
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.override_section import override_section
from mtkit.workspace import Workspace

_NUM_PHRASES = 200


def export(
    recipe: Recipe,
    workspace: Workspace,
    *,
    output: Path | None = None,
    quantization: str = "float32",
    lines_file: Path | None = None,
) -> ExportReport:
    """Exports a run's model to a folder that CTranslate2 translates with.

    Args:
        recipe: Whose decoding settings travel with it.
        workspace: The run.
        output: Where to; the workspace's `export` where not given.
        quantization: CTranslate2's number type for matrices.
        lines_file: Sentences to compare on; the development set where not given.

    Raises:
        MtkitError: There is no model, or what `mtkit.inference.export.export` raises.
    """

    def record(folder: Path) -> None:
        made_from, _ = read_origin(folder / ENGINE_FOLDER)
        facts = {"folder": str(folder), "quantization": quantization, "model": made_from}
        workspace.record("export", facts)

    config = open_model_folder(workspace.model).config
    sources, references = _read_text(config, lines_file, workspace)
    return export_folder(
        workspace.model,
        output if output is not None else workspace.export,
        quantization=quantization,
        lines=sources,
        references=references,
        settings=recipe.inference,
        evaluation=recipe.evaluation,
        record=record,
    )


def update_export(recipe: Recipe, workspace: Workspace, *, device: str) -> None:
    """Exports a run's model if `mtkit translate` is to take an export, and none is up to date.

    Under `inference.engine = "auto"` that is where CTranslate2 is installed and would be quicker:
    in int8 if the recipe allows that, else in float32. An export by hand in another type stays.

    Raises:
        MtkitError: `inference.engine = "ctranslate2"`, and the model can't be exported.
    """
    settings = recipe.inference
    if settings.engine == "torch":
        return
    if settings.engine == "ctranslate2":
        _export_unless_up_to_date(recipe, workspace, read_quantization(workspace) or "float32")
        return
    quantization = "int8" if settings.allow_int8 else "float32"
    try:
        check_gains(read_config(workspace.model), settings, quantization, device)
    except MtkitError:
        return
    try:
        if read_quantization(workspace) in ("", quantization):
            _export_unless_up_to_date(recipe, workspace, quantization)
    except MtkitError as error:
        warn(f"not exported for CTranslate2: {error.message}")


def _export_unless_up_to_date(recipe: Recipe, workspace: Workspace, quantization: str) -> None:
    if read_quantization(workspace) and find_export_fault(workspace) is None:
        say("export: up to date")
    else:
        export(recipe, workspace, quantization=quantization)


def export_model(
    folder: Path,
    output: Path,
    overrides: Sequence[str] = (),
    *,
    quantization: str = "float32",
    lines_file: Path | None = None,
) -> ExportReport:
    """Exports a portable model folder to one that CTranslate2 translates with.

    Args:
        folder: The model folder.
        output: Where to.
        overrides: Changes to its decoding defaults, as in `inference.beam_size=8`.
        quantization: CTranslate2's number type for matrices.
        lines_file: Sentences to compare both engines on; the embedded corpus, where the languages
            are its own, if not given.

    Raises:
        MtkitError: No model there, no sentences to compare the engines on, an override of a key
            that isn't a decoding default, or what `mtkit.inference.export.export` raises.
    """
    opened = open_model_folder(folder)
    has_several = opened.tokenizer.has_language_pieces
    sources, references = _read_text(opened.config, lines_file, has_several=has_several)
    report = export_folder(
        folder,
        output,
        quantization=quantization,
        lines=sources,
        references=references,
        settings=override_section(opened.settings, "inference", overrides),
        evaluation=_choose_evaluation(opened.config.target_language),
    )
    if licence := find_licence(folder):
        tell_licence(Licence(origin=str(folder), name=licence))
    return report


def export_for_transformers(
    recipe: Recipe,
    workspace: Workspace,
    *,
    output: Path | None = None,
    lines_file: Path | None = None,
) -> None:
    """Exports a run's model to a folder that transformers loads.

    Args:
        recipe: Whose decoding settings travel with it.
        workspace: The run.
        output: Where to; the workspace's `transformers` where not given.
        lines_file: Sentences to compare on; the development set where not given.

    Raises:
        MtkitError: There is no model, or what `export_transformers` raises.
    """
    opened = open_model_folder(workspace.model)
    sources, _ = _read_text(opened.config, lines_file, workspace)
    names = [
        corpus.dataset for corpus in recipe.data.train if isinstance(corpus, HubTrainingCorpus)
    ]
    export_transformers(
        workspace.model,
        output if output is not None else workspace.transformers,
        lines=sources,
        settings=recipe.inference,
        metadata={"datasets": list(dict.fromkeys(names))},
    )


def export_model_for_transformers(
    folder: Path, output: Path, overrides: Sequence[str] = (), *, lines_file: Path | None = None
) -> None:
    """Exports a portable model folder to one that transformers loads.

    Args:
        folder: The model folder.
        output: Where to.
        overrides: Changes to its decoding defaults.
        lines_file: Sentences to compare on; the embedded corpus, where the languages are its own,
            if not given.

    Raises:
        MtkitError: No model there, no sentences, or what `export_transformers` raises.
    """
    opened = open_model_folder(folder)
    has_several = opened.tokenizer.has_language_pieces
    sources, _ = _read_text(opened.config, lines_file, has_several=has_several)
    export_transformers(
        folder,
        output,
        lines=sources,
        settings=override_section(opened.settings, "inference", overrides),
    )


def export_for_argos(
    recipe: Recipe,
    workspace: Workspace,
    *,
    output: Path | None = None,
    quantization: str = "int8",
    lines_file: Path | None = None,
) -> None:
    """Exports a run's model as a package of Argos Translate.

    Args:
        recipe: Whose decoding settings both engines are compared with.
        workspace: The run.
        output: The file; in the workspace where not given.
        quantization: CTranslate2's number type for matrices.
        lines_file: Sentences to compare on; the development set where not given.

    Raises:
        MtkitError: There is no model, or what `export_argos` raises.
    """
    config = open_model_folder(workspace.model).config
    sources, references = _read_text(config, lines_file, workspace)
    name = f"translate-{config.source_language}_{config.target_language}.argosmodel"
    export_argos(
        workspace.model,
        output if output is not None else workspace.root / name,
        quantization=quantization,
        lines=sources,
        references=references,
        settings=recipe.inference,
        evaluation=recipe.evaluation,
    )


def export_model_for_argos(
    folder: Path,
    output: Path,
    overrides: Sequence[str] = (),
    *,
    quantization: str = "int8",
    lines_file: Path | None = None,
) -> None:
    """Exports a portable model folder as a package of Argos Translate.

    Args:
        folder: The model folder.
        output: The file.
        overrides: Changes to the decoding defaults that both engines are compared with.
        quantization: CTranslate2's number type for matrices.
        lines_file: Sentences to compare on; the embedded corpus, where the languages are its own,
            if not given.

    Raises:
        MtkitError: No model there, no sentences, or what `export_argos` raises.
    """
    opened = open_model_folder(folder)
    sources, references = _read_text(opened.config, lines_file)
    export_argos(
        folder,
        output,
        quantization=quantization,
        lines=sources,
        references=references,
        settings=override_section(opened.settings, "inference", overrides),
        evaluation=_choose_evaluation(opened.config.target_language),
    )


def _read_text(
    config: ModelConfig,
    lines_file: Path | None,
    workspace: Workspace | None = None,
    *,
    has_several: bool = False,
) -> tuple[list[str], list[str]]:
    """Returns lines to translate, and their references where there are any.

    A model of several languages translates the embedded corpus whatever it is made for.

    Raises:
        MtkitError: There are no lines.
    """
    if lines_file is not None:
        return list(read_lines(lines_file)), []
    if workspace is not None and read_facts(workspace):
        return read_dev_text(workspace)
    if (config.source_language, config.target_language) == ("en", "de"):
        say("comparing on the embedded phrasebook; use --lines FILE for text of your own")
        pairs = list(generate_pairs("test", _NUM_PHRASES))
        return [source for source, _ in pairs], [reference for _, reference in pairs]
    if has_several:
        say("comparing on the embedded phrasebook; use --lines FILE for text of your own")
        return [source for source, _ in generate_pairs("test", _NUM_PHRASES)], []
    raise MtkitError(
        "no text to compare the engines on",
        f"give a file of {config.source_language} sentences with --lines FILE",
    )


def _choose_evaluation(language: str) -> Evaluation:
    """Returns how BLEU finds the words of a language, without packages that may not be there."""
    settings = resolve_tokenizer(Evaluation(), language)
    return Evaluation(tokenize="char") if settings.tokenize.endswith("-mecab") else settings
