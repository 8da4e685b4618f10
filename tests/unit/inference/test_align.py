"""Links between words, by hand; lines and translations of a tiny model."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mtkit.data.sources.pharaoh import parse_links, write_links
from mtkit.errors import MtkitError
from mtkit.inference.align import LocatedText, align_words
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.paragraphs import join_parts
from mtkit.inference.request import LineError, Request
from mtkit.inference.streams.input_format import InputFormat
from mtkit.inference.streams.translate_stream import score_stream
from mtkit.inference.translation import Hypothesis, WordAlignment, WordLink
from mtkit.inference.translator import Translator
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.recipe.inference import Inference
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.words import Span, count_between_spaces, find_words


def test_links_worked_out_by_hand() -> None:
    # Source: a tag, "ab" in two pieces, "c", </s>. Target: "x", "yz" in two pieces, "w", </s>.
    source = LocatedText(((5, 7), (8, 9)), (-1, 0, 0, 1, -1))
    target = LocatedText(((0, 1), (2, 4), (5, 6)), (0, 1, 1, 2, -1))
    weights = np.array(
        [
            [0.1, 0.3, 0.3, 0.2, 0.1],  # x: 0.6 to ab, 0.2 to c
            [0.0, 0.1, 0.0, 0.9, 0.0],  # yz: (0.1 + 0.8) / 2 to ab, (0.9 + 0.2) / 2 to c
            [0.0, 0.4, 0.4, 0.2, 0.0],
            [0.3, 0.1, 0.0, 0.2, 0.4],  # w: 0.1 to ab, 0.2 to c: the most, though little
            [0.0, 0.0, 0.0, 0.0, 1.0],
        ],
        np.float32,
    )
    (found,) = align_words([(source, target)], [weights])
    assert found.pairs == ((0, 0), (0, 1), (1, 1), (1, 2))
    assert found.links[2] == WordLink((8, 9), (2, 4))
    # The tag is a word between spaces, too.
    assert found.as_pharaoh("<t>\t ab c", "x yz w") == "1-0 1-1 2-1 2-2"
    (nothing,) = align_words([(source, target)], [np.zeros((5, 5), np.float32)])
    assert nothing.pairs == ()
    (beyond,) = align_words([(source, target)], [np.full((5, 5), np.inf, np.float32)])
    assert max(beyond.pairs) == (1, 2)
    # Several at once, one of them without a token.
    empty = LocatedText((), ())
    three = align_words(
        [(source, empty), (source, target), (source, target)],
        [np.zeros((0, 5), np.float32), weights, np.zeros((5, 5), np.float32)],
    )
    assert [each.pairs for each in three] == [(), found.pairs, ()]
    assert json.loads(json.dumps(found.as_json("<t>\t ab c", "x yz w"))) == {
        "pharaoh": "1-0 1-1 2-1 2-2",
        "links": [[0, 0], [0, 1], [1, 1], [1, 2]],
        "source_words": [[5, 7], [8, 9]],
        "target_words": [[0, 1], [2, 4], [5, 6]],
    }


@pytest.mark.parametrize(
    ("line", "pieces", "text", "num_links", "pharaoh"),
    [
        # What fast_align reads: only spaces and tabs part words.
        ("old\u00a0man x", [], "alter Mann x", 3, "0-0 0-1 1-2"),
        ("old man\tx", [], " alter\u3000Mann\u2028x", 3, "0-0 1-0 2-0"),
        # Text that its user has segmented: pieces of a word have the word's number.
        ("東京タワー は", [(0, 2), (2, 5), (6, 7)], "Tokyo Tower", 2, "0-0 0-1"),
    ],
)
def test_words_of_other_tools_are_between_spaces(
    line: str, pieces: list[Span], text: str, num_links: int, pharaoh: str
) -> None:
    words = tuple(find_words(line, pieces)), tuple(find_words(text, []))
    found = WordAlignment(*words, tuple((index, index) for index in range(num_links)))
    assert found.as_pharaoh(line, text) == pharaoh
    # A corpus's `alignments` takes them.
    num_words = count_between_spaces(line), count_between_spaces(text)
    assert write_links(parse_links(pharaoh, num_words, "links:1")) == pharaoh


@pytest.mark.parametrize(("language", "gap"), [("de", 1), ("zh", 0)])
def test_parts_are_joined_with_their_offsets(language: str, gap: int) -> None:
    def part(text: str, alignment: WordAlignment) -> Hypothesis:
        return Hypothesis((4, 3), -1.0, -1.0, is_finished=True, text=text, alignment=alignment)

    first = part("ab", WordAlignment(((0, 2),), ((0, 2),), ((0, 0),)))
    empty = part("", WordAlignment(((3, 4),), (), ()))
    last = part("c d", WordAlignment(((5, 6), (7, 8)), ((0, 1), (2, 3)), ((0, 1), (1, 0))))
    (joined,) = join_parts([[first], [empty], [last]], language)
    words = ((0, 2), (2 + gap, 3 + gap), (4 + gap, 5 + gap))
    assert joined.alignment == WordAlignment(
        ((0, 2), (3, 4), (5, 6), (7, 8)), words, ((0, 0), (2, 2), (3, 1))
    )
    assert [joined.text[start:end] for start, end in words] == ["ab", "c", "d"]


@pytest.fixture
def translator(tiny_run) -> Translator:
    run = tiny_run()
    tokenizer = SubwordTokenizer.load(run.workspace.tokenizer)
    model = build(ModelConfig.of(run.recipe, tokenizer)).eval()
    settings = Inference(alignments=True, n_best=2, max_extra_tokens=3)
    return Translator.of(TorchEngine(model, "cpu"), tokenizer, settings)


def test_lines_with_and_without_alignments_share_a_batch(translator: Translator) -> None:
    lines = ["The old man buys apples.", "She sings.", "They sing."]
    plain = translator.settings.model_copy(update={"alignments": False})
    mixed = translator.search([lines[0], Request(lines[1], settings=plain), lines[2]])
    for index, (found, alone) in enumerate(zip(mixed, translator.search(lines), strict=True)):
        wanted = alone.candidates
        if index == 1:
            wanted = tuple(replace(each, alignment=None) for each in wanted)
        assert found.candidates == wanted
        assert all(each.alignment_weights is None for each in found.candidates)


def test_links_of_the_search_are_those_of_given_translations(translator: Translator) -> None:
    lines = ["The old man buys apples.", "She sings.", "They sing."]
    searched = translator.search(lines)
    pairs = [(line, found.text) for line, found in zip(lines, searched, strict=True)]
    for found, given in zip(searched, translator.score(pairs), strict=True):
        best, again = found.candidates[0], given.candidates[0]
        if again.token_ids == best.token_ids:
            assert again.alignment == best.alignment


def test_every_candidate_of_every_line_is_aligned(translator: Translator) -> None:
    lines = ["The old man  buys three\u00a0apples. She sings.", "", "They sing.\n"]
    for line, found in zip(lines, translator.search(lines), strict=True):
        for candidate in found.candidates:
            alignment = candidate.alignment
            assert alignment is not None
            sources = [line[start:end] for start, end in alignment.source_words]
            targets = [candidate.text[start:end] for start, end in alignment.target_words]
            assert sources == line.split()
            assert targets == candidate.text.split()
            assert candidate.links == alignment.links
    settings = translator.settings.model_copy(update={"max_source_tokens": 12})
    inner = translator._lines
    split = Translator.of(inner._aligner._engine, inner._model.tokenizer, settings)
    (found,) = split.search(lines[:1])
    assert found.was_split
    alignment = found.candidates[0].alignment
    assert [lines[0][start:end] for start, end in alignment.source_words] == lines[0].split()
    assert [found.text[start:end] for start, end in alignment.target_words] == found.text.split()


def test_words_are_aligned_after_the_search_without_the_engine(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["The old man  buys three\u00a0apples. She sings.", "", "They sing."]
    wanted = translator.search(lines)
    finish = translator.search_ahead(lines)
    for name in ("search", "align", "attend", "score"):
        monkeypatch.delattr(TorchEngine, name)
    assert finish() == wanted


def test_given_targets_are_aligned(translator: Translator) -> None:
    pairs = b"She sings.\tSie singt  laut.\n\nThe man sleeps.\tDer Mann\n"
    written = io.BytesIO()
    score_stream(
        translator, io.BytesIO(pairs), written, input_format=InputFormat("tsv"), as_json=True
    )
    first, blank, last = map(json.loads, written.getvalue().splitlines())
    assert first["alignment"]["source_words"] == [[0, 3], [4, 10]]
    assert first["alignment"]["target_words"] == [[0, 3], [4, 9], [11, 16]]
    assert blank["alignment"] == WordAlignment((), (), ()).as_json("", "")
    assert last["alignment"]["target_words"] == [[0, 3], [4, 8]]
    clash = b'{"source": "a", "target": "b", "alignment": 1}\n'
    with pytest.raises(LineError, match='the key "alignment"'):
        score_stream(
            translator,
            io.BytesIO(clash),
            io.BytesIO(),
            input_format=InputFormat("jsonl"),
            as_json=True,
        )


def test_nothing_is_said_of_words_unless_asked(translator: Translator) -> None:
    off = translator.settings.model_copy(update={"alignments": False})
    inner = translator._lines
    plain = Translator.of(inner._aligner._engine, inner._model.tokenizer, off)
    (found,) = plain.search(["They sing."])
    assert found.candidates[0].alignment is None
    assert found.candidates[0].links == ()
    assert "alignment" not in found.as_json("They sing.")


def test_a_decoder_alone_is_refused_before_work_starts(tiny_run_of, tmp_path: Path) -> None:
    run = tiny_run_of("decoder-only")
    tokenizer = SubwordTokenizer.load(run.workspace.tokenizer)
    model = build(ModelConfig.of(run.recipe, tokenizer)).eval()
    engine = TorchEngine(model, "cpu")
    with pytest.raises(MtkitError, match=r"inference\.alignments"):
        Translator.of(engine, tokenizer, Inference(alignments=True))
    # What can't align answers all else.
    settings = Inference(max_extra_tokens=3)
    (found,) = Translator.of(engine, tokenizer, settings, continues=True).search(["The man"])
    assert found.text.startswith("The man")
    assert found.candidates[0].alignment is None
