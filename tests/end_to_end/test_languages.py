"""Translators of several languages: options, JSON lines, engines, ensembles, fine-tuning."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from mtkit import Request, Translator
from mtkit.cli.app import app
from mtkit.data.prepare import prepare
from mtkit.data.prepared import open_prepared
from mtkit.errors import MtkitError
from mtkit.inference.attention import AttentionReader
from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.request import LineError
from mtkit.model.config import read_settings
from mtkit.model.folder import load_model_folder
from mtkit.pipeline.export import export, open_folder
from mtkit.pipeline.import_model import import_model
from mtkit.recipe import load_recipe
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.text.trim_vocabulary import trim_vocabulary
from mtkit.training.train import train
from mtkit.workspace import Workspace

from ..public_models import ENGLISH, GERMAN, make_marian, make_nllb

RECIPE = """\
name = "captions"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.cleaning]
max_tokens = 128
overlap.enabled = false
[model]
num_encoder_layers = 2
num_decoder_layers = 3
d_model = 32
d_ff = 48
num_heads = 4
norm = "pre"
sinusoids = "tensor2tensor"
first_position = 2
output_bias = true
[training]
max_steps = 2
batch_tokens = 128
length_groups = 1
micro_batch_tokens = 128
checkpoint_every = 2
schedule = { kind = "linear", peak = 1e-3, warmup_steps = 2 }
[training.start_from]
model = "imported"
[inference]
max_extra_tokens = 4
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with an imported NLLB, an imported OPUS-MT with tags, and text."""
    folder = tmp_path_factory.mktemp("project")
    make_nllb(folder / "public")
    import_model(str(folder / "public"), folder / "imported")
    make_marian(folder / "opus-mt-en-de")
    import_model(str(folder / "opus-mt-en-de"), folder / "tagged")
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        for split in ("train", "dev"):
            (folder / f"{split}.{name}").write_text("".join(f"{one}\n" for one in lines), "utf-8")
    (folder / "captions.toml").write_text(RECIPE, "utf-8")
    return folder


def _run(*arguments: str, text: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["translate", *arguments], input=text)
    # `main` prints errors; here they are raised.
    said = done.exception.message if isinstance(done.exception, MtkitError) else done.stderr
    return done.exit_code, done.stdout, said


def test_options_and_json_lines_name_languages(project):
    folder = str(project / "imported")
    objects = [
        {"source": ENGLISH[0]},
        {"source": ENGLISH[0], "target_language": "fr", "id": 7},
        {"source": ENGLISH[1], "source_language": "deu", "target_language": "zho_Hant"},
        {"source": ""},
    ]
    given = "".join(json.dumps(each) + "\n" for each in objects)
    options = ["--model", folder, "--from", "eng", "--to", "de"]
    code, out, _ = _run(*options, "--input", "jsonl", "--json", text=given)
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    translator = Translator(folder)
    pairs = [("en", "de"), ("en", "fr"), ("de", "zh_Hant")]
    alone = [
        translator.search(
            [Request(each["source"], source_language=source, target_language=target)], warns=False
        )[0].text
        for each, (source, target) in zip(objects, pairs, strict=False)
    ]
    assert [each["text"] for each in found] == [*alone, ""]
    assert len(set(alone)) == 3
    assert (found[1]["id"], found[1]["target_language"]) == (7, "fr")
    code, out, _ = _run(*options, text=ENGLISH[0] + "\n")
    assert (code, out) == (0, alone[0] + "\n")


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        ([], "x\n", "no source language given, and this model has 7"),
        (["--from", "en"], "x\n", "no target language given"),
        (["--from", "en", "--to", "dee"], "x\n", "doesn't write 'dee' (--to)"),
        (["--input", "jsonl"], '{"source": "x"}\n', "input line 1: no source language given"),
        (
            ["--input", "jsonl", "--from", "en"],
            '{"source": "x", "target_language": 7}\n',
            '"target_language" is not a string',
        ),
    ],
)
def test_what_is_wrong_is_said(project, arguments, text, message):
    code, out, said = _run("--model", str(project / "imported"), *arguments, text=text)
    assert (code, out) == (1, "")
    assert message in said


def test_a_bilingual_model_refuses_others(project):
    code, _, said = _run("--model", str(project / "tagged"), "--from", "fr", text="x\n")
    assert code == 1
    assert "doesn't read 'fr' (--from)" in said


def test_tags_by_hand_and_by_option(project):
    translator = Translator(project / "tagged")
    assert translator.languages.target == ("deu", "fra")
    by_hand = translator.search([f">>fra<< {line}" for line in ENGLISH], warns=False)
    requests = [Request(line, target_language="fr") for line in ENGLISH]
    by_option = translator.search(requests, warns=False)
    assert [each.text for each in by_hand] == [each.text for each in by_option]
    plain = translator.search(ENGLISH, warns=False)
    assert [each.text for each in plain] != [each.text for each in by_hand]


def test_exported_it_translates_the_same(project, tmp_path):
    pytest.importorskip("ctranslate2")
    export(open_folder(project / "imported"), tmp_path / "export")
    client = CTranslate2Client(tmp_path / "export" / "ctranslate2")
    tokenizer = SubwordTokenizer.load(project / "imported")
    settings = read_settings(project / "imported").model_copy(update={"precision": "fp32"})
    translator = Translator(project / "imported", settings=settings)
    for target in ("de", "fr"):
        marks = tokenizer.mark_languages(*translator.languages.resolve("en", target))
        sources = [
            EncodedSource([*marks.before, *tokens, *marks.behind], begin=marks.begin)
            for tokens in tokenizer.encode_source(ENGLISH[:4])
        ]
        lines = [
            Request(line, source_language="en", target_language=target) for line in ENGLISH[:4]
        ]
        ours = translator.search(lines, warns=False)
        for theirs, one in zip(client.search(sources, settings), ours, strict=True):
            assert theirs[0].token_ids == one.candidates[0].token_ids
            # CTranslate2 leaves <pad> out before it makes probabilities.
            assert theirs[0].score == pytest.approx(one.candidates[0].score, abs=5e-3)


def test_an_ensemble_of_a_model_with_itself_translates_as_one(project):
    options = {"source_language": "en", "target_language": "de"}
    one = Translator(project / "imported", **options).translate(ENGLISH[:3])
    assert Translator([project / "imported"] * 2, **options).translate(ENGLISH[:3]) == one


def test_a_long_line_has_its_language_in_each_part(project):
    translator = Translator(project / "imported")
    settings = translator.settings.model_copy(update={"max_source_tokens": 40})
    text = " ".join(ENGLISH[:3])
    whole = {"source_language": "en", "target_language": "de"}
    [found] = translator.search([Request(text, settings=settings, **whole)], warns=False)
    assert found.was_split
    parts = translator.search(
        [Request(line, settings=settings, **whole) for line in ENGLISH[:3]], warns=False
    )
    assert not any(each.was_split for each in parts)
    assert found.text == " ".join(each.text for each in parts)


def test_attention_is_that_of_marked_text(project):
    reader = AttentionReader(
        project / "imported", source_language="en", target_language="de", device="cpu"
    )
    [line] = reader.read([(ENGLISH[0], GERMAN[0])])
    assert line.source_pieces[0] == "eng_Latn"
    assert line.target_pieces[:2] == ("<s>", "deu_Latn")


def test_fine_tuned_it_reads_and_writes_its_recipes_languages(project):
    recipe = load_recipe(project / "captions.toml", [f"data.data_root={project}"])
    workspace = Workspace(project / "run")
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    tokenizer = data.tokenizer
    marks = tokenizer.mark_languages("eng_Latn", "deu_Latn")
    rows = data.dev.gather(torch.arange(len(data.dev)).numpy())
    assert {sentence[0] for sentence in rows["source"].to_lists()} == set(marks.before)
    assert {sentence[0] for sentence in rows["target"].to_lists()} == set(marks.begin)
    assert train(recipe, workspace, device="cpu")
    tuned = load_model_folder(workspace.model)
    bias = tuned.translator.output_bias
    assert bias is not None
    # transformers' M2M100 has none: what is fine-tuned here goes back there.
    before = load_model_folder(project / "imported").translator
    assert before.output_bias is not None
    assert bias.equal(before.output_bias)
    assert not tuned.translator.source_embedding.tokens.weight.equal(
        before.source_embedding.tokens.weight
    )
    export(
        open_folder(workspace.model, lines_file=project / "dev.en"),
        project / "given-back",
        form="transformers",
    )
    generation = json.loads((project / "given-back" / "generation_config.json").read_text("utf-8"))
    assert generation["renormalize_logits"]
    # What the recipe says is the default.
    translator = Translator(workspace.model)
    assert translator.resolve_languages() == ("eng_Latn", "deu_Latn")
    [plain] = translator.search(ENGLISH[:1], warns=False)
    [named] = translator.search(
        [Request(ENGLISH[0], source_language="en", target_language="deu")], warns=False
    )
    assert plain == named


def test_a_recipe_of_a_language_that_it_lacks(project, tmp_path):
    recipe = load_recipe(
        project / "captions.toml", [f"data.data_root={project}", "data.target_language=hsb"]
    )
    with pytest.raises(MtkitError, match=r"data\.target_language = hsb: not one of the 7"):
        prepare(recipe, Workspace(tmp_path / "run"))


def test_a_new_language_gets_a_piece(project):
    overrides = [
        f"data.data_root={project}",
        "data.target_language=hsb",
        "data.cleaning.script.enabled=false",
        "tokenizer.vocab_size=150",
    ]
    model = project / "imported"
    recipe = load_recipe(
        project / "captions.toml",
        [*overrides, f"training.start_from={{model='{model}', vocabulary='extend'}}"],
    )
    workspace = Workspace(project / "extended")
    prepare(recipe, workspace)
    assert train(recipe, workspace, device="cpu")
    old, new = SubwordTokenizer.load(model), SubwordTokenizer.load(workspace.model)
    pieces = old.target_vocabulary.pieces
    assert new.target_vocabulary.pieces[: len(pieces)] == pieces
    assert new.target_vocabulary.pieces[-1] == "hsb"
    # The code in a text is no language.
    assert new.mark_languages("hsb", "hsb").begin[0] not in new.encode_target(["hsb"])[0]
    translator = Translator(workspace.model)
    assert translator.resolve_languages() == ("eng_Latn", "hsb")
    assert len(translator.translate(ENGLISH[:2])) == 2
    # Also with its new pieces and its new language.
    export(
        open_folder(workspace.model, lines_file=project / "dev.en"),
        project / "extended-back",
        form="transformers",
    )


def test_cut_to_some_text_it_knows_its_languages(project):
    tokenizer = SubwordTokenizer.load(project / "imported")
    trimmed = trim_vocabulary(tokenizer, ENGLISH[:5]).tokenizer
    assert trimmed.target_vocab_size < tokenizer.target_vocab_size
    assert trimmed.languages == tokenizer.languages
    for marked in (tokenizer, trimmed):
        [begin] = marked.mark_languages("eng_Latn", "deu_Latn").begin
        assert marked.target_vocabulary.pieces[begin] == "deu_Latn"


def test_a_request_that_is_wrong_names_its_line(project):
    translator = Translator(project / "imported", target_language="de")
    requests = [Request("x", source_language="en"), Request("y")]
    with pytest.raises(LineError, match="input line 2: no source language"):
        translator.search(requests)
