"""The `mtkit` command: its subcommands, and errors as lines and exit codes."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from mtkit.cli.align import align
from mtkit.cli.attend import attend
from mtkit.cli.average import average
from mtkit.cli.calibrate import calibrate
from mtkit.cli.export import export
from mtkit.cli.import_model import import_model
from mtkit.cli.init import init
from mtkit.cli.plan import plan
from mtkit.cli.prepare import prepare
from mtkit.cli.run import run
from mtkit.cli.score import score
from mtkit.cli.serve import serve
from mtkit.cli.split import split
from mtkit.cli.train import train
from mtkit.cli.translate import translate
from mtkit.cli.tune import tune
from mtkit.errors import MtkitError, explain_missing_package, explain_system_fault
from mtkit.standard_streams import check_stdout, discard_unwritten, open_standard_streams
from mtkit.version import __version__

# A shell's exit codes for a process that the signal ended: 128 + SIGINT, 128 + SIGPIPE.
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_NEW_OBJECTS_BEFORE_COLLECTION = 100_000


@contextmanager
def _faults_as_lines() -> Iterator[None]:
    """Ends the process with an `error:` line for a user error, never with a traceback."""
    try:
        with _help_needs_stdout():
            yield
        # Detects a closed pipe here, not while the interpreter shuts down.
        sys.stdout.flush()
    except MtkitError as error:
        _fail(error)
    except KeyboardInterrupt:
        _stop_interrupted()
    except BrokenPipeError:
        discard_unwritten()
        raise SystemExit(_BROKEN_PIPE) from None
    except ModuleNotFoundError as error:
        _fail(explain_missing_package(error))
    except OSError as error:
        _fail(explain_system_fault(error))
    except RuntimeError as error:
        # `Path.resolve` before Python 3.13.
        if not str(error).startswith("Symlink loop"):
            raise
        _fail(MtkitError(str(error), "remove the links, or give another path"))
    except MemoryError as error:
        _fail(MtkitError(str(error) or "out of memory", "free some memory, or lower batch sizes"))


@contextmanager
def _help_needs_stdout() -> Iterator[None]:
    try:
        yield
    except typer.Exit as end:
        # Only --help and --version exit like this with code 0.
        if end.exit_code == 0:
            check_stdout("mtkit --help")
        raise


class _Commands(TyperGroup):
    """Reports user errors of commands as `error:` lines."""

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        with _faults_as_lines():
            return super().make_context(*arguments, **settings)

    def invoke(self, ctx: Any) -> Any:
        with _faults_as_lines():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Rich help doubles the time of `mtkit --help`.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
# One line each, which `mtkit --help` cuts after about 60 characters.
app.command(short_help="Write ./mtkit.toml, a copy of a shipped recipe.")(init)
app.command(short_help="Cut a corpus into training, development and test set.")(split)
app.command(short_help="Clean corpora, train the tokenizer, store the data.")(prepare)
app.command(short_help="Estimate the time and memory that training takes.")(plan)
app.command(short_help="Train the model, or resume where training stopped.")(train)
app.command(short_help="Average several checkpoints into the run's model.")(average)
app.command(
    short_help="Translate stdin to stdout, line by line.",
    # `translate` rejects a second FILE with a better message.
    context_settings={"allow_extra_args": True},
)(translate)
app.command(short_help="Serve translators over HTTP, with a web page.")(serve)
app.command(short_help="Fit the quality estimate on labelled translations.")(calibrate)
app.command(short_help="Align the words of given translations.")(align)
app.command(short_help="Show what each attention head of the model does.")(attend)
app.command(short_help="Export the model for CTranslate2.")(export)
app.command("import", short_help="Convert a public translator to a model folder.")(import_model)
app.command(short_help="Score the recipe's test sets, or a file.")(score)
app.command(short_help="Tune the weights that rerank candidates.")(tune)
app.command(short_help="Run all steps in order, skipping those up to date.")(run)


def _print_version(requested: bool) -> None:
    if requested:
        from mtkit.engine.library import describe_library

        typer.echo(f"mtkit {__version__}")
        typer.echo(f"engine: {describe_library()}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and the kernels in use, and exit.",
        ),
    ] = False,
) -> None:
    """Train machine translation models from parallel corpora, score them, deploy them.

    To start, in an empty folder: `mtkit init phrasebook-en-de`, then `mtkit run`.
    """


def main() -> None:
    """Runs the command line; the process ends with its exit code."""
    # The default is 700 new objects; importing torch creates half a million permanent ones.
    gc.set_threshold(_NEW_OBJECTS_BEFORE_COLLECTION)
    # A last collection of all modules takes a fifth of a short command's time.
    atexit.register(gc.freeze)
    # pydantic would look for plugins in the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        open_standard_streams()
        app(prog_name="mtkit")
    except KeyboardInterrupt:
        _stop_interrupted()


def _fail(error: MtkitError) -> NoReturn:
    from mtkit.console import report

    report(error)
    discard_unwritten()
    raise SystemExit(1)


def _stop_interrupted() -> NoReturn:
    # Another Ctrl-C ends the process at once: at exit it would print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    goes_on = sys.argv[1:2] in (["prepare"], ["run"])
    sys.stderr.write(
        f"interrupted{'; the same command resumes where it stopped' if goes_on else ''}\n"
    )
    raise SystemExit(_INTERRUPTED)
