"""Text to tokens and back; SentencePiece's own calls are the outside view."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece
from pydantic import ValidationError

from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.recipe import load_recipe
from mtkit.recipe.tokenizer import Pretrained, Tokenizer
from mtkit.text.sentencepiece_segmenter import read_pretrained
from mtkit.text.token_ids import BOS, EOS, PAD, UNK
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.tokenizer_files import ForeignRows
from mtkit.text.train_tokenizer import train_tokenizer

PAIRS = list(generate_pairs("train", 400))
SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]


def train(**settings) -> SubwordTokenizer:
    return train_tokenizer(Tokenizer(vocab_size=300, **settings), SOURCES, TARGETS, seed=1)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_round_trip_and_sizes(kind: str, *, joint: bool) -> None:
    tokenizer = train(kind=kind, joint=joint)
    assert tokenizer.is_joint is joint
    assert (tokenizer.source_vocab_size, tokenizer.target_vocab_size) == (300, 300)
    for tokens, text in zip(tokenizer.encode_target(TARGETS), TARGETS, strict=True):
        assert tokens[-1] == EOS
        assert not {PAD, UNK, BOS, EOS} & set(tokens[:-1])
        assert tokenizer.decode_target(tokens) == text


def test_special_ids_are_the_same_in_every_vocabulary(tmp_path: Path) -> None:
    train(joint=False).save(tmp_path)
    for name in ("source.spm", "target.spm"):
        model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / name))
        assert (model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()) == (0, 1, 2, 3)
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("joint", "files"), [(True, ["joint.spm"]), (False, ["source.spm", "target.spm"])]
)
def test_saved_and_loaded(tmp_path: Path, files: list[str], *, joint: bool) -> None:
    tokenizer = train(joint=joint)
    tokenizer.save(tmp_path / "tokenizer")
    found = sorted(path.name for path in (tmp_path / "tokenizer").iterdir())
    assert found == [*files, "tokenizer.json"]
    loaded = SubwordTokenizer.load(tmp_path / "tokenizer")
    assert loaded.encode_source(SOURCES[:5]) == tokenizer.encode_source(SOURCES[:5])
    assert loaded.encode_target(TARGETS[:5]) == tokenizer.encode_target(TARGETS[:5])
    assert loaded.is_joint is joint


def test_sentencepiece_itself_says_the_same(tmp_path: Path) -> None:
    tokenizer = train()
    tokenizer.save(tmp_path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "joint.spm"))
    assert tokenizer.encode_source(SOURCES[:50]) == [
        [*ids, model.eos_id()] for ids in model.encode(SOURCES[:50])
    ]


def test_the_same_text_makes_the_same_tokenizer(tmp_path: Path) -> None:
    for name in ("first", "second"):
        train(kind="unigram").save(tmp_path / name)
    first, second = ((tmp_path / name / "joint.spm").read_bytes() for name in ("first", "second"))
    assert first == second


def test_special_ids_and_unknown_characters_in_text() -> None:
    tokenizer = train()
    text = tokenizer.decode_target([BOS, *tokenizer.encode_target(["der Mann"])[0], PAD, PAD])
    assert text == "der Mann"
    assert UNK in tokenizer.encode_source(["東"])[0]
    # Text that looks like a special piece is text.
    assert EOS not in tokenizer.encode_source(["</s>"])[0][:-1]


def test_bytes_spell_what_the_vocabulary_lacks() -> None:
    settings = Tokenizer(vocab_size=500, byte_fallback=True)
    tokenizer = train_tokenizer(settings, SOURCES, TARGETS, seed=1)
    tokens = tokenizer.encode_target(["東京 ☃"])[0]
    assert UNK not in tokens
    assert tokenizer.decode_target(tokens) == "東京 ☃"


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tokens_stand_where_sentencepiece_says(
    tmp_path: Path, kind: str, *, byte_fallback: bool
) -> None:
    settings = Tokenizer(
        kind=kind, vocab_size=600, byte_fallback=byte_fallback, user_symbols=("<x>",)
    )
    tokenizer = train_tokenizer(settings, SOURCES, TARGETS, seed=1)
    tokenizer.save(tmp_path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "joint.spm"))
    # Plain, or with what is normalised, unknown, a symbol, special or spelled like a space.
    odd = [
        "",
        " a",
        "a  b ",
        "ｆｕｌｌ",
        "☃ snow☃",
        "☃",
        "<unk>",
        "a<x>b",
        "<x>",
        "</s>",
        "a▁b",
        "▁",
    ]
    for line in [*SOURCES[:100], *odd]:
        tokens = tokenizer.encode_source([line])[0][:-1]
        pieces = model.encode(line, return_type="proto").pieces
        located = tokenizer.locate("source", line, [*([BOS] if line else []), *tokens])
        assert [line[start:end] for start, end in located] == [each.surface for each in pieces]
        starts = [len(line[:start].encode()) for start, end in located if start < end]
        assert starts == [each.begin for each in pieces if each.surface]
        text = tokenizer.decode_target([*tokens, EOS])
        decoded = model.decode(tokens, return_type="proto").pieces
        located = tokenizer.locate_decoded((*tokens, EOS), text)
        assert [text[start:end] for start, end in located[:-1]] == [
            each.surface for each in decoded
        ]
        assert located[-1] == (len(text), len(text))


def test_a_blank_line_is_only_its_end() -> None:
    tokenizer = train()
    assert tokenizer.encode_source([""]) == [[EOS]]
    assert tokenizer.decode_target([EOS]) == ""


def test_without_tags_nothing_stands_before_a_line() -> None:
    tokenizer = train(joint=True)
    assert [tokenizer.split_tags(line) for line in ("", "a")] == [("", ""), ("", "a")]


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_what_ends_the_text_early_is_not_blamed_on_it(fault: BaseException) -> None:
    def sentences() -> Iterator[str]:
        yield from SOURCES
        raise fault

    with pytest.raises(type(fault)) as raised:
        train_tokenizer(Tokenizer(vocab_size=300), sentences(), TARGETS, seed=1)
    assert raised.value is fault


def test_too_little_text_for_the_vocabulary() -> None:
    with pytest.raises(MtkitError, match="5,000 is too large") as caught:
        train_tokenizer(Tokenizer(vocab_size=5000), ["a b"], ["c d"], seed=1)
    # By hand: four special pieces, the space, a, b, c and d, and each of these behind a space.
    assert "at most 13 pieces" in caught.value.message
    assert "--set tokenizer.vocab_size=13" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "vocab_size", "message"),
    [
        (["", " "], 50, "every line is blank"),
        (["abcdefghijklmnopqrstuvwxyz"], 20, "symbols alone are 31 pieces"),
    ],
)
def test_text_that_gives_no_vocabulary(text: list[str], vocab_size: int, message: str) -> None:
    with pytest.raises(MtkitError, match=message):
        train_tokenizer(Tokenizer(vocab_size=vocab_size), text, text, seed=1)


@pytest.mark.parametrize("fault", ["missing", "damaged"])
def test_a_folder_without_a_sound_tokenizer(tmp_path: Path, fault: str) -> None:
    if fault == "damaged":
        (tmp_path / "joint.spm").write_bytes(b"\x00\xffnothing")
        (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(MtkitError, match=r"no such tokenizer|damaged tokenizer"):
        SubwordTokenizer.load(tmp_path)


def test_a_tag_is_one_token_before_the_source(tmp_path: Path) -> None:
    settings = Tokenizer(vocab_size=300, user_symbols=("<ph>",))
    tokenizer = train_tokenizer(settings, SOURCES, TARGETS, seed=1, tags=["<BT>", "<de>"])
    tokenizer.save(tmp_path)
    loaded = SubwordTokenizer.load(tmp_path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "joint.spm"))
    [plain] = tokenizer.encode_source([SOURCES[0]])
    for tag in ("<BT>", "<de>"):
        tagged = [model.piece_to_id(tag), *plain]
        assert loaded.encode_source([f"{tag} {SOURCES[0]}"]) == [tagged]
        assert loaded.encode_source([f" {tag}{SOURCES[0]}"]) == [tagged]
        assert loaded.tokenize("source", [SOURCES[0]], tag=tag) == [tagged]
    both = [model.piece_to_id("<BT>"), model.piece_to_id("<de>"), *plain]
    assert loaded.encode_source([f"<BT> <de> {SOURCES[0]}"]) == [both]
    assert loaded.encode_source([]) == []
    # A tag in the middle, and a symbol anywhere, are one token too.
    for symbol in ("<de>", "<ph>"):
        assert model.piece_to_id(symbol) in loaded.encode_source([f"the {symbol} man"])[0]


def train_elsewhere(folder: Path, **options) -> Path:
    """A model as a user has it: trained by SentencePiece alone."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SOURCES, *TARGETS]),
        model_prefix=str(folder / "own"),
        vocab_size=300,
        minloglevel=2,
        **options,
    )
    return folder / "own.model"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unk_id": 3, "bos_id": -1, "eos_id": 0, "pad_id": 7},
        {"unk_id": 0, "bos_id": -1, "eos_id": -1},
        {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
    ],
    ids=["default ids", "other ids", "no sentence ends", "mtkit's ids"],
)
def test_a_model_from_elsewhere_keeps_its_pieces(tmp_path: Path, options: dict) -> None:
    path = train_elsewhere(tmp_path, **options)
    settings = Tokenizer(pretrained=Pretrained(source=path))
    tokenizer = SubwordTokenizer(*read_pretrained(settings))
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    specials = {model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()} - {-1}
    assert tokenizer.source_vocab_size == 300 - len(specials) + 4
    for line in (SOURCES[0], SOURCES[7], "東 Mann"):
        [tokens] = tokenizer.encode_target([line])
        assert tokens[-1] == EOS
        assert tokenizer.decode_target(tokens) == model.decode(model.encode(line))
        # Unknown is where the model has it, and each piece has one token.
        assert [token == UNK for token in tokens[:-1]] == [
            piece == model.unk_id() for piece in model.encode(line)
        ]
    distinct = {piece for line in SOURCES for piece in model.encode(line)}
    ours = {token for tokens in tokenizer.encode_source(SOURCES) for token in tokens[:-1]}
    assert len(ours) == len(distinct)
    assert max(ours) < tokenizer.source_vocab_size


def test_faults_of_a_model_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "own.vocab").write_text("the 0\nman -1\n")
    for name, message in (("absent.model", "no such file"), ("own.vocab", "not a SentencePiece")):
        with pytest.raises(MtkitError, match=message):
            read_pretrained(Tokenizer(pretrained=Pretrained(source=tmp_path / name)))
    models = read_pretrained(Tokenizer(pretrained=Pretrained(source=train_elsewhere(tmp_path))))
    with pytest.raises(MtkitError, match="no piece '<BT>'") as caught:
        SubwordTokenizer(*models, tags=["<BT>"])
    assert "user_defined_symbols" in caught.value.hint


def test_moses_punctuation_is_part_of_the_tokenizer(tmp_path: Path) -> None:
    settings = Tokenizer(vocab_size=300, punctuation="moses")
    tokenizer = train_tokenizer(
        settings, SOURCES, TARGETS, seed=1, punctuation=("en", "de"), tags=["<BT>"]
    )
    tokenizer.save(tmp_path)
    loaded = SubwordTokenizer.load(tmp_path)
    [plain] = loaded.encode_source(["<BT> the man, the dog"])
    assert loaded.encode_source(["<BT> the man, the  dog"]) == [plain]
    assert loaded.encode_target(["der Hund …"]) == loaded.encode_target(["der Hund ..."])


@pytest.mark.skipif("MTKIT_TEST_DATA" not in os.environ, reason="MTKIT_TEST_DATA isn't set")
def test_tokenised_text_survives_the_papers_recipe() -> None:
    folder = Path(os.environ["MTKIT_TEST_DATA"]) / "multi30k" / "lc_norm_tok"

    def read(name: str) -> list[str]:
        return gzip.decompress((folder / name).read_bytes()).decode().split("\n")[:-1]

    settings = load_recipe("multi30k-en-de-paper").tokenizer
    tokenizer = train_tokenizer(settings, read("train.en.gz"), read("train.de.gz"), seed=1)
    references = read("test_2016_flickr.de.gz")
    assert len(references) == 1000
    decoded = [tokenizer.decode_target(tokens) for tokens in tokenizer.encode_target(references)]
    # A character that the training text lacks can't be had: none of the other lines may differ.
    known = set("".join(read("train.en.gz") + read("train.de.gz")))
    for reference, text in zip(references, decoded, strict=True):
        assert text == reference or set(reference) - known
    assert sum(text != reference for reference, text in zip(references, decoded, strict=True)) <= 2


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ('{"punctuation": 7}', "punctuation: "),
        ('{"punctuation": ["en"]}', "punctuation.1: Field required"),
        ('{"tags": [1]}', "tags.0: "),
    ],
)
def test_damaged_settings_are_named(tmp_path, settings, fault):
    train().save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(settings)
    with pytest.raises(MtkitError) as caught:
        SubwordTokenizer.load(tmp_path)
    assert caught.value.message.startswith(f"{path}: damaged: {fault}")
    assert "mtkit prepare" in caught.value.hint


def test_a_tokenizer_without_settings_is_refused(tmp_path):
    train().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(MtkitError, match=r"tokenizer\.json: missing"):
        SubwordTokenizer.load(tmp_path)


@pytest.mark.parametrize("runs", [[[0, 1]], [[0, 300_000_000]], [[-1, 9]], [[0, 9], [9, 0]]])
def test_rows_of_another_program_that_no_model_has(runs: list[list[int]]) -> None:
    with pytest.raises(ValidationError, match="expected runs of rows"):
        ForeignRows.model_validate({"source": runs, "target": [[0, 9]]})
