"""`mtkit translate`: translates lines from stdin to stdout, or a file of lines, or a document."""

import gc
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mtkit.cli.options import (
    DeviceOption,
    RunOptions,
    SourceOption,
    TargetOption,
    declare_location,
    declare_option,
    find_location,
    set_path,
    with_run,
)
from mtkit.cpus import load_numpy
from mtkit.errors import MtkitError
from mtkit.input_forms import FILE_FORMS, LINE_FORMS, STDIN_FORMS, InputForm
from mtkit.standard_streams import check_stdin, check_stdout

if TYPE_CHECKING:
    from mtkit.inference.classify import LineClassifier
    from mtkit.inference.streams.input_format import InputFormat
    from mtkit.inference.translator import Translator
    from mtkit.pipeline.translate_lines import TranslatorFactory
    from mtkit.recipe import Recipe
    from mtkit.workspace import Workspace

_OBJECTS_OF_A_DOCUMENT = 1_000_000
"""New objects before a garbage collection."""


Errors = Literal["strict", "replace"]
"""What to do with invalid UTF-8."""


@with_run
def translate(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE|URL]",
            show_default=False,
            help="Document or file of lines to translate, with --output.",
            parser=find_location,
        ),
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
    device: DeviceOption = "auto",
    source_language: SourceOption = "",
    target_language: TargetOption = "",
    form: Annotated[
        InputForm | None,
        typer.Option(
            "--input",
            show_default=False,
            help="Lines of FILE or stdin: lines, tsv (source, tab, target) or jsonl (objects with "
            "source, target, source_language, target_language), where the target is a prefix or is "
            "scored. Or the format of a document: FILE, or all of stdin.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        declare_location("--output", "FILE|URL", "Where the translation of FILE goes.", "-o"),
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
            help="Print a JSON object per line: text, scores, tokens, n-best. Of a document: how "
            "many texts are translated, and which are skipped.",
        ),
    ] = False,
) -> None:
    """Translate stdin to stdout, or a file of lines, one line out for each in; or a document."""
    if context.args:
        raise typer.BadParameter("one FILE at a time")
    if score_only and form is None:
        form = "tsv"
    is_document = form not in ((None, *STDIN_FORMS) if file is None else FILE_FORMS)
    _check_file(file, output, form, glossary, is_document=is_document)
    _check_options(context.params, is_document=is_document)
    run.check_model_alone(has_model=bool(model))
    if file is None:
        check_stdin("mtkit translate")
        check_stdout("mtkit translate")
    changes = [*run.overrides, *_list_changes(glossary)]
    languages = {"source_language": source_language, "target_language": target_language}
    load_numpy()
    from mtkit.pipeline.translate import open_classifier
    from mtkit.recipe.override_section import read_cluster

    cluster, own_changes = read_cluster(changes)
    # An output is given together with a file.
    _check_cluster(own_changes, changes, has_parts=isinstance(output, Path) and not is_document)
    if check:
        _check_job(model or [], own_changes, languages, _describe_input(form or "text", errors))
        return
    if is_document:
        _check_has_folder(model or [])
    opened = None if model else run.open(changes)
    cluster = (opened[0].cluster if opened else None) or cluster
    folders = [opened[1].model] if opened else [Path(each) for each in model or ()]
    classifier = open_classifier(folders, device=device, score_only=score_only)
    if classifier is not None:
        _check_labelling(
            is_file=is_document or file is not None,
            has_languages=bool(source_language or target_language),
            has_glossary=glossary is not None,
        )
        _label_stdin(classifier, form, errors, as_json=as_json)
        return
    if cluster.address is not None:
        model, opened = _make_absolute(model, opened)
    open_translator = _choose_translator(model or [], opened, own_changes, languages, device)
    translator = open_translator()
    if form != "jsonl":
        # Before waiting for input; each JSON object may name its own languages.
        translator.resolve_languages()
    with _keeping_what_is_loaded(is_document=is_document):
        if is_document:
            _translate_document(translator, file, output, form, as_json=as_json)
        else:
            stream = _choose_stream(form or "text", errors, score_only=score_only, as_json=as_json)
            if file is None or output is None:
                stream(translator, sys.stdin.buffer, sys.stdout.buffer)
            else:
                from mtkit.pipeline.translate_lines import translate_lines
                from mtkit.stored_folder import working_file

                opening = _describe_opening(open_translator, translator, model, opened, device)
                with working_file(output) as target:
                    translate_lines(file, target, opening, stream, cluster=cluster)
                return
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


def _make_absolute(
    models: list[str] | None, run: "tuple[Recipe, Workspace] | None"
) -> "tuple[list[str], tuple[Recipe, Workspace] | None]":
    """Returns models and a run with paths that don't start from the working directory."""
    from mtkit.workspace import Workspace

    found = [str(Path(each).absolute()) if Path(each).exists() else each for each in models or ()]
    return found, run and (run[0], Workspace(run[1].root.absolute()))


def _choose_translator(
    models: list[str],
    run: "tuple[Recipe, Workspace] | None",
    changes: list[str],
    languages: dict[str, str],
    device: str,
) -> "Callable[[], Translator]":
    """Returns a function that opens a run's or `--model`'s translator, in any process."""
    from mtkit.pipeline.translate import load_run, open_models

    if run is None:
        return partial(open_models, models, changes, device=device, **languages)
    recipe, workspace = run
    return partial(load_run, recipe.inference, workspace, device=device, **languages)


def _describe_opening(
    open_translator: "Callable[[], Translator]",
    translator: "Translator",
    models: list[str] | None,
    run: "tuple[Recipe, Workspace] | None",
    device: str,
) -> "TranslatorFactory":
    """Returns a translator with what it depends on."""
    from mtkit.pipeline.translate import describe_translator
    from mtkit.pipeline.translate_lines import TranslatorFactory

    if run is not None:
        models = [str(run[1].model)]
    return TranslatorFactory(
        open_translator, partial(describe_translator, models or [], device), translator
    )


def _check_job(
    models: list[str], changes: list[str], languages: dict[str, str], input_format: "InputFormat"
) -> None:
    """Prints the estimated cost of a large language model's job."""
    from mtkit.llm import is_llm_file
    from mtkit.llm.open_llm import estimate, open_llm

    if len(models) != 1 or not is_llm_file(models[0]):
        raise typer.BadParameter("--check is for a large language model: --model llm.toml")
    lines = open_llm(Path(models[0]), changes, **languages)
    typer.echo(estimate(lines, sys.stdin.buffer, input_format))


def _describe_input(form: InputForm, errors: Errors) -> "InputFormat":
    from mtkit.inference.streams.input_format import InputFormat

    # The same form, for the type checker.
    of_lines = next((each for each in LINE_FORMS if each == form), LINE_FORMS[0])
    return InputFormat(form=of_lines, replaces_errors=errors == "replace")


def _check_labelling(*, is_file: bool, has_languages: bool, has_glossary: bool) -> None:
    """Checks that no option for translators is given with a classifier."""
    if has_glossary:
        raise typer.BadParameter("--glossary is for translators, not classifiers")
    if has_languages:
        raise typer.BadParameter("--from and --to are for translators, not classifiers")
    if is_file:
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


def _choose_stream(
    form: InputForm, errors: Errors, *, score_only: bool, as_json: bool
) -> "partial[int]":
    """Returns what translates or scores a stream, given the translator, source and target."""
    from mtkit.inference.streams.translate_stream import score_stream, translate_stream

    run = score_stream if score_only else translate_stream
    return partial(run, input_format=_describe_input(form, errors), as_json=as_json)


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
    """Prints the summary of terms, or of a large language model's usage."""
    if translator.summary:
        from mtkit.console import say

        say(translator.summary)


def _list_changes(glossary: Path | None) -> list[str]:
    """Returns the option's change of a recipe, as for `--set`."""
    return [] if glossary is None else [set_path("inference.glossary.path", glossary)]


def _check_options(given: Mapping[str, Any], *, is_document: bool) -> None:
    """Checks that options, by parameter, are compatible."""
    if is_document and (given["score_only"] or given["check"] or given["errors"] != "strict"):
        raise typer.BadParameter("--score-only, --check and --errors are for lines")
    if given["check"] and given["file"]:
        raise typer.BadParameter("--check is for lines on stdin")
    if is_document and given["as_json"] and not given["file"]:
        raise typer.BadParameter(
            "--json of a document is for a file: mtkit translate FILE --output FILE --json"
        )
    if given["score_only"] and given["form"] in ("text", "lines"):
        raise typer.BadParameter("--score-only needs --input tsv or jsonl")
    if given["score_only"] and given["glossary"]:
        raise typer.BadParameter("--glossary is for translating, not for --score-only")


def _check_has_folder(model: list[str]) -> None:
    from mtkit.recipe.synthesis import is_address

    if any(map(is_address, model)):
        raise MtkitError(
            "documents are translated by a model folder, or on the server's own page",
            "give lines on stdin, or --model FOLDER",
        )


def _check_cluster(own: list[str], changes: list[str], *, has_parts: bool) -> None:
    """Checks that cluster settings are only given for a file of lines."""
    shared = [each for each in changes if each not in own]
    if shared and not has_parts:
        raise MtkitError(
            f"--set {shared[0]} is for files of lines (--input lines) with an output on disk",
            f"mtkit translate FILE --input lines --output FILE --set {shared[0]}",
        )


def _is_stored(*locations: Path, is_document: bool) -> bool:
    """Returns whether one of the locations is in an object store, where there are no documents."""
    stored = [each for each in locations if not isinstance(each, Path)]
    if stored and is_document:
        raise MtkitError(f"{stored[0]}: documents are read and written on disk", "copy it first")
    return bool(stored)


def _check_file(
    file: Path | None,
    output: Path | None,
    form: InputForm | None,
    glossary: Path | None,
    *,
    is_document: bool,
) -> None:
    """Checks that a file and its output are given together, or neither, and differ."""
    if file is not None and output is None:
        from mtkit.documents.translate_file import EXTENSIONS

        name = shlex.quote(str(file))
        lines = "" if PurePath(str(file)).suffix.lower() in EXTENSIONS else " --input lines"
        raise typer.BadParameter(
            f"name the file to write: mtkit translate {name}{lines} --output FILE; or translate "
            f"its lines: mtkit translate < {name}"
        )
    if file is None and output is not None:
        raise typer.BadParameter(
            "--output goes with a file: mtkit translate FILE --output FILE; lines of stdin go to "
            "stdout: mtkit translate < input.txt > output.txt"
        )
    if file is None or output is None:
        return
    if isinstance(file, Path) and not file.is_file():
        what, hint = "no such file", "is its name right?"
        if file.exists():
            what = "is a folder, expected a file" if file.is_dir() else "not a regular file"
            hint = "give one file at a time, and lines to stdin: mtkit translate < input.txt"
        raise MtkitError(f"{file}: {what}", hint)
    if _is_stored(file, output, is_document=is_document):
        return
    from mtkit.documents.translate_file import check_output_path, check_writable, choose_format
    from mtkit.files import check_not_input

    if glossary is not None:
        check_not_input(output, [glossary])
    if is_document:
        check_output_path(output, file, choose_format(file, form))
    else:
        check_writable(output, file)
