"""Facts that the stages of preparation note, as `stage.json` and `report.json` hold them."""

from typing import NotRequired, TypedDict


class ShownPair(TypedDict):
    """A pair to read, shortened; `line` is its number in its corpus, 0 where it isn't known."""

    line: int
    source: str
    target: str


class LongPair(ShownPair):
    """One of the longest pairs."""

    characters: int


class Misaligned(TypedDict):
    """A stretch of lines whose sides don't go together; see `Suspect`."""

    first: int
    last: int
    correlation: float
    shift: int


class BlockFacts(TypedDict):
    """What became of some pairs that follow each other in a corpus.

    Pairs read and kept, pairs dropped by filter, lines changed by repair, pairs to read.
    """

    read: int
    kept: int
    invalid_utf8: int
    skipped: int
    dropped: dict[str, int]
    repaired: dict[str, int]
    samples: dict[str, list[ShownPair]]
    misaligned: list[Misaligned]
    longest: list[LongPair]
    source_characters: int
    target_characters: int


class CorpusFacts(BlockFacts):
    """The same of a whole corpus, duplicates among what is dropped."""

    name: str


class ReportedCorpus(CorpusFacts):
    """The same with how often an epoch sees each pair."""

    weight: float


class TextFacts(TypedDict):
    """Of the stage `text`; `parts` has corpus and rows of each part of the text store."""

    corpora: list[CorpusFacts]
    parts: list[tuple[int, int]]
    kept: int
    length_ratio: NotRequired[float]
    balance: NotRequired[float]
    """The length ratio, by the name that it had in 0.1."""
    notes: list[str]
    seconds: dict[str, float]
    digest: list[str]


class TokenizerFacts(TypedDict):
    """Of the stage `tokenizer`."""

    source_pieces: int
    target_pieces: int
    joint: bool
    digest: list[str]


class TokenizedCorpus(TypedDict):
    """The pairs of a corpus that are short enough, and those that are too long."""

    kept: int
    too_long: int
    samples: list[tuple[str, str]]


class ColumnFacts(TypedDict):
    """Counts of the tokens of a column; `lengths` is a histogram of its sentences' lengths."""

    tokens: int
    lengths: list[int]
    pieces: int
    pieces_used: int
    pieces_rare: int
    unknown_tokens: int
    unknown_pieces: dict[str, int]
    sampling_growth: NotRequired[float]


class TrainFacts(TypedDict):
    """Of the stage `train`."""

    corpora: list[TokenizedCorpus]
    source: ColumnFacts
    target: ColumnFacts
    digest: list[str]


class DevFacts(TypedDict):
    """Of the stage `dev`."""

    read: int
    kept: NotRequired[int]
    source_tokens: NotRequired[int]
    target_tokens: NotRequired[int]
    digest: NotRequired[str]


class PreparedFacts(TypedDict, total=False):
    """Of the stages that are finished."""

    text: TextFacts
    tokenizer: TokenizerFacts
    train: TrainFacts
    dev: DevFacts
