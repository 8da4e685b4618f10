"""Texts labelled in batches as one by one; lines in, labels out."""

import io
import json
from pathlib import Path

import pytest
import torch

import mtkit
from mtkit.data.phrasebook import generate_pairs
from mtkit.errors import MtkitError
from mtkit.inference.classify import LineClassifier
from mtkit.inference.request import LineError
from mtkit.inference.streams.input_format import InputFormat
from mtkit.inference.streams.label_stream import label_stream
from mtkit.model.build import build
from mtkit.model.config import ModelConfig
from mtkit.model.folder import save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.network import PaddedLayout
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.train_tokenizer import train_tokenizer

TINY = Path(__file__).parents[2] / "tiny-classification.toml"
PAIRS = list(generate_pairs("train", 60))
TEXTS = [english for english, _ in PAIRS]
LABELS = ("no", "perhaps", "yes")


def make_recipe(kind: str, *, has_pairs: bool) -> Recipe:
    recipe = load_recipe(str(TINY), (f"training.classification.kind={kind}",)).model_dump()
    if has_pairs:
        for corpus in (*recipe["data"]["train"], recipe["data"]["dev"]):
            corpus["second_column"] = "second"
        recipe["evaluation"]["test_sets"] = ()
    return Recipe.model_validate(recipe)


def save(folder: Path, kind: str = "masked-lm", *, has_pairs: bool = False):
    """Saves a classifier of chance; returns its network and tokenizer."""
    tokenizer = train_tokenizer(Tokenizer(vocab_size=150), TEXTS, [], seed=1)
    tokenizer = extend_vocabulary(tokenizer, symbols=("<delimiter>", "<extract>"))
    recipe = make_recipe(kind, has_pairs=has_pairs)
    torch.manual_seed(5)
    model = build(ModelConfig.of(recipe, tokenizer, LABELS)).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(4.0)
    save_model_folder(
        folder,
        recipe=recipe,
        weights=pack_weights(model),
        tokenizer=tokenizer,
        labels=LABELS,
        origin="chance",
    )
    return model, tokenizer


@pytest.mark.parametrize("kind", ["masked-lm", "causal-lm"])
@pytest.mark.parametrize("has_pairs", [False, True])
def test_in_batches_as_one_by_one(tmp_path: Path, kind: str, *, has_pairs: bool) -> None:
    model, tokenizer = save(tmp_path / "model", kind, has_pairs=has_pairs)
    ids = tokenizer.source_vocabulary.ids
    # Short enough for two to fit in 64 tokens.
    texts = [text for text in TEXTS if len(text) < 28]
    assert len(texts) > 10
    seconds = texts[::-1] if has_pairs else None
    found = LineClassifier(tmp_path / "model", device="cpu").classify(texts, seconds)
    encode = lambda text: tokenizer.encode_source([text])[0][:-1]  # noqa: E731
    for number, one in enumerate(found):
        first = encode(texts[number])
        second = encode(seconds[number]) if has_pairs else []
        assert len(first) + len(second) <= 61
        closing = ["<delimiter>", "<extract>"] if kind == "causal-lm" else ["</s>", "</s>"]
        tokens = [ids["<s>"], *first]
        tokens += [ids[closing[0]], *second, ids[closing[1]]] if has_pairs else [ids[closing[1]]]
        text = torch.tensor([tokens])
        layout = PaddedLayout.without_padding(text)
        is_second = (torch.arange(len(tokens)) > len(first) + 1).long()[None] * has_pairs
        with torch.no_grad():
            _, logits = model.label(text, is_second, layout, torch.tensor([len(tokens) - 1]))
        expected = dict(zip(LABELS, logits.softmax(-1)[0].tolist(), strict=True))
        assert one.probabilities == pytest.approx(expected, abs=1e-5)
        assert one.label == max(expected, key=expected.get)
    assert len({one.probabilities["no"] for one in found}) > 5


def stream(classifier: LineClassifier, text: str, form: str, *, as_json: bool = False) -> str:
    target = io.BytesIO()
    try:
        label_stream(
            classifier,
            io.BytesIO(text.encode()),
            target,
            input_format=InputFormat(form=form),
            as_json=as_json,
        )
    finally:
        stream.written = target.getvalue().decode()
    return stream.written


def test_lines_in_labels_out(tmp_path: Path) -> None:
    save(tmp_path / "model")
    classifier = LineClassifier(tmp_path / "model", device="cpu")
    labels = [one.label for one in classifier.classify(TEXTS[:3])]
    text = f"{TEXTS[0]}\n\n{TEXTS[1]}\r\n{TEXTS[2]}"
    assert stream(classifier, text, "text").split("\n") == [labels[0], "", *labels[1:], ""]
    given = json.dumps({"source": TEXTS[0], "id": 7})
    found = json.loads(stream(classifier, given + "\n", "jsonl", as_json=True))
    assert (found["id"], found["label"]) == (7, labels[0])
    with pytest.raises(LineError, match='the key "label" is reserved'):
        stream(classifier, '{"source": "a", "label": "x"}\n', "jsonl", as_json=True)


def test_what_python_refuses(tmp_path: Path) -> None:
    save(tmp_path / "model")
    with pytest.raises(TypeError, match="got a str, expected a list"):
        mtkit.LineClassifier(tmp_path / "model", device="cpu").classify(TEXTS[0])
    with pytest.raises(MtkitError, match="is a classifier, which doesn't generate text") as caught:
        mtkit.Translator(tmp_path / "model", device="cpu")
    assert "mtkit.LineClassifier" in caught.value.hint


def test_a_line_at_fault_is_named_behind_the_labels_before_it(tmp_path: Path) -> None:
    save(tmp_path / "model", has_pairs=True)
    classifier = LineClassifier(tmp_path / "model", device="cpu")
    with pytest.raises(LineError, match="input line 3: one text, but this model labels pairs"):
        stream(classifier, "a\tb\n\na\n", "tsv")
    assert stream.written.count("\n") == 2
    for one_text in ("a\t\n", "\tb\n"):
        with pytest.raises(LineError, match="input line 1: one text, but"):
            stream(classifier, one_text, "tsv")
    with pytest.raises(ValueError, match="2 texts, but 1 second texts"):
        classifier.classify(["a", "b"], ["c"])
    with pytest.raises(ValueError, match="1 texts, but 0 second texts"):
        classifier.classify(["a"], [])
    save(tmp_path / "single")
    with pytest.raises(LineError, match="input line 1: two texts"):
        stream(LineClassifier(tmp_path / "single", device="cpu"), "a\tb\n", "tsv")


def test_another_model_is_refused(tiny_run, tmp_path: Path) -> None:
    recipe = tiny_run().recipe
    tokenizer = train_tokenizer(Tokenizer(vocab_size=150), TEXTS, TEXTS, seed=1)
    weights = pack_weights(build(ModelConfig.of(recipe, tokenizer)))
    save_model_folder(
        tmp_path / "model", recipe=recipe, weights=weights, tokenizer=tokenizer, origin="chance"
    )
    with pytest.raises(MtkitError, match="expected a classifier"):
        LineClassifier(tmp_path / "model", device="cpu")
