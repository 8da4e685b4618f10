"""Facts that the stages of preparation note, as `stage.json` and `report.json` hold them."""

from typing import Literal, NotRequired, TypedDict

from mtkit.data.cleaning.alignment import Misaligned


class ShownRow(TypedDict):
    """A pair or a line to read, shortened; `line` is its number in its corpus, 0 if unknown."""

    line: int
    source: NotRequired[str]
    target: NotRequired[str]
    text: NotRequired[str]


class RankedRow(ShownRow):
    """A pair or a line with its cross-entropy difference, and the index of its corpus."""

    corpus: int
    difference: float


class NamedRow(ShownRow):
    """The same with the name of its corpus."""

    corpus: str
    difference: float


class LongRow(ShownRow):
    """One of the longest pairs or lines."""

    characters: int


class BlockFacts(TypedDict):
    """What became of some pairs, or lines of text, that follow each other in a corpus.

    Rows read and kept, rows dropped by filter, lines changed by repair, rows to read; characters
    of each column.
    """

    read: int
    kept: int
    invalid_utf8: int
    skipped: int
    dropped: dict[str, int]
    repaired: dict[str, int]
    samples: dict[str, list[ShownRow]]
    misaligned: list[Misaligned]
    longest: list[LongRow]
    source_characters: NotRequired[int]
    target_characters: NotRequired[int]
    text_characters: NotRequired[int]


class CorpusFacts(BlockFacts):
    """The same of a whole corpus, with its duplicates; of text also its documents and blocks."""

    name: str
    documents: NotRequired[int]
    blocks: NotRequired[int]
    augmented: NotRequired[dict[str, int]]
    """Examples that were made of others, by kind; with `data.augment`."""


class ReportedCorpus(CorpusFacts):
    """The same with how often an epoch sees each row."""

    weight: float


class TextFacts(TypedDict):
    """Of the stage `text`; `parts` has corpus and rows of each part of the text store."""

    corpora: list[CorpusFacts]
    parts: list[tuple[int, int]]
    kept: int
    length_ratio: NotRequired[float]
    notes: list[str]
    seconds: dict[str, float]
    labels: NotRequired[list[str]]
    """Of labelled texts, sorted."""
    digest: list[str]


class DifferencesFacts(TypedDict):
    """Of the stage `differences`; `unit` is what cross-entropies are divided by.

    Or `probability`, where a classifier measures.
    """

    unit: Literal["token", "character", "probability"]
    scored: int
    digest: str


class SelectedCorpus(TypedDict):
    """The rows of a corpus that were ranked, those that are kept, and the mean difference.

    The mean is None where none was ranked.
    """

    scored: int
    kept: int
    mean: float | None


class SelectionFacts(TypedDict):
    """Of the stage `selection`; differences are in nats per token or character.

    By a classifier they are probabilities that a pair is no translation. `limit` is the largest
    value that may be kept; `samples` has rows at the beginning of the ranking, the last ones
    that are kept, and those at its end.
    """

    unit: Literal["token", "character", "probability"]
    scored: int
    kept: int
    limit: float
    quantiles: dict[str, float]
    corpora: list[SelectedCorpus]
    samples: dict[str, list[RankedRow]]
    digest: str


class ReportedSelection(TypedDict):
    """The same with names of corpora: what a report shows of the ranking.

    `is_estimate` tells whether it is of a sample alone.
    """

    unit: Literal["token", "character", "probability"]
    scored: int
    kept: int
    limit: float
    quantiles: dict[str, float]
    corpora: dict[str, SelectedCorpus]
    samples: dict[str, list[NamedRow]]
    is_estimate: bool


class AlignerFacts(TypedDict):
    """Of the stage `aligner`: the size of what it learned."""

    bytes: int
    digest: list[str]


class AlignmentFacts(TypedDict):
    """Of the stage `alignment`: pairs with links, and links in all."""

    aligned: int
    links: int
    digest: list[str]


class TermFacts(TypedDict):
    """Of the stage `terms`: terms that have a translation."""

    terms: int
    digest: list[str]


class TokenizerFacts(TypedDict):
    """Of the stage `tokenizer`."""

    source_pieces: int
    target_pieces: int
    joint: bool
    digest: list[str]


class TokenizedCorpus(TypedDict):
    """The pairs of a corpus that are short enough, and those that are too long.

    Of text in one language its lines, the documents that they are of, and the blocks of these.
    """

    kept: int
    too_long: int
    samples: list[tuple[str, str]]
    documents: NotRequired[int]
    blocks: NotRequired[int]
    augmented: NotRequired[dict[str, int]]
    """Examples that were made of others, by kind; with `data.augment`."""


class ColumnFacts(TypedDict):
    """Counts of the tokens of a column; `lengths` is a histogram of its rows' lengths."""

    tokens: int
    lengths: list[int]
    pieces: int
    pieces_used: int
    pieces_rare: int
    unknown_tokens: int
    unknown_pieces: dict[str, int]
    sampling_growth: NotRequired[float]


class TrainFacts(TypedDict):
    """Of the stage `train`; its columns are source and target, or the text alone."""

    corpora: list[TokenizedCorpus]
    source: NotRequired[ColumnFacts]
    target: NotRequired[ColumnFacts]
    text: NotRequired[ColumnFacts]
    digest: list[str]


class DevFacts(TypedDict):
    """Of the stage `dev`."""

    read: int
    kept: NotRequired[int]
    source_tokens: NotRequired[int]
    target_tokens: NotRequired[int]
    documents: NotRequired[int]
    blocks: NotRequired[int]
    text_tokens: NotRequired[int]
    digest: NotRequired[str]


class PreparedFacts(TypedDict, total=False):
    """Of the stages that are finished."""

    text: TextFacts
    differences: DifferencesFacts
    selection: SelectionFacts
    aligner: AlignerFacts
    alignment: AlignmentFacts
    terms: TermFacts
    tokenizer: TokenizerFacts
    train: TrainFacts
    dev: DevFacts
