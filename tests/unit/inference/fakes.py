"""A tokenizer and an engine that a test can see through."""

from collections.abc import Sequence

from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.translation import Hypothesis
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import Inference
from mtkit.text.languages import NO_MARKS, LanguageTokens
from mtkit.text.token_ids import EOS
from mtkit.text.vocabulary import Vocabulary


class CharacterTokenizer:
    """Stands for a SubwordTokenizer: a token is a character's code point after the special ones.

    `<tag>` may stand before a source, and NUL is dropped.
    """

    tags = ("<tag>",)

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return self.encode_target(lines)

    def encode_target(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*(ord(letter) + 4 for letter in line if letter != "\0"), EOS] for line in lines]

    def decode_target(self, tokens: Sequence[int]) -> str:
        return "".join(chr(token - 4) for token in tokens if token != EOS)

    def split_tags(self, line: str) -> tuple[str, str]:
        rest = line.removeprefix("<tag>")
        return line[: len(line) - len(rest)], rest

    languages = None
    masks: tuple[str, ...] = ()

    def mark_languages(self, source: str, target: str) -> LanguageTokens:
        return NO_MARKS

    @property
    def target_vocabulary(self) -> "_Vocabulary":
        return _Vocabulary()

    source_vocabulary = Vocabulary(())


class _Vocabulary:
    @property
    def pieces(self) -> "_Vocabulary":
        return self

    def __getitem__(self, token: int) -> str:
        return "</s>" if token == EOS else chr(token - 4)


class BracketEngine:
    """Stands for an Engine: the translation of a text is that text in brackets.

    The second best is in braces, and cut by the limit. A prefix stands before either.
    """

    max_tokens: int | None = None
    batches_at_once = 1

    def __init__(self) -> None:
        self.batches: list[list[EncodedSource]] = []

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        self.batches.append(list(sources))
        return [
            [
                _enclose(source, "[]", score=-1.0, is_finished=True),
                _enclose(source, "{}", score=-2.0, is_finished=False),
            ][: settings.n_best]
            for source in sources
        ]

    def score(
        self, source_batch: Sequence[Sequence[int]], target_batch: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Each token costs a hundredth of the source's length."""
        return [
            [-len(source) / 100] * len(target)
            for source, target in zip(source_batch, target_batch, strict=True)
        ]


def _enclose(
    source: EncodedSource, brackets: str, *, score: float, is_finished: bool
) -> Hypothesis:
    first, last = (ord(bracket) + 4 for bracket in brackets)
    tokens = (*source.prefix, first, *source.tokens[:-1], last, *([EOS] * is_finished))
    share = score / len(tokens)
    return Hypothesis(tokens, score, score, is_finished, (share,) * len(tokens))


def bracket(**settings: object) -> tuple[Translator, BracketEngine]:
    """Returns a translator that puts brackets around its input, and its engine."""
    engine = BracketEngine()
    chosen = Inference(**{"batch_tokens": 64, **settings})
    return Translator.of(engine, CharacterTokenizer(), chosen, target_language="de"), engine


_WORDS = {"cats": "Katzen", "dog": "Hund", "the": "das", "car": "PKW"}


class WordEngine:
    """Stands for an Engine: it translates word by word, and leaves out what it doesn't know.

    Behind the words stands what an output must contain.
    """

    max_tokens: int | None = None
    batches_at_once = 1

    def __init__(self) -> None:
        self.batches: list[list[EncodedSource]] = []

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        self.batches.append(list(sources))
        return [[self._translate(source)] for source in sources]

    def _translate(self, source: EncodedSource) -> Hypothesis:
        decode = CharacterTokenizer().decode_target
        words = [_WORDS.get(word.strip("."), "") for word in decode(source.tokens).split()]
        banned = [decode(phrase) for phrase in source.forbidden]
        required = [decode(phrase) for phrase in source.required]
        words = [word for word in words if word and word not in (*banned, *required)] + required
        tokens = (*CharacterTokenizer().encode_target([" ".join(words)])[0],)
        assert tokens[-1] == EOS
        return Hypothesis(tokens, -1.0, -1.0, is_finished=True)

    def score(self, source_batch, target_batch):
        raise AssertionError("nothing is scored")
