"""`mtkit translate`: translates lines from stdin to stdout, or a document."""

import gc
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mtkit.cli.options import (
    DeviceOption,
    RunOptions,
    SourceOption,
    TargetOption,
    declare_option,
    with_run,
)
from mtkit.cpus import load_numpy
from mtkit.errors import MtkitError
from mtkit.input_forms import LINE_FORMS, InputForm
from mtkit.standard_streams import check_stdin, check_stdout

if TYPE_CHECKING:
    from mtkit.inference.classify import LineClassifier
    from mtkit.inference.streams.input_format import InputFormat
    from mtkit.inference.translator import Translator
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace

_OBJECTS_OF_A_DOCUMENT = 1_000_000
"""New objects before a garbage collection."""


Engine = Literal["auto", "torch", "ctranslate2"]
"""What runs the network."""


Errors = Literal["strict", "replace"]
"""What to do with invalid UTF-8."""


@with_run
def translate(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(show_default=False, help="Document to translate, with --output."),
    ] = None,
    *,
    run: RunOptions,
    model: Annotated[
        list[str] | None,
        declare_option(
            "--model",
            "FOLDER|URL",
            "Model folder (repeat it for an ensemble), a run's checkpoint, the http:// address of "
            "`mtkit serve`, or the .toml file of a large language model. No recipe or workspace "
            "needed.",
        ),
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(
            "--engine",
            show_default=False,
            help="Engine of the network (inference.engine); auto takes the quickest that is there, "
            "ctranslate2 needs `mtkit export`.",
        ),
    ] = None,
    device: DeviceOption = "auto",
    source_language: SourceOption = "",
    target_language: TargetOption = "",
    form: Annotated[
        InputForm | None,
        typer.Option(
            "--input",
            show_default=False,
            help="Lines of stdin: text, tsv (source, tab, target) or jsonl (objects with source, "
            "target, source_language, target_language), where the target is a prefix or is "
            "scored. Or the format of a document: FILE, or all of stdin.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        declare_option("--output", "FILE", "Where the translation of FILE goes.", "-o"),
    ] = None,
    glossary: Annotated[
        Path | None,
        declare_option(
            "--glossary",
            "FILE",
            "Terms to use (inference.glossary): a line is source, tab, target.",
        ),
    ] = None,
    errors: Annotated[
        Errors,
        typer.Option("--errors", help="On invalid UTF-8: stop (strict), or replace it."),
    ] = "strict",
    score_only: Annotated[
        bool,
        typer.Option(
            "--score-only",
            help="Score given translations instead of translating; implies --input tsv.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Estimate the requests, tokens and cost of a large language model; send nothing.",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print a JSON object per line: text, scores, tokens, n-best. Of a FILE: how many "
            "texts are translated, and which are skipped.",
        ),
    ] = False,
) -> None:
    """Translate stdin to stdout, one line out for each line in, or a document."""
    if context.args:
        raise typer.BadParameter("one FILE at a time")
    _check_file(file, output, form)
    is_document = file is not None or form not in (None, *LINE_FORMS)
    if is_document and (score_only or check or errors != "strict"):
        raise typer.BadParameter("--score-only, --check and --errors are for lines on stdin")
    if is_document and as_json and file is None:
        raise typer.BadParameter(
            "--json of a document is for a file: mtkit translate FILE --output FILE --json"
        )
    run.check_model_alone(has_model=bool(model))
    if score_only and form == "text":
        raise typer.BadParameter("--score-only needs --input tsv or jsonl")
    if file is None:
        check_stdin("mtkit translate")
        check_stdout("mtkit translate")
    if glossary is not None and score_only:
        raise typer.BadParameter("--glossary is for translating, not for --score-only")
    changes = [*run.overrides, *_list_changes(engine, glossary)]
    languages = {"source_language": source_language, "target_language": target_language}
    load_numpy()
    from mtkit.pipeline.translate import is_address, open_classifier

    if check:
        _check_job(model or [], changes, languages, _describe_input(form or "text", errors))
        return
    if is_document and any(map(is_address, model or [])):
        raise MtkitError(
            "documents are translated by a model folder, or on the server's own page",
            "give lines on stdin, or --model FOLDER",
        )
    opened = None if model else run.open(changes)
    folders = [opened[1].model] if opened else [Path(each) for each in model or ()]
    classifier = open_classifier(folders, device=device, score_only=score_only)
    if classifier is not None:
        _check_labelling(
            is_document=is_document,
            has_languages=bool(source_language or target_language),
            has_glossary=glossary is not None,
        )
        _label_stdin(classifier, form, errors, as_json=as_json)
        return
    translator = _open_translator(model or [], opened, changes, languages, device=device)
    if form != "jsonl":
        # Before waiting for input; each JSON object may name its own languages.
        translator.resolve_languages()
    with _keeping_what_is_loaded(is_document=is_document):
        if is_document:
            _translate_document(translator, file, output, form, as_json=as_json)
        else:
            input_format = _describe_input(form or ("tsv" if score_only else "text"), errors)
            _answer_stdin(translator, input_format, score_only=score_only, as_json=as_json)
    _tell_summary(translator)


@contextmanager
def _keeping_what_is_loaded(*, is_document: bool) -> Iterator[None]:
    """Excludes loaded objects from garbage collection."""
    # A document's own objects stay until its end, so a collection would find little garbage.
    before = gc.get_threshold()
    if is_document:
        gc.set_threshold(_OBJECTS_OF_A_DOCUMENT)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def _open_translator(
    models: list[str],
    run: "tuple[Recipe, Workspace] | None",
    changes: list[str],
    languages: dict[str, str],
    *,
    device: str,
) -> "Translator":
    """Returns the translator of a run, or of `--model`."""
    from mtkit.pipeline.translate import load_run, open_models

    if run is None:
        return open_models(models, changes, device=device, **languages)
    recipe, workspace = run
    return load_run(recipe.inference, workspace, device=device, **languages)


def _check_job(
    models: list[str], changes: list[str], languages: dict[str, str], input_format: "InputFormat"
) -> None:
    """Prints what a job would take of a large language model."""
    from mtkit.llm import is_llm_file
    from mtkit.llm.open_llm import estimate, open_llm

    if len(models) != 1 or not is_llm_file(models[0]):
        raise typer.BadParameter("--check is for a large language model: --model llm.toml")
    lines = open_llm(Path(models[0]), changes, **languages)
    typer.echo(estimate(lines, sys.stdin.buffer, input_format))


def _describe_input(form: InputForm, errors: Errors) -> "InputFormat":
    from mtkit.inference.streams.input_format import InputFormat

    # The same form, for the type checker.
    of_lines = next(each for each in LINE_FORMS if each == form)
    return InputFormat(form=of_lines, replaces_errors=errors == "replace")


def _check_labelling(*, is_document: bool, has_languages: bool, has_glossary: bool) -> None:
    """Checks that no option for translators is given with a classifier."""
    if has_glossary:
        raise typer.BadParameter("--glossary is for translators, not classifiers")
    if has_languages:
        raise typer.BadParameter("--from and --to are for translators, not classifiers")
    if is_document:
        raise MtkitError("a classifier labels lines, not documents", "give lines on stdin")


def _label_stdin(
    classifier: "LineClassifier", form: InputForm | None, errors: Errors, *, as_json: bool
) -> None:
    from mtkit.inference.streams.label_stream import label_stream

    by_default: InputForm = "tsv" if classifier.has_pairs else "text"
    label_stream(
        classifier,
        sys.stdin.buffer,
        sys.stdout.buffer,
        input_format=_describe_input(form or by_default, errors),
        as_json=as_json,
    )


def _answer_stdin(
    translator: "Translator", input_format: "InputFormat", *, score_only: bool, as_json: bool
) -> None:
    from mtkit.inference.streams.translate_stream import score_stream, translate_stream

    run = score_stream if score_only else translate_stream
    run(translator, sys.stdin.buffer, sys.stdout.buffer, input_format=input_format, as_json=as_json)


def _translate_document(
    translator: "Translator",
    file: Path | None,
    output: Path | None,
    form: InputForm | None,
    *,
    as_json: bool,
) -> None:
    from mtkit.pipeline.translate_documents import translate_given

    translate_given(translator, file, output, form, as_json=as_json)


def _tell_summary(translator: "Translator") -> None:
    """Prints what was done with terms, or asked of a large language model."""
    if translator.summary:
        from mtkit.console import say

        say(translator.summary)


def _list_changes(engine: Engine | None, glossary: Path | None) -> list[str]:
    """Returns the options' changes of a recipe, as for `--set`."""
    changes = [f"inference.engine={engine}"] if engine else []
    if glossary is not None:
        # A path may contain characters with a meaning in TOML.
        changes.append(f"inference.glossary.path={json.dumps(str(glossary.absolute()))}")
    return changes


def _check_file(file: Path | None, output: Path | None, form: InputForm | None) -> None:
    """Checks that a file and its output are given together, or neither."""
    if file is not None and output is None:
        raise typer.BadParameter(
            f"name the file to write: mtkit translate {shlex.quote(str(file))} --output FILE; or "
            f"translate its lines: mtkit translate < {shlex.quote(str(file))}"
        )
    if file is None and output is not None:
        raise typer.BadParameter(
            "--output goes with a document: mtkit translate FILE --output FILE; lines go to "
            "stdout: mtkit translate < input.txt > output.txt"
        )
    if file is None or output is None:
        return
    if form in ("tsv", "jsonl"):
        raise typer.BadParameter(f"--input {form} is for lines on stdin: mtkit translate < FILE")
    from mtkit.documents.translate_file import check_output_path, choose_format

    check_output_path(output, file, choose_format(file, form))
    if not file.is_file():
        raise MtkitError(f"{file}: no such file")
