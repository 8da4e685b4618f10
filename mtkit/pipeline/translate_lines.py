"""Translates a file of lines of any size for `mtkit translate`, in blocks.

Each block's translation is a file in a folder beside the output until all are there, so that
several commands share the work, and a killed one continues.
"""

import json
import shlex
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from mtkit.console import say
from mtkit.data.preparation.run_stage import show_progress
from mtkit.data.sources.byte_blocks import BlockFile, ByteBlock
from mtkit.data.sources.lines import compress
from mtkit.digests import digest
from mtkit.errors import MtkitError
from mtkit.executor import ONE_WORKER, Executor
from mtkit.files import as_json_text, read_json, write_atomically, writing_atomically
from mtkit.folders import discard_folder
from mtkit.inference.request import LineError
from mtkit.inference.streams.byte_lines import WarningPrinter
from mtkit.inference.streams.input_format import InputFormat, read_requests
from mtkit.inference.streams.translate_stream import score_stream, translate_stream
from mtkit.inference.translator import Translator
from mtkit.locks import locked
from mtkit.pipeline.translate import describe_models, describe_settings
from mtkit.recipe.cluster import Cluster
from mtkit.recipe.tables import list_differences
from mtkit.storage import describe_location
from mtkit.units import plural
from mtkit.version import __version__

BLOCK_BYTES = 1 << 20
_RECORD_FILE = "parts.json"
_WHOLE = Cluster()


@dataclass(frozen=True)
class OpenTranslator:
    """A translator, and how another process opens the same; picklable.

    Attributes:
        open: Opens it.
        models: The values of `--model` that it has, or a run's model folder.
        device: As `--device`.
        opened: The open one; None in another process.
    """

    open: Callable[[], Translator]
    models: tuple[str, ...]
    device: str
    opened: Translator | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.open, self.models, self.device)

    def use(self) -> Translator:
        """Returns the translator of this process."""
        return self.opened or self.open()


@dataclass(frozen=True)
class Work:
    """How lines are read and written.

    Attributes:
        as_json: As `translate_stream` takes it.
        score_only: Whether given translations are scored.
    """

    input_format: InputFormat
    as_json: bool = False
    score_only: bool = False


@dataclass(frozen=True)
class LinesJob:
    """What a worker needs to translate blocks: a file, and what its translation depends on."""

    source: BlockFile
    output: Path
    translator: OpenTranslator
    work: Work
    record: Mapping[str, Any]

    def __call__(self) -> "BlockTranslator":
        """Returns what translates blocks in this process."""
        return BlockTranslator(self)

    @property
    def folder(self) -> Path:
        """The folder of parts."""
        return self.output.with_name(f".{self.output.name}.parts")

    def name_part(self, number: int) -> Path:
        """Returns the file of a block's translation."""
        return self.folder / f"{digest(self.record)}-{number:07}"

    @property
    def _start_over(self) -> str:
        return f"to start over: rm -r {shlex.quote(str(self.folder))}"

    def start(self) -> None:
        """Checks that the parts that are there belong to this translation."""
        file = self.folder / _RECORD_FILE
        if not file.is_file():
            write_atomically(file, as_json_text(self.record))
        if changes := list_differences(self.record, read_json(file)):
            fault = f"{self.folder} has parts of another translation: {'; '.join(changes[:3])}"
            raise MtkitError(fault, f"repeat its command to finish it; {self._start_over}")

    def check_unchanged(self) -> None:
        """Checks that the input is as it was, and that no other command has joined the parts."""
        if describe_location(self.source.path) != self.record["input"]:
            fault = f"{self.source.path} changed while it was translated"
            raise MtkitError(fault, self._start_over)
        if not (self.folder / _RECORD_FILE).is_file():
            raise MtkitError(f"{self.folder} is gone", "has another command joined the parts?")

    @contextmanager
    def reading(self, block: ByteBlock) -> Iterator[BytesIO]:
        """Yields a block's lines; names file and line in the error of a line."""
        try:
            yield BytesIO(block.content)
        except LineError as error:
            place = self.source.locate(block, error.line)
            raise MtkitError(f"{place}: {error.fault}", error.hint) from error

    def check(self, block: ByteBlock) -> None:
        """Checks that each line can be read."""
        wanted = replace(self.work.input_format, needs_target=self.work.score_only)
        with self.reading(block) as lines:
            silent = WarningPrinter(is_silent=True)
            for _ in read_requests(lines, wanted, silent, block.base_line):
                pass


@dataclass(frozen=True)
class TranslatedBlock:
    """What a worker returns of a block, whose translation it has written.

    Attributes:
        block: The block, without its content.
        warnings: Warnings about its lines.
        worker: Name of the worker.
        summary: Its translator's summary, of all blocks so far.
    """

    block: ByteBlock
    num_lines: int
    warnings: WarningPrinter
    worker: str
    summary: str


class BlockTranslator:
    """Writes translations of blocks; created once per worker."""

    def __init__(self, job: LinesJob) -> None:
        self._job, self._translator, self._worker = job, job.translator.use(), uuid.uuid4().hex

    def __call__(self, item: ByteBlock | int) -> TranslatedBlock:
        """Writes the translation of a block, which is given or read by its number."""
        job, warnings, target = self._job, WarningPrinter(is_silent=True), BytesIO()
        block = job.source.read(item) if isinstance(item, int) else item
        translate = score_stream if job.work.score_only else translate_stream
        with job.reading(block) as lines:
            num_lines = translate(
                self._translator,
                lines,
                target,
                input_format=job.work.input_format,
                as_json=job.work.as_json,
                printer=warnings,
                first_line=block.base_line,
            )
        job.check_unchanged()
        write_atomically(job.name_part(block.number), compress(target.getvalue(), job.output))
        block = replace(block, content=b"")
        return TranslatedBlock(block, num_lines, warnings, self._worker, self._translator.summary)


def translate_lines(
    source: Path,
    output: Path,
    translator: OpenTranslator,
    work: Work,
    *,
    cluster: Cluster = _WHOLE,
    executor: Executor = ONE_WORKER,
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Writes a line into `output` for each in `source`, atomically, as on stdin.

    Files are compressed by their endings. Blocks that an earlier command has finished are reused.
    With `cluster.part` only the blocks of that part are translated, and nothing is joined.

    Raises:
        MtkitError: A line can't be read or translated, the input changes, another command writes
            the same output, or the parts belong to another translation.
    """
    job = _describe(source, output, translator, work, block_bytes)
    with _sharing(job, is_shared=cluster.part is not None):
        job.start()
        num_blocks = job.source.count()
        chosen = cluster.choose_blocks(num_blocks)
        missing = [number for number in chosen if not job.name_part(number).exists()]
        _translate_blocks(job, missing, executor)
        job.check_unchanged()
        what = f"{plural(len(chosen), 'block')}, {len(chosen) - len(missing):,} of them cached"
        if cluster.part is not None:
            say(f"part {cluster.part} of {source}: {what}, of {num_blocks:,} in all")
            return
        with writing_atomically(job.output, folder=job.folder) as target:
            for number in chosen:
                with job.name_part(number).open("rb") as part:
                    shutil.copyfileobj(part, target)
        discard_folder(job.folder)
    say(f"{output}: {what}")


def _describe(
    source: Path, output: Path, translator: OpenTranslator, work: Work, block_bytes: int
) -> LinesJob:
    used = translator.use()
    settings = used.settings
    record = {
        "input": describe_location(source),
        "model": describe_models(translator.models, settings, translator.device),
        "inference": describe_settings(settings),
        "languages": used.languages.default,
        "form": work.input_format.form,
        "errors": work.input_format.replaces_errors,
        "json": work.as_json,
        "score_only": work.score_only,
        "block_bytes": block_bytes,
        "mtkit": __version__,
    }
    # Samples are drawn by the number of a line.
    is_numbered = settings.sampling is not None or settings.quality is not None
    file = BlockFile(source.absolute(), block_bytes, is_numbered=is_numbered)
    return LinesJob(file, output.absolute(), translator, work, json.loads(json.dumps(record)))


@contextmanager
def _sharing(job: LinesJob, *, is_shared: bool) -> Iterator[None]:
    """Keeps commands off the same output, except for those that translate parts of it."""
    try:
        with locked(job.folder, waits=False, is_shared=is_shared):
            yield
    except BlockingIOError as error:
        raise MtkitError(
            f"{job.output}: another mtkit command is writing it",
            "wait until it ends; to share the work, give each a part: --set cluster.part=1/4",
        ) from error


def _translate_blocks(job: LinesJob, numbers: list[int], executor: Executor) -> None:
    """Translates blocks; prints progress, warnings and summaries."""
    # An unreadable line is reported now, not after days.
    for block in job.source.read_some(numbers):
        job.check(block)
    done = executor.run(job, job.source.list_items(numbers), ordered=False)
    summaries: dict[str, str] = {}
    with WarningPrinter() as printer:
        counted = ((each.num_lines, each) for each in done)
        for each in show_progress(counted, f"translating {job.source.path.name}", "line"):
            summaries[each.worker] = each.summary
            printer.add(each.warnings, partial(job.source.locate, each.block))
    for summary in filter(None, summaries.values()):
        say(summary)
