import json
import shutil
from pathlib import Path

import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.inference import export as export_module
from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engine_comparison import EngineComparison, check_quality
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.export import ExportReport, export
from mtkit.inference.translator import Translator
from mtkit.model.config import open_model_folder
from mtkit.model.folder import load_model_folder, save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.recipe.inference import Inference, LengthPenalty, Sampling
from mtkit.text.tokenizer import SubwordTokenizer

_LINES = ["the quick brown fox", "", "jumps over the lazy dog", "pack my box with five dozen jugs"]
_FILES = [
    "README.md",
    "config.json",
    "ctranslate2",
    "joint.spm",
    "tokenizer.json",
]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "exported"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a model lies with its export, made once for all tests that only look at it."""
    return tmp_path_factory.mktemp("kept") / "both"


@pytest.fixture
def both(kept: Path, folder: Path) -> Path:
    """A folder with `model` and `exported`; not to be written into."""
    if not kept.exists():
        shutil.copytree(folder, kept / "model")
        export(kept / "model", kept / "exported", lines=_LINES)
    return kept


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_export_holds_what_another_program_needs(both):
    assert sorted(path.name for path in (both / "exported").iterdir()) == _FILES
    exported, trained = (both / name / "config.json" for name in ("exported", "model"))
    assert exported.read_bytes() == trained.read_bytes()
    tokenizer = SubwordTokenizer.load(both / "exported")
    sources = [EncodedSource(tokens) for tokens in tokenizer.encode_source(["five lazy dogs"])]
    settings = Inference(length_penalty=LengthPenalty(kind="power"), max_extra_tokens=4)
    engine = CTranslate2Client(both / "exported" / "ctranslate2", stops_early=False)
    model = load_model_folder(both / "model").model
    expected = TorchEngine(model, "cpu").search(sources, settings)
    found = engine.search(sources, settings)
    assert [h.token_ids for h in found[0]] == [h.token_ids for h in expected[0]]


def test_the_card_tells_of_the_export_and_keeps_the_rest(both):
    card = (both / "exported" / "README.md").read_text()
    assert card.startswith((both / "model" / "README.md").read_text().rstrip())
    assert "## Export\n\n- CTranslate2 " in card
    assert "CTranslate2 in float32: the same outputs on 3 of 3 lines" in card


def test_the_other_clients_of_ctranslate2_can_read_it(both):
    """Its own vocabulary holds the pieces, and its config names what begins and ends a text."""
    files = both / "exported" / "ctranslate2"
    pieces = json.loads((files / "shared_vocabulary.json").read_text())
    assert tuple(pieces) == open_model_folder(both / "model").tokenizer.source_vocabulary.pieces
    config = json.loads((files / "config.json").read_text())
    assert config["decoder_start_token"] == "<s>"
    assert config["eos_token"] == "</s>"
    assert config["add_source_eos"] is False


def test_a_quantized_export_replaces_an_older_one(folder, output):
    whole = export(folder, output, lines=_LINES)
    assert whole.parity.num_lines == whole.comparison.num_lines == 3
    assert whole.parity.largest_gap < 1e-4
    assert whole.num_bytes == (output / "ctranslate2" / "model.bin").stat().st_size
    small = export(folder, output, lines=_LINES, quantization="int8")
    assert small.num_bytes < whole.num_bytes
    assert small.parity.num_different == 0
    assert sorted(path.name for path in output.iterdir()) == _FILES
    assert (output / "README.md").read_text().count("## Export") == 1
    assert not list(output.parent.glob(".*"))


def test_settings_get_positions_enough(folder, output):
    settings = Inference(beam_size=3, max_source_tokens=1_200, max_extra_tokens=7)
    export(folder, output, lines=_LINES, settings=settings)
    assert CTranslate2Client(output / "ctranslate2").max_tokens == 1_207


def test_engines_that_differ_leave_what_was_there(
    folder, output, monkeypatch, make_recipe, make_model
):
    export(folder, output, lines=_LINES)
    before = files_of(output)
    other = make_model(make_recipe(), seed=2).eval()
    monkeypatch.setattr(export_module, "open_reference", lambda *_: TorchEngine(other, "cpu"))
    with pytest.raises(MtkitError, match="scores of the same output differ by"):
        export(folder, output, lines=_LINES)
    assert files_of(output) == before
    assert not list(output.parent.glob(".*"))


def test_a_diverged_model_is_refused(tmp_path, make_recipe, make_model, tokenizer):
    weights = pack_weights(make_model(make_recipe()))
    for weight in weights.values():
        weight.fill_(torch.nan)
    broken = tmp_path / "broken"
    save_model_folder(
        broken, recipe=make_recipe(), weights=weights, tokenizer=tokenizer, origin="nowhere"
    )
    with pytest.raises(MtkitError, match="NaN"):
        export(broken, tmp_path / "exported", lines=_LINES)
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"attention_window": 3}, r"restricted self-attention \(model.attention_window = 3\)"),
        ({"embedding_norm": True}, r"normalization of embeddings \(model.embedding_norm = true\)"),
        ({"d_key": 4, "d_value": 8}, r"d_model / num_heads = 8 \(model.d_key = 4"),
        ({"d_key": 8, "d_value": 4}, "model.d_value = 4"),
    ],
)
def test_a_model_that_ctranslate2_cant_run(
    tmp_path, make_recipe, make_model, tokenizer, shape, message
):
    recipe = make_recipe(**shape)
    save_model_folder(
        tmp_path / "model",
        recipe=recipe,
        weights=pack_weights(make_model(recipe)),
        tokenizer=tokenizer,
        origin="nowhere",
    )
    with pytest.raises(MtkitError, match=message):
        export(tmp_path / "model", tmp_path / "exported", lines=_LINES)
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize(
    "settings", [Inference(sampling=Sampling()), Inference(coverage_penalty=0.3)]
)
def test_programs_are_compared_by_plain_beams(folder, output, settings):
    report = export(folder, output, lines=_LINES, settings=settings)
    assert report.comparison.num_lines == 3


def test_an_unknown_quantization(folder, output):
    with pytest.raises(MtkitError, match=r"unknown quantization 'int4' \(did you mean 'int"):
        export(folder, output, lines=_LINES, quantization="int4")


def test_nothing_but_an_older_export_is_replaced(folder, output):
    output.mkdir()
    (output / "thesis.txt").write_text("ten years of work")
    with pytest.raises(MtkitError, match="contains something other than an exported model"):
        export(folder, output, lines=_LINES)
    assert (output / "thesis.txt").read_text() == "ten years of work"
    for holder in (folder, folder.parent):
        before = files_of(folder)
        with pytest.raises(MtkitError, match="contains the model itself"):
            export(folder, holder, lines=_LINES)
        assert files_of(folder) == before


def test_a_draft_of_the_card_that_a_kill_left_is_no_other_thing(both, output):
    shutil.copytree(both / "exported", output)
    (output / ".README.md.77-0123abcd.draft").write_text("# half a ca")
    export(both / "model", output, lines=_LINES)
    assert sorted(path.name for path in output.iterdir()) == _FILES


def test_what_is_put_there_meanwhile_stays(folder, output, monkeypatch):
    def judge_with_pause(*arguments):
        output.mkdir()
        (output / "thesis.txt").write_text("ten years of work")
        check_quality(*arguments)

    monkeypatch.setattr(export_module, "check_quality", judge_with_pause)
    with pytest.raises(MtkitError, match=r"something other than an exported model: thesis\.txt"):
        export(folder, output, lines=_LINES)
    assert [path.name for path in output.iterdir()] == ["thesis.txt"]
    assert not list(output.parent.glob(".*"))


def drop_marks(folder: Path) -> None:
    path = folder / "ctranslate2" / "config.json"
    path.write_text(path.read_text().replace("max_tokens", "max_length"))


def leave_only_the_card(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "README.md").write_text("# ten years of work")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda folder: (folder / "thesis.txt").write_text("ten years of work"), "thesis.txt"),
        (lambda folder: (folder / "ctranslate2" / "notes").mkdir(), "ctranslate2"),
        (lambda folder: (folder / "source.spm").mkdir(), "source.spm"),
        (drop_marks, "ctranslate2"),
        (lambda folder: (folder / "ctranslate2" / "config.json").unlink(), "ctranslate2"),
        (leave_only_the_card, "README.md"),
    ],
)
def test_an_export_with_something_else_beside_it_isnt_replaced(both, folder, output, change, named):
    shutil.copytree(both / "exported", output)
    change(output)
    before = files_of(output)
    with pytest.raises(MtkitError, match=f"other than an exported model: {named}$") as caught:
        export(folder, output, lines=_LINES)
    assert "--output" in caught.value.hint
    assert files_of(output) == before


def test_a_file_isnt_replaced(folder, output):
    output.write_text("ten years of work")
    with pytest.raises(MtkitError, match="exported: is not a folder"):
        export(folder, output, lines=_LINES)
    assert output.read_text() == "ten years of work"


@pytest.mark.parametrize("lines", [[], ["", "  "], ["fox " * 300]])
def test_no_line_to_compare_on(folder, output, lines):
    with pytest.raises(MtkitError, match="no lines to compare") as caught:
        export(folder, output, lines=lines)
    assert "--lines FILE" in caught.value.hint


def compared(**others: object) -> EngineComparison:
    facts = {"num_lines": 200, "num_equal": 150, "agreement": 90.0, "bleu": (30.0, 29.5)}
    return EngineComparison(**{**facts, **others})


def test_a_loss_of_more_than_one_bleu_is_refused(capsys):
    check_quality(compared(bleu=(30.0, 29.0)), "int8")
    check_quality(compared(bleu=(30.0, 33.0), agreement=10.0), "int8")
    assert capsys.readouterr().err == ""
    with pytest.raises(MtkitError, match=r"int8: 28.9 BLEU against mtkit's 30.0 on 200 lines"):
        check_quality(compared(bleu=(30.0, 28.9)), "int8")


def test_without_references_little_agreement_is_warned_of(capsys):
    check_quality(compared(bleu=None), "int8")
    assert capsys.readouterr().err == ""
    check_quality(compared(bleu=None, agreement=69.0), "int8")
    assert capsys.readouterr().err.startswith("warning: int8: the output has 69.0 BLEU")


def test_references_count_where_there_are_any(folder, output):
    references = ["der schnelle fuchs", "", "springt", "packt"]
    report: ExportReport = export(folder, output, lines=_LINES, references=references)
    assert report.comparison.bleu is not None
    with pytest.raises(MtkitError, match="4 lines, but 2 references"):
        export(folder, output, lines=_LINES, references=references[:2])


def test_a_card_that_links_to_a_secret_is_not_copied(folder, output, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("password")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(secret)
    with pytest.raises(MtkitError, match=r"README\.md: a link out of its folder"):
        export(folder, output, lines=_LINES)
    assert not output.exists()


def test_an_export_is_for_its_own_program(both):
    with pytest.raises(MtkitError, match="exported for CTranslate2") as caught:
        Translator(both / "exported")
    assert "the model" in caught.value.hint
