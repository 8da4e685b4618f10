"""Translates a file of lines of any size for `mtkit translate`, in blocks.

Each block's translation is a file in a folder next to the output until all are there, so that
several commands share the work, and a killed one continues.
"""

import json
import platform
import shlex
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from mtkit.console import say, show_progress
from mtkit.data.sources.byte_blocks import BlockFile, ByteBlock
from mtkit.data.sources.lines import compress, compression_of
from mtkit.errors import MtkitError
from mtkit.executor import Executor
from mtkit.files import as_json_text, digest, read_json, write_atomically, writing_atomically
from mtkit.folders import discard_folder
from mtkit.inference.request import LineError
from mtkit.inference.streams.byte_lines import WarningPrinter
from mtkit.inference.streams.input_format import InputFormat, read_requests
from mtkit.inference.streams.translate_stream import score_stream
from mtkit.inference.translator import Translator
from mtkit.locks import locked
from mtkit.pipeline.choose_executor import choose_executor
from mtkit.recipe.cluster import Cluster
from mtkit.recipe.inference import Inference
from mtkit.recipe.tables import list_differences
from mtkit.storage import Location, describe_location
from mtkit.units import plural
from mtkit.version import __version__

BLOCK_BYTES = 1 << 20
_RECORD_FILE = "parts.json"
_WHOLE = Cluster()


@dataclass(frozen=True)
class TranslatorFactory:
    """An open translator, and how another process opens the same; picklable.

    Attributes:
        describe: Returns what its translations depend on; see `describe_translator`.
        translator: The open one; None in another process.
    """

    open: Callable[[], Translator]
    describe: Callable[[Inference], dict[str, Any]]
    translator: Translator | None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "translator": None}

    def use(self) -> Translator:
        """Returns the translator of this process."""
        return self.translator or self.open()


class TranslatedBlock(NamedTuple):
    """What a worker returns of a block, whose translation it has written.

    Attributes:
        block: The block, without its content.
        worker: Name of the worker.
        summary: Its translator's summary, of all blocks so far.
    """

    block: ByteBlock
    num_lines: int
    warnings: WarningPrinter
    worker: str
    summary: str


@dataclass(frozen=True)
class LinesJob:
    """Translates the blocks of a file; picklable.

    Attributes:
        stream: `translate_stream` or `score_stream` with its options.
        record: What the parts belong to.
    """

    source: BlockFile
    output: Path
    folder: Path
    opening: TranslatorFactory
    stream: "partial[int]"
    record: Mapping[str, Any]

    def __call__(self) -> Callable[[ByteBlock], TranslatedBlock]:
        """Returns what translates a block in this process."""
        translator = self.opening.use()
        if self.opening.translator is None:
            now = {**self.record, **self.opening.describe(translator.settings)}
            if changes := list_differences(now, self.record):
                fault = f"{platform.node()} has another translator: {'; '.join(changes[:3])}"
                raise MtkitError(fault, "every machine needs the same model, and kind of device")
        return partial(self._translate, translator, uuid.uuid4().hex)

    @cached_property
    def _key(self) -> str:
        return digest(self.record)

    @property
    def _start_over(self) -> str:
        return f"to start over: rm -r {shlex.quote(str(self.folder))}"

    def name_part(self, number: int) -> Path:
        """Returns the file of a block's translation."""
        return self.folder / f"{self._key}-{number:07}"

    def start(self, *, is_shared: bool) -> None:
        """Checks that the parts that are there belong to this translation.

        A folder without parts is reused, unless other commands translate parts of the file.
        """
        file = self.folder / _RECORD_FILE
        is_begun = is_shared or any(self.folder.glob("*-*"))
        if not (is_begun and file.is_file()):
            write_atomically(file, as_json_text(self.record))
        found = read_json(file)
        if found.get("input") != self.record["input"]:
            fault = f"{self.source.path} has changed since {self.folder} was created"
            raise MtkitError(fault, f"restore it with its modification time; {self._start_over}")
        if changes := list_differences(self.record, found):
            fault = f"{self.folder} has parts of another translation: {'; '.join(changes[:3])}"
            raise MtkitError(fault, f"repeat its command to finish it; {self._start_over}")

    def check_unchanged(self) -> None:
        """Checks that the input is unchanged, and that no other command has joined the parts."""
        if describe_location(self.source.path) != self.record["input"]:
            fault = f"{self.source.path} changed while it was being translated"
            raise MtkitError(fault, self._start_over)
        if not (self.folder / _RECORD_FILE).is_file():
            raise MtkitError(f"{self.folder} is gone", "has another command joined the parts?")

    def check_lines(self, block: ByteBlock) -> int:
        """Checks that each line can be read; returns the number of lines."""
        form: InputFormat = self.stream.keywords["input_format"]
        form = replace(form, needs_target=self.stream.func is score_stream)
        with self._reading(block) as lines:
            silent = WarningPrinter(is_silent=True)
            return sum(map(len, read_requests(lines, form, silent, block.base_line)))

    @contextmanager
    def _reading(self, block: ByteBlock) -> Iterator[BytesIO]:
        """Yields a block's lines; names file and line in the error of a line."""
        try:
            yield BytesIO(block.content)
        except LineError as error:
            place = self.source.locate(block, error.line)
            raise MtkitError(f"{place}: {error.fault}", error.hint) from error

    def _translate(self, translator: Translator, worker: str, block: ByteBlock) -> TranslatedBlock:
        """Writes the translation of a block."""
        warnings, target = WarningPrinter(is_silent=True), BytesIO()
        block = self.source.fill(block)
        first_line = block.base_line
        with self._reading(block) as lines:
            count = self.stream(translator, lines, target, printer=warnings, first_line=first_line)
        self.check_unchanged()
        write_atomically(self.name_part(block.number), compress(target.getvalue(), self.output))
        block = replace(block, content=b"")
        return TranslatedBlock(block, count, warnings, worker, translator.summary)

    def leave_blank(self, block: ByteBlock) -> TranslatedBlock:
        """Writes a blank line for each line of a block."""
        block = self.source.fill(block)
        count = block.content.count(b"\n") + (block.content[-1:] not in b"\n")
        write_atomically(self.name_part(block.number), compress(b"\n" * count, self.output))
        return TranslatedBlock(block, count, WarningPrinter(), "", "")


def translate_lines(
    source: Location,
    output: Path,
    opening: TranslatorFactory,
    stream: "partial[int]",
    *,
    cluster: Cluster = _WHOLE,
    executor: Executor | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> None:
    """Writes a line into `output` for each in `source`, atomically, as on stdin.

    Files are compressed by their endings. Blocks that an earlier command has finished are reused.
    With `cluster.part` only the blocks of that part are translated, and nothing is joined.
    `stream` is `translate_stream` or `score_stream` with its options. Without an `executor` the
    blocks are translated in this process, or by the nodes of the cluster.

    Raises:
        MtkitError: A line can't be read or translated, the input changes, another command writes
            the same output, or the parts belong to another translation.
    """
    job = _describe(source, output, opening, stream, block_bytes)
    with _sharing(job, is_shared=cluster.part is not None):
        job.start(is_shared=cluster.part is not None)
        num_blocks = job.source.count()
        chosen = cluster.choose_blocks(num_blocks)
        missing = [number for number in chosen if not job.name_part(number).exists()]
        chosen_executor = executor or choose_executor(cluster, job.output.parent, takes_nodes=True)
        _translate_blocks(job, missing, chosen_executor)
        job.check_unchanged()
        what = f"{len(chosen) - len(missing):,} cached, {len(missing):,} translated"
        if cluster.part is not None:
            blocks = f"{plural(len(chosen), 'block')} of {num_blocks:,}"
            say(f"part {cluster.part} of {source}: {blocks}, {what}")
            return
        with writing_atomically(job.output, folder=job.folder) as target:
            for number in chosen:
                with job.name_part(number).open("rb") as part:
                    shutil.copyfileobj(part, target)
        discard_folder(job.folder)
    say(f"{output}: {plural(num_blocks, 'block')}, {what}")


def _describe(
    source: Location,
    output: Path,
    opening: TranslatorFactory,
    stream: "partial[int]",
    block_bytes: int,
) -> LinesJob:
    # If the output is a link, its target is replaced.
    translator, output = opening.use(), output.resolve()
    record = {
        **opening.describe(translator.settings),
        "input": describe_location(source),
        "languages": translator.languages.default,
        "block_bytes": block_bytes,
        "mtkit": __version__,
        "stream": stream.func.__name__,
        **stream.keywords,
        "input_format": asdict(stream.keywords["input_format"]),
    }
    # Samples are drawn by the number of a line.
    has_samples = translator.settings.sampling or translator.settings.quality
    is_sequential = bool(has_samples or compression_of(source))
    file = BlockFile(
        source.absolute() if isinstance(source, Path) else source, block_bytes, is_sequential
    )
    folder = output.with_name(f".{output.name}.parts")
    return LinesJob(file, output, folder, opening, stream, json.loads(json.dumps(record)))


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
    checked = ((job.check_lines(block), None) for block in job.source.read_some(numbers))
    for _ in show_progress(checked, f"reading {job.source.path.name}", "line"):
        pass
    items: Iterable[ByteBlock] = map(ByteBlock, numbers)
    if job.source.is_sequential:
        items = job.source.read_some(numbers)
    done = executor.run(job, items, ordered=False, on_loss=job.leave_blank)
    counted = ((each.num_lines, each) for each in done)
    summaries: dict[str, str] = {}
    with WarningPrinter() as printer:
        for each in show_progress(counted, f"translating {job.source.path.name}", "line"):
            summaries[each.worker] = each.summary
            printer.add(each.warnings, partial(job.source.locate, each.block))
    for summary in filter(None, summaries.values()):
        say(summary)
