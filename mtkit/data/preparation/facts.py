"""Facts that the stages of preparation record in `stage.json` and `report.json`."""

from typing import Any, Literal, NotRequired, TypedDict

from mtkit.data.cleaning.alignment import Misaligned


class ShownRow(TypedDict):
    """A pair or line to show, shortened; `line` is its number in its corpus, 0 if unknown."""

    line: int
    source: NotRequired[str]
    target: NotRequired[str]
    text: NotRequired[str]


class RankedRow(ShownRow):
    """A pair or line with its cross-entropy difference, and the index of its corpus."""

    corpus: int
    difference: float


class NamedRow(ShownRow):
    """A pair or line with its difference, and the name of its corpus."""

    corpus: str
    difference: float


class LongRow(ShownRow):
    """One of the longest pairs or lines."""

    characters: int


class BlockFacts(TypedDict):
    """Facts of consecutive rows of a corpus.

    Rows dropped are by filter, lines repaired by kind; characters are totals of a column.
    """

    read: int
    kept: int
    invalid_utf8: int
    skipped: int
    dropped: dict[str, int]
    repaired: dict[str, int]
    quoted: int
    """Rows whose texts are all in quotation marks."""
    strange_rows: dict[str, int]
    strange_letters: dict[str, dict[str, int]]
    """By column, rows with letters that its language doesn't have, and these letters."""
    samples: dict[str, list[ShownRow]]
    misaligned: list[Misaligned]
    longest: list[LongRow]
    source_characters: NotRequired[int]
    target_characters: NotRequired[int]
    text_characters: NotRequired[int]


class CorpusFacts(BlockFacts):
    """Facts of a whole corpus, with its duplicates; for text also its documents and blocks."""

    name: str
    documents: NotRequired[int]
    blocks: NotRequired[int]
    augmented: NotRequired[dict[str, int]]
    """Examples made from others, by kind; with `data.augment`."""


class ReportedCorpus(CorpusFacts):
    """Facts of a corpus with how often an epoch sees each row."""

    weight: float


class TranslatedRow(ShownRow):
    """A translated line, why it was dropped, and its scores; None where there is none."""

    reason: str
    probability: float | None
    score: float | None


class SyntheticCorpus(TypedDict):
    """Facts of a corpus that a translator completed; `limit` is the smallest score that is kept."""

    read: int
    kept: int
    dropped: dict[str, int]
    limit: float | None
    mean_probability: NotRequired[float]
    """Mean over the pairs that are kept, of the mean log-probability of a token."""
    samples: list[TranslatedRow]
    teacher: dict[str, Any]
    """Names, digests and licences of the models."""


class SyntheticFacts(TypedDict):
    """Facts of the stage `synthetic`, by index in `data.train`."""

    corpora: dict[str, SyntheticCorpus]
    digest: list[str]


class TextFacts(TypedDict):
    """Facts of the stage `text`; `parts` has corpus and rows of each part of the text store."""

    corpora: list[CorpusFacts]
    parts: list[tuple[int, int]]
    kept: int
    length_ratio: NotRequired[float]
    notes: list[str]
    seconds: dict[str, float]
    labels: NotRequired[list[str]]
    """Sorted; for labelled texts."""
    digest: list[str]


class DifferencesFacts(TypedDict):
    """Facts of the stage `differences`; cross-entropies are per `unit`."""

    unit: Literal["token", "character", "probability"]
    scored: int
    digest: str


class SelectedCorpus(TypedDict):
    """Ranked rows, kept rows, and the mean difference, None if nothing was ranked."""

    scored: int
    kept: int
    mean: float | None


class SelectionFacts(TypedDict):
    """Facts of the stage `selection`; differences are in nats per token or character.

    A classifier's are probabilities that a pair isn't a translation. `limit` is the largest value
    that may be kept; `samples` has rows from the start of the ranking, the last kept ones, and its
    end.
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
    """What a report shows of the ranking, with names of corpora; an estimate is from a sample."""

    unit: Literal["token", "character", "probability"]
    scored: int
    kept: int
    limit: float
    quantiles: dict[str, float]
    corpora: dict[str, SelectedCorpus]
    samples: dict[str, list[NamedRow]]
    is_estimate: bool


class AlignerFacts(TypedDict):
    """Facts of the stage `aligner`: its size."""

    bytes: int
    digest: list[str]


class AlignmentFacts(TypedDict):
    """Facts of the stage `alignment`: pairs with links, and all links."""

    aligned: int
    links: int
    digest: list[str]


class TermFacts(TypedDict):
    """Facts of the stage `terms`: terms with a translation."""

    terms: int
    digest: list[str]


class TokenizerFacts(TypedDict):
    """Facts of the stage `tokenizer`."""

    source_pieces: int
    target_pieces: int
    joint: bool
    digest: list[str]


class TokenizedCorpus(TypedDict):
    """Pairs that are short enough, and too long ones; for text its lines, documents and blocks."""

    kept: int
    too_long: int
    samples: list[ShownRow]
    documents: NotRequired[int]
    blocks: NotRequired[int]
    augmented: NotRequired[dict[str, int]]
    """Examples made from others, by kind; with `data.augment`."""


class ColumnFacts(TypedDict):
    """Counts of a column's tokens; `lengths` is a histogram of its rows' lengths."""

    tokens: int
    lengths: list[int]
    pieces: int
    pieces_used: int
    pieces_rare: int
    unknown_tokens: int
    unknown_pieces: dict[str, int]
    sampling_growth: NotRequired[float]


class TrainFacts(TypedDict):
    """Facts of the stage `train`; its columns are source and target, or text."""

    corpora: list[TokenizedCorpus]
    source: NotRequired[ColumnFacts]
    target: NotRequired[ColumnFacts]
    text: NotRequired[ColumnFacts]
    digest: list[str]


class DevFacts(TypedDict):
    """Facts of the stage `dev`."""

    read: int
    kept: NotRequired[int]
    source_tokens: NotRequired[int]
    target_tokens: NotRequired[int]
    documents: NotRequired[int]
    blocks: NotRequired[int]
    text_tokens: NotRequired[int]
    digest: NotRequired[str]


class PreparedFacts(TypedDict, total=False):
    """Facts of the finished stages."""

    synthetic: SyntheticFacts
    text: TextFacts
    differences: DifferencesFacts
    selection: SelectionFacts
    aligner: AlignerFacts
    alignment: AlignmentFacts
    terms: TermFacts
    tokenizer: TokenizerFacts
    train: TrainFacts
    dev: DevFacts
