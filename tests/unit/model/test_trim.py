"""A trimmed model = the whole one, where that neither reads nor writes a piece that is gone."""

import json
from pathlib import Path

import pytest
import torch

from mtkit import Translator
from mtkit.errors import MtkitError
from mtkit.inference.ctranslate2_client import CTranslate2Client
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.export import export
from mtkit.model.folder import load_model_folder, write_model_folder
from mtkit.model.weights import pack_weights
from mtkit.pipeline.import_model import import_model, import_trimmed
from mtkit.text.tokenizer import SubwordTokenizer

from ...public_models import ENGLISH, GERMAN, make_marian

KEPT = 5


@pytest.fixture(params=[False, True], ids=["one vocabulary", "two vocabularies"])
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    """A Marian model that was imported whole, and the same cut to some lines."""
    theirs = make_marian(tmp_path / "opus-mt-en-de", has_own_vocabularies=request.param)
    import_model(str(theirs.folder), tmp_path / "whole")
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{line}\n" for line in (*ENGLISH[:KEPT], *GERMAN[:2])), "utf-8")
    import_trimmed(str(theirs.folder), tmp_path / "trimmed", [text])
    return tmp_path / "whole", tmp_path / "trimmed"


def test_equal_where_no_removed_piece_is_written(folders, tmp_path: Path) -> None:
    """The whole model is forbidden the removed pieces, by its output's bias."""
    whole, trimmed = (load_model_folder(folder) for folder in folders)
    assert trimmed.config.target_vocab_size < whole.config.target_vocab_size
    left = set(trimmed.tokenizer.target_vocabulary.pieces)
    weights = pack_weights(whole.model)
    for token, piece in enumerate(whole.tokenizer.target_vocabulary.pieces):
        if piece not in left:
            weights["output_bias"][token] = -1_000.0
    write_model_folder(tmp_path / "forbidden", whole, weights=weights, card="")
    for settings in ({"beam_size": 1}, {"beam_size": 4, "n_best": 3}):
        found = [
            Translator(
                folder,
                settings=whole.settings.model_copy(update={"max_output_tokens": 20, **settings}),
            ).search(ENGLISH[:KEPT])
            for folder in (tmp_path / "forbidden", folders[1])
        ]
        for wanted, ours in zip(*found, strict=True):
            assert ours.text == wanted.text
            assert ours.candidates[0].score == pytest.approx(wanted.candidates[0].score, abs=1e-4)


def test_logits_are_the_rows_that_were_kept(folders) -> None:
    whole, trimmed = (load_model_folder(folder) for folder in folders)
    vocabularies = [each.tokenizer.target_vocabulary for each in (whole, trimmed)]
    rows = torch.tensor([vocabularies[0].ids[piece] for piece in vocabularies[1].pieces])
    states = torch.randn(3, whole.config.model.d_model, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted, found = (each.translator.project(states) for each in (whole, trimmed))
    torch.testing.assert_close(found, wanted[:, rows], rtol=0, atol=1e-6)


def test_ctranslate2_runs_it(folders, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export(folders[1], tmp_path / "exported", lines=ENGLISH)
    settings = load_model_folder(folders[1]).settings.model_copy(
        update={"max_output_tokens": 20, "precision": "fp32"}
    )
    tokenizer = SubwordTokenizer.load(folders[1])
    client = CTranslate2Client(tmp_path / "exported" / "ctranslate2")
    sources = [EncodedSource(tokens) for tokens in tokenizer.encode_source(ENGLISH[:KEPT])]
    found = [
        tokenizer.decode_target(hypotheses[0].token_ids)
        for hypotheses in client.search(sources, settings)
    ]
    expected = Translator(folders[1], settings=settings).search(ENGLISH[:KEPT])
    assert found == [one.text for one in expected]


def test_wrong_texts_are_told(folders, tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_bytes(b"")
    binary.write_bytes(b"\xff\xfe\x00x\n")
    for text, message in (
        (tmp_path / "absent.txt", "no such file"),
        (empty, "empty"),
        (binary, "binary.txt"),
    ):
        with pytest.raises(MtkitError, match=message):
            import_trimmed(str(folders[0]), tmp_path / "out", [text])
        assert not (tmp_path / "out").exists()
    with pytest.raises(MtkitError, match="already exists"):
        import_trimmed(str(folders[0]), folders[1], [empty])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert "pieces: those that" in (folders[1] / "README.md").read_text("utf-8")
    assert json.loads((folders[1] / "config.json").read_text())["recipe"] == "opus-mt-en-de"
