"""The front door of `mtkit export`: a model folder for CTranslate2.

The folder is a model folder with CTranslate2's own files, in `ctranslate2/`, in place of
`model.safetensors`. It is put in place once both engines were seen to do the same with it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.folders import building, remove_folder
from mtkit.inference.engines.ctranslate2_engine import CTranslate2Engine, check_settings
from mtkit.inference.engines.engine import Engine
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.parity import Comparison, Parity, check_parity, compare_translations
from mtkit.model.card import CARD_FILE, read_card, with_export
from mtkit.model.config import CONFIG_FILE, INFERENCE_FILE, write_section
from mtkit.model.digest import digest_model, reading
from mtkit.model.exporters.ctranslate2 import (
    check_convertible,
    check_quantization,
    write_ctranslate2,
)
from mtkit.model.exporters.ctranslate2_files import ENGINE_FOLDER, holds_export
from mtkit.model.exporters.ctranslate2_library import load_library
from mtkit.model.folder import LoadedModel, load_model_folder
from mtkit.network.device import limit_threads
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import TOKENIZER_FILES, SubwordTokenizer

MAX_LOSS = 1.0
"""A quantized model that loses more BLEU than this against references is refused."""
MIN_AGREEMENT = 70.0
"""Without references, one whose output has less BLEU than this against torch's is warned of."""

_MAX_LINES = 200
"""Lines translated by both engines."""
_MAX_PARITY_LINES = 50
"""Lines whose n-best lists are compared: that takes several times as long."""
_MIN_POSITIONS = 1_024
"""Exported waves reach this far at least, so that settings can still be raised a little."""
_FILES = (CARD_FILE, CONFIG_FILE, INFERENCE_FILE, *TOKENIZER_FILES)
"""What an export may hold beside CTranslate2's own files."""
_DRAFT = re.compile(r"\.(.+)\.\d+\.draft")
"""How `write_atomically` names a file before it is in its place."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class ExportReport:
    """What was exported, and how it compares with what it was made from.

    Attributes:
        folder: Where it lies.
        quantization: CTranslate2's number type.
        num_bytes: Size of the weights.
        made_from: Digest of the model that was exported.
        parity: How the searches compare in fp32.
        comparison: How the translations compare as they are exported.
    """

    folder: Path
    quantization: str
    num_bytes: int
    made_from: str
    parity: Parity
    comparison: Comparison


def export(
    model_folder: Path,
    output: Path,
    *,
    quantization: str = "float32",
    lines: Sequence[str],
    references: Sequence[str] = (),
    settings: Inference | None = None,
    evaluation: Evaluation | None = None,
    record: Callable[[Path], None] | None = None,
) -> ExportReport:
    """Leaves a folder that `mtkit translate` runs with CTranslate2; a crash leaves the older whole.

    Args:
        model_folder: What training left.
        output: Where to.
        quantization: CTranslate2's number type for matrices.
        lines: Text to compare both engines on; a few hundred sentences are enough.
        references: Translations of these lines, if there are any.
        settings: Decoding defaults that shall travel with it; the model folder's where not given.
        evaluation: How BLEU sees text.
        record: Called with the output once it is in place, before it can be replaced.

    Raises:
        MtkitError: CTranslate2 isn't installed, or can't do what the model or the settings need;
            the output folder holds something else; the engines differ, or quantization costs more
            than `MAX_LOSS`.
    """
    check_quantization(quantization)
    load_library()
    output = output.absolute()
    _check_place(output, model_folder)
    with reading(model_folder):
        loaded = load_model_folder(model_folder)
        card = read_card(model_folder)
        made_from = digest_model(model_folder)
    settings = settings if settings is not None else loaded.settings
    check_convertible(loaded.config.model)
    check_settings(settings)
    chosen = _choose_lines(loaded.tokenizer, lines, references, settings.max_source_tokens)
    job = _Job(loaded, made_from, settings, quantization, *chosen, evaluation or Evaluation())
    with building(output, then=record) as draft:
        files = draft / ENGINE_FOLDER
        parity, comparison = _make_files(job, files)
        num_bytes = (files / "model.bin").stat().st_size
        report = ExportReport(output, quantization, num_bytes, made_from, parity, comparison)
        exported = settings.model_copy(update={"engine": "ctranslate2"})
        write_section(draft / CONFIG_FILE, loaded.config)
        write_section(draft / INFERENCE_FILE, exported)
        loaded.tokenizer.save(draft)
        written = with_export(card or f"# {loaded.config.recipe}\n", _list_facts(report))
        write_atomically(draft / CARD_FILE, written)
        # Something else may have been put there meanwhile.
        _check_place(output, model_folder)
    say(f"{output}: {num_bytes / 1e6:,.1f} MB of weights, {quantization}")
    return report


def open_reference(loaded: LoadedModel) -> Engine:
    """Returns the engine that an export is compared with: in fp32, whatever the settings say."""
    limit_threads()
    return TorchEngine(loaded.model, "cpu")


@dataclass(frozen=True)
class _Job:
    """What is exported and how.

    Attributes:
        loaded: The model.
        made_from: Its digest.
        settings: Decoding defaults that travel with it.
        quantization: CTranslate2's number type for matrices.
        lines: Text to compare both engines on; no line is blank or too long.
        references: Translations of the lines, or nothing.
        evaluation: How BLEU sees text.
    """

    loaded: LoadedModel
    made_from: str
    settings: Inference
    quantization: str
    lines: list[str]
    references: list[str]
    evaluation: Evaluation


def _make_files(job: _Job, folder: Path) -> tuple[Parity, Comparison]:
    """Leaves CTranslate2's files in a new folder; returns how they compare, if well enough."""
    reference = open_reference(job.loaded)
    _convert(job, folder, "float32")
    say("float32: comparing the n-best lists of both engines")
    parity = check_parity(
        reference,
        CTranslate2Engine(folder, stops_early=False),
        job.loaded.tokenizer.encode_source(_spread(job.lines, _MAX_PARITY_LINES)),
        job.settings,
    )
    say(describe_parity(parity))
    if job.quantization != "float32":
        remove_folder(folder)
        _convert(job, folder, job.quantization)
    say(f"{job.quantization}: translating {len(job.lines)} lines with both engines")
    comparison = compare_translations(
        reference,
        CTranslate2Engine(folder),
        job.loaded.tokenizer,
        job.lines,
        job.references,
        settings=job.settings,
        evaluation=job.evaluation,
    )
    for line in describe_comparison(comparison):
        say(line)
    judge(comparison, job.quantization)
    return parity, comparison


def _convert(job: _Job, folder: Path, quantization: str) -> None:
    folder.mkdir()
    tokenizer = job.loaded.tokenizer
    wanted = job.settings.max_source_tokens + job.settings.max_extra_tokens
    write_ctranslate2(
        job.loaded.model,
        folder,
        pieces=(tokenizer.source_vocabulary.pieces, tokenizer.target_vocabulary.pieces),
        max_tokens=max(_MIN_POSITIONS, wanted),
        quantization=quantization,
        made_from=job.made_from,
    )


def judge(comparison: Comparison, quantization: str) -> None:
    """Checks that an export is good enough; warns where it may not be.

    Raises:
        MtkitError: It translates worse than what it was made from.
    """
    hint = "export with --quantization float32, or compare on more lines: --lines FILE"
    if comparison.bleu is not None:
        ours, theirs = comparison.bleu
        if ours - theirs > MAX_LOSS:
            raise MtkitError(
                f"{quantization}: {theirs:.1f} BLEU where torch has {ours:.1f} on "
                f"{comparison.num_lines} lines: a loss of more than {MAX_LOSS:g}; nothing was "
                "exported",
                hint,
            )
    elif comparison.agreement < MIN_AGREEMENT:
        warn(
            f"{quantization}: the output has {comparison.agreement:.1f} BLEU against torch's, less "
            f"than {MIN_AGREEMENT:g}: look at it before you use it"
        )


def describe_parity(parity: Parity) -> str:
    """Returns a line on what was found equal."""
    num_equal = parity.num_lines - parity.num_near_ties - parity.num_different
    return (
        f"float32: {num_equal} of {parity.num_lines} lines have the same n-best list, "
        f"{parity.num_near_ties} differ by near-ties, {parity.num_different} by more; scores of "
        f"one output differ by {parity.largest_gap:.1e} at most, and by {parity.largest_shift:.1e} "
        "in CTranslate2's search, which leaves <pad> and <s> out"
    )


def describe_comparison(comparison: Comparison) -> list[str]:
    """Returns lines on quality and speed."""
    lines = [
        f"same translation as torch on {comparison.num_equal} of {comparison.num_lines} lines, "
        f"{comparison.agreement:.1f} BLEU against torch's"
    ]
    if comparison.bleu is not None:
        lines.append(
            f"against the references: torch {comparison.bleu[0]:.1f} BLEU, "
            f"ctranslate2 {comparison.bleu[1]:.1f}"
        )
    torch_speed, speed = comparison.lines_per_second
    lines.append(f"speed here: torch {torch_speed:.1f} lines/s, ctranslate2 {speed:.1f} lines/s")
    return lines


def _list_facts(report: ExportReport) -> list[str]:
    return [
        f"CTranslate2 {version('ctranslate2')}, {report.quantization}",
        f"made from the model with digest {report.made_from}",
        describe_parity(report.parity),
        *describe_comparison(report.comparison),
    ]


def _check_place(output: Path, model_folder: Path) -> None:
    """Checks that nothing but an older export would be replaced.

    Raises:
        MtkitError: Something else lies there.
    """
    if output.resolve() in (model_folder.resolve(), *model_folder.resolve().parents):
        raise MtkitError(f"{output}: holds the model itself", "name another folder with --output")
    if not output.exists():
        return
    hint = "name a new folder with --output, or remove this one first"
    if not output.is_dir():
        raise MtkitError(f"{output}: is no folder", hint)
    found = sorted(output.iterdir())
    others = [path.name for path in found if not _is_of_export(path)]
    if others or (found and output / ENGINE_FOLDER not in found):
        named = others[0] if others else found[0].name
        raise MtkitError(f"{output}: holds something else than an exported model: {named}", hint)


def _is_of_export(path: Path) -> bool:
    """Returns whether an export may have left a file or folder within its own."""
    if path.name == ENGINE_FOLDER:
        return holds_export(path)
    # A command that writes the card just now, or was killed then, leaves a draft of it.
    draft = _DRAFT.fullmatch(path.name)
    return (draft[1] if draft is not None else path.name) in _FILES and path.is_file()


def _choose_lines(
    tokenizer: SubwordTokenizer,
    lines: Sequence[str],
    references: Sequence[str],
    max_source_tokens: int,
) -> tuple[list[str], list[str]]:
    """Returns lines that are neither blank nor too long, from all parts, and their references.

    Raises:
        MtkitError: There are none, or not as many references as lines.
    """
    if references and len(references) != len(lines):
        raise MtkitError(f"{len(lines):,} lines, but {len(references):,} references")
    lengths = [len(tokens) for tokens in tokenizer.encode_source(lines)]
    usable = [
        place
        for place, (line, length) in enumerate(zip(lines, lengths, strict=True))
        if line.strip() and 1 < length <= max_source_tokens
    ]
    if not usable:
        raise MtkitError(
            "no line to compare both engines on: all are blank or too long "
            f"(inference.max_source_tokens = {max_source_tokens})",
            "name a file of sentences with --lines FILE",
        )
    places = _spread(usable, _MAX_LINES)
    return (
        [lines[place] for place in places],
        [references[place] for place in places] if references else [],
    )


def _spread(items: Sequence[Item], count: int) -> list[Item]:
    """Returns at most `count` items at even distances."""
    if len(items) <= count:
        return list(items)
    return [items[place * len(items) // count] for place in range(count)]
