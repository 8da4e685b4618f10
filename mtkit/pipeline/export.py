"""Entry point of `mtkit export`: exports a run's model or a model folder for other programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mtkit.console import say
from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepared import read_dev_text, read_facts
from mtkit.data.sources.lines import read_lines
from mtkit.errors import MtkitError
from mtkit.evaluation.tokenizers import resolve_tokenizer
from mtkit.inference.export import export as export_for_ctranslate2
from mtkit.inference.export_argos import export_argos
from mtkit.inference.export_transformers import export_transformers
from mtkit.model.card import find_licence
from mtkit.model.config import ModelConfig, open_model_folder
from mtkit.model.importers.licence import Licence
from mtkit.pipeline.import_model import tell_licence
from mtkit.recipe import Recipe
from mtkit.recipe.corpora import HubTrainingCorpus
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section
from mtkit.workspace import Workspace

ExportForm = Literal["ctranslate2", "transformers", "argos"]
"""Values of `--format`."""
_NUM_PHRASES = 200


@dataclass(frozen=True)
class ExportedModel:
    """A model to export, with the text for comparing both programs.

    Attributes:
        settings: Decoding settings of the export.
        lines: The text for the comparison.
        references: Its translations, or empty.
        evaluation: How BLEU tokenises.
        workspace: The model's run; None for a separate folder.
        datasets: Names of its training data sets, if known.
    """

    folder: Path
    config: ModelConfig
    settings: Inference
    lines: list[str]
    references: list[str]
    evaluation: Evaluation
    workspace: Workspace | None = None
    datasets: tuple[str, ...] = ()

    def choose_output(self, form: ExportForm) -> Path:
        """Returns the default path of an export, in the run's workspace."""
        assert self.workspace is not None, "callers choose the output of a folder without a run"
        match form:
            case "ctranslate2":
                return self.workspace.export
            case "transformers":
                return self.workspace.transformers
            case "argos":
                languages = f"{self.config.source_language}_{self.config.target_language}"
                return self.workspace.root / f"translate-{languages}.argosmodel"


def open_run(
    recipe: Recipe, workspace: Workspace, *, lines_file: Path | None = None
) -> ExportedModel:
    """Returns a run's model; `lines_file` replaces the development set for the comparison."""
    config = open_model_folder(workspace.model).config
    lines, references = _read_text(config, lines_file, workspace)
    names = [
        corpus.dataset for corpus in recipe.data.train if isinstance(corpus, HubTrainingCorpus)
    ]
    return ExportedModel(
        workspace.model,
        config,
        recipe.inference,
        lines,
        references,
        recipe.evaluation,
        workspace,
        tuple(dict.fromkeys(names)),
    )


def open_folder(
    folder: Path, overrides: Sequence[str] = (), *, lines_file: Path | None = None
) -> ExportedModel:
    """Returns the model of a portable folder.

    `overrides` change its decoding defaults. Without `lines_file` the comparison uses the embedded
    corpus if its languages match.
    """
    opened = open_model_folder(folder)
    has_several = opened.tokenizer.has_language_pieces
    lines, references = _read_text(opened.config, lines_file, has_several=has_several)
    settings = override_section(opened.settings, "inference", overrides)
    evaluation = _choose_evaluation(opened.config.target_language)
    return ExportedModel(folder, opened.config, settings, lines, references, evaluation)


def export(
    exported: ExportedModel,
    output: Path | None = None,
    *,
    form: ExportForm = "ctranslate2",
    quantization: str = "",
) -> None:
    """Writes a model for another program, which then translates the same.

    Args:
        exported: The model.
        output: A folder, or the file of a package; a run has a default.
        form: The other program's format.
        quantization: CTranslate2's number type for matrices; by default float32, in a package int8.
    """
    output = output if output is not None else exported.choose_output(form)
    match form:
        case "ctranslate2":
            _export_for_ctranslate2(exported, output, quantization or "float32")
        case "transformers":
            export_transformers(
                exported.folder,
                output,
                lines=exported.lines,
                settings=exported.settings,
                metadata={"datasets": exported.datasets},
            )
        case "argos":
            export_argos(
                exported.folder,
                output,
                quantization=quantization or "int8",
                lines=exported.lines,
                references=exported.references,
                settings=exported.settings,
                evaluation=exported.evaluation,
            )


def _export_for_ctranslate2(exported: ExportedModel, output: Path, quantization: str) -> None:
    workspace = exported.workspace

    def record(folder: Path, made_from: str) -> None:
        if workspace is not None:
            facts = {"folder": str(folder), "quantization": quantization, "model": made_from}
            workspace.record("export", facts)

    report = export_for_ctranslate2(
        exported.folder,
        output,
        quantization=quantization,
        lines=exported.lines,
        references=exported.references,
        settings=exported.settings,
        evaluation=exported.evaluation,
        record=record,
    )
    say(f"{output}: {report.num_bytes / 1e6:,.1f} MB of weights, {quantization}")
    if workspace is None and (licence := find_licence(exported.folder)):
        tell_licence(Licence(origin=str(exported.folder), name=licence))


def _read_text(
    config: ModelConfig,
    lines_file: Path | None,
    workspace: Workspace | None = None,
    *,
    has_several: bool = False,
) -> tuple[list[str], list[str]]:
    """Returns lines to translate, and their references if there are any."""
    if lines_file is not None:
        return list(read_lines(lines_file)), []
    if workspace is not None and read_facts(workspace):
        return read_dev_text(workspace)
    is_its_own = (config.source_language, config.target_language) == ("en", "de")
    if is_its_own or has_several:
        say("comparing on the embedded phrasebook; use --lines FILE for text of your own")
        sources, references = map(list, zip(*generate_pairs("test", _NUM_PHRASES), strict=True))
        return sources, references if is_its_own else []
    raise MtkitError(
        "no text to compare the engines on",
        f"give a file of {config.source_language} sentences with --lines FILE",
    )


def _choose_evaluation(language: str) -> Evaluation:
    """Returns BLEU settings for a language that need no optional packages."""
    settings = resolve_tokenizer(Evaluation(), language)
    return Evaluation(tokenize="char") if settings.tokenize.endswith("-mecab") else settings
