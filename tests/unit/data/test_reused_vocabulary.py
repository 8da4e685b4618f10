"""Data prepared with the vocabulary of the model that training starts from."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sacremoses import MosesPunctNormalizer

from mtkit.data.check import check_recipe_data
from mtkit.data.phrasebook import generate_pairs
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import fingerprint, open_prepared
from mtkit.data.tokenizer_choice import TokenizerChoice
from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.tokenizer import Tokenizer
from mtkit.text.extend_vocabulary import extend_vocabulary
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.train_tokenizer import train_tokenizer
from mtkit.workspace import Workspace

PAIRS = list(generate_pairs("train", 300))
SOURCES = [source for source, _ in PAIRS]
TARGETS = [target for _, target in PAIRS]


def train(**settings) -> SubwordTokenizer:
    return train_tokenizer(Tokenizer(vocab_size=300, **settings), SOURCES, TARGETS, seed=1)


RECIPE = """\
name = "tuned"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
builtin = "phrasebook"
sentences = 200
tag = "<new>"
[data.dev]
builtin = "phrasebook"
sentences = 10
[tokenizer]
user_symbols = ["<ph>"]
[training.start_from]
model = "start"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A recipe that starts from the model in `start`, of which the tokenizer alone is there."""
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    train().save(tmp_path / "start")
    return tmp_path


def open_run(folder: Path, *overrides: str) -> tuple[Recipe, Workspace]:
    return load_recipe(folder / "mtkit.toml", overrides), Workspace(folder / "run")


def test_prepared_with_the_pieces_of_the_model(project: Path, capsys) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    data, start = open_prepared(recipe, workspace), SubwordTokenizer.load(project / "start")
    pieces = data.tokenizer.source_vocabulary.pieces
    assert pieces == (*start.source_vocabulary.pieces, "<new>", "<ph>")
    said = f"reusing the vocabulary of {project / 'start'}, with <new> <ph> added"
    assert said in capsys.readouterr().err
    source, target = data.train.gather(np.arange(200)).values()
    assert source.to_lists() == [[300, *tokens] for tokens in start.encode_source(SOURCES[:200])]
    assert target.to_lists() == start.encode_target(TARGETS[:200])
    # Keys on training a tokenizer have no effect.
    assert is_prepared(recipe, workspace)
    text = (workspace.tokenizer / "joint.spm").read_bytes()
    prepare(*open_run(project, "tokenizer.vocab_size=99", "tokenizer.kind=unigram"))
    assert (workspace.tokenizer / "joint.spm").read_bytes() == text


def test_what_makes_other_data(project: Path) -> None:
    recipe, workspace = open_run(project)
    prepare(recipe, workspace)
    shutil.copytree(project / "start", project / "other")
    for override in (
        "~training.start_from",
        "training.start_from.vocabulary=new",
        f"training.start_from.model={project / 'other'}",
    ):
        other, _ = open_run(project, override)
        assert fingerprint(other) != fingerprint(recipe)
        assert not is_prepared(other, workspace)
    # Where a vocabulary is trained, the data don't depend on the model.
    new, _ = open_run(project, "training.start_from.vocabulary=new")
    assert fingerprint(new) == fingerprint(open_run(project, "~training.start_from")[0])
    assert is_prepared(open_run(project, "training.freeze=['encoder']")[0], workspace)
    # Another tokenizer at the same place, of the same size.
    train(kind="unigram").save(project / "start")
    assert not is_prepared(recipe, workspace)
    digest = open_prepared(recipe, workspace).digest
    prepare(recipe, workspace)
    assert open_prepared(recipe, workspace).digest != digest


def test_punctuation_is_treated_as_the_model_has_it(project: Path) -> None:
    lines = {"en": "the  man , and the dog …\n", "de": "der  Mann , und der Hund …\n"}
    for language, line in lines.items():
        (project / f"own.{language}").write_text(line * 5)
    corpus = "data.train.0={source='own.en', target='own.de'}"
    duplicates = "data.cleaning.duplicates.enabled=false"
    recipe, workspace = open_run(project, corpus, duplicates)
    prepare(recipe, workspace)
    digest = open_prepared(recipe, workspace).digest
    settings = project / "start" / "tokenizer.json"
    settings.write_text(json.dumps({"tags": [], "punctuation": ["en", "de"]}))
    assert not is_prepared(recipe, workspace)
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    assert data.digest != digest
    source, target = data.train.gather(np.arange(5)).values()
    plain = SubwordTokenizer(*SubwordTokenizer.load(project / "start").models)
    moses = {language: MosesPunctNormalizer(lang=language).normalize for language in lines}
    expected = {language: moses[language](line.strip()) for language, line in lines.items()}
    assert expected["en"] != lines["en"].strip()
    assert source.to_lists() == plain.encode_source([expected["en"]]) * 5
    assert target.to_lists() == plain.encode_target([expected["de"]]) * 5
    assert data.tokenizer.normalize_source([lines["en"].strip()]) == [expected["en"]]


def test_what_the_model_never_saw_is_warned_of_with_what_helps(project: Path, capsys) -> None:
    for language in ("en", "de"):
        (project / f"own.{language}").write_text("пока пока пока\n" * 5)
    overrides = [
        "data.train.0={source='own.en', target='own.de'}",
        *(f"data.cleaning.{name}.enabled=false" for name in ("identical", "script", "repetition")),
    ]
    prepare(*open_run(project, *overrides))
    said = capsys.readouterr().err
    assert "of the tokens are unknown (" in said
    assert 'training.start_from.vocabulary = "new"' in said
    assert "byte_fallback" not in said


FAULTS = {
    "no model": (
        "training.start_from.model=/absent",
        "/absent: no model here to reuse the vocabulary of (training.start_from.model)",
        "give a model folder, such as another run's model/; a path in a recipe is "
        "relative to data.data_root",
    ),
    "two vocabularies wanted": (
        "tokenizer.joint=false",
        "start: this model has one vocabulary for both languages, but tokenizer.joint = false",
        "--set tokenizer.joint=true; or train a new vocabulary: --set "
        "training.start_from.vocabulary=new",
    ),
    "one vocabulary wanted": (
        "training.start_from.model=two",
        "two: this model has a separate vocabulary for each language, but tokenizer.joint = true",
        "--set tokenizer.joint=false, and model.tied_embeddings as in its config.json; or train a "
        "new vocabulary: --set training.start_from.vocabulary=new",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_vocabulary_that_cannot_be_kept(project: Path, fault: str, monkeypatch) -> None:
    override, message, hint = FAULTS[fault]
    monkeypatch.chdir(project)
    train(joint=False).save(project / "two")
    recipe, workspace = open_run(project, override, "model.tied_embeddings=decoder")
    with pytest.raises(MtkitError) as caught:
        prepare(recipe, workspace)
    # Told before anything is done.
    assert not workspace.root.exists()
    [listed] = check_recipe_data(recipe).faults
    for error in (caught.value, listed):
        assert error.message.removeprefix(f"{project}/") == message
        assert error.hint == hint


def test_checked_beforehand_with_the_pieces_of_the_model(project: Path) -> None:
    recipe, workspace = open_run(project)
    preflight = check_recipe_data(recipe)
    assert not preflight.faults
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    assert preflight.report.epoch is not None
    assert preflight.report.epoch.source_tokens == data.train.num_tokens["source"]
    assert preflight.report.epoch.target_tokens == data.train.num_tokens["target"]


def test_a_tokenizer_of_ones_own_and_that_of_a_model(project: Path) -> None:
    with pytest.raises(MtkitError, match=r"tokenizer\.pretrained names a tokenizer, but training"):
        open_run(project, "tokenizer.pretrained.source=own.model")
    own = ("tokenizer.pretrained.source=own.model", "training.start_from.vocabulary=new")
    assert open_run(project, *own)[0].tokenizer.pretrained is not None


def test_encoder_and_decoder_keep_one_vocabulary(project: Path) -> None:
    symbols = extend_vocabulary(SubwordTokenizer.load(project / "start"), symbols=["<mask>"])
    symbols.save(project / "masked")
    train(kind="unigram").save(project / "other")

    def parts(encoder: str, decoder: str) -> list[str]:
        named = {"encoder": encoder, "decoder": decoder}
        return [
            "~training.start_from",
            *(f"training.start_from.{key}={project / name}" for key, name in named.items()),
        ]

    # A masked language model's has `<mask>` behind the pieces of the causal one.
    recipe, workspace = open_run(project, *parts("masked", "start"))
    prepare(recipe, workspace)
    pieces = open_prepared(recipe, workspace).tokenizer.source_vocabulary.pieces
    assert pieces == (*symbols.source_vocabulary.pieces, "<new>", "<ph>")
    for encoder, decoder in (("start", "other"), ("start", "masked")):
        recipe, _ = open_run(project, *parts(encoder, decoder))
        with pytest.raises(MtkitError, match=r"vocabulary isn't that of .*/start, but") as caught:
            TokenizerChoice.of(recipe).find()
        assert caught.value.hint.endswith("--set training.start_from.vocabulary=new")
    recipe, _ = open_run(project, *parts("start", "absent"))
    with pytest.raises(MtkitError, match=r"of \(training\.start_from\.decoder\)$"):
        TokenizerChoice.of(recipe).find()


def test_a_check_counts_with_the_pieces_that_are_learned(project: Path) -> None:
    """All of the text is its sample here, and so it counts what `prepare` counts."""
    start = f"training.start_from={{model='{project / 'start'}', vocabulary='extend'}}"
    recipe, workspace = open_run(project, start, "tokenizer.vocab_size=400")
    estimate = check_recipe_data(recipe).report.epoch
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    source, target = data.train.gather(np.arange(len(data.train))).values()
    counts = [sum(map(len, side.to_lists())) for side in (source, target)]
    assert estimate is not None
    assert [estimate.source_tokens, estimate.target_tokens] == pytest.approx(counts, rel=0.01)
    kept = open_run(project, f"training.start_from.model={project / 'start'}")[0]
    alone = check_recipe_data(kept).report.epoch
    assert alone is not None
    assert alone.source_tokens > estimate.source_tokens
