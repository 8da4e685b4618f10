"""A package of Argos Translate = the model: its files as that program reads them, without it."""

import json
import zipfile
from pathlib import Path

import ctranslate2
import pytest
import sentencepiece

from mtkit.errors import MtkitError
from mtkit.pipeline.export import export, open_folder
from mtkit.pipeline.import_model import import_model
from mtkit.text.token_ids import UNK
from mtkit.text.tokenizer import SubwordTokenizer

from ..public_models import ENGLISH, make_marian
from .test_export_transformers import make_own


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_text("\n".join(ENGLISH) + "\n", "utf-8")
    return path


def translate_as_argos_does(package: Path, folder: Path, lines: list[str]) -> list[str]:
    """Translates as argostranslate/translate.py does: its pieces, its beam, its length penalty."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    (inside,) = folder.iterdir()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(inside / "sentencepiece.model"))
    translator = ctranslate2.Translator(str(inside / "model"), intra_threads=1)
    results = translator.translate_batch(
        [pieces.encode(line, out_type=str) for line in lines],
        beam_size=4,
        length_penalty=0.2,
        replace_unknowns=True,
        max_decoding_length=12,
    )
    return [pieces.decode_pieces(result.hypotheses[0]).replace("▁", " ") for result in results]


@pytest.mark.parametrize("kind", ["own", "own, pre-norm"])
def test_a_package_translates_as_the_export_does(kind, tmp_path, lines):
    model = make_own(tmp_path, **({"norm": "pre"} if "pre" in kind else {}))
    package = tmp_path / "en_de.argosmodel"
    export(open_folder(model, lines_file=lines), package, form="argos", quantization="float32")
    found = translate_as_argos_does(package, tmp_path / "installed", ENGLISH)
    export(open_folder(model, lines_file=lines), tmp_path / "export")
    tokenizer = SubwordTokenizer.load(tmp_path / "export")
    names = tokenizer.source_vocabulary.pieces
    translator = ctranslate2.Translator(str(tmp_path / "export" / "ctranslate2"), intra_threads=1)
    results = translator.translate_batch(
        [[names[token] for token in line] for line in tokenizer.encode_source(ENGLISH)],
        beam_size=4,
        length_penalty=0.2,
        max_decoding_length=12,
    )
    outputs = [[names.index(piece) for piece in result.hypotheses[0]] for result in results]
    expected = [tokenizer.decode_target(output) for output in outputs]
    # The program puts a word of the source in place of an unknown piece.
    pairs = [
        (text, wanted)
        for text, wanted, output in zip(found, expected, outputs, strict=True)
        if UNK not in output
    ]
    assert len(pairs) >= 4
    assert all(text.strip() == wanted.strip() for text, wanted in pairs)


def test_the_layout_of_a_package(tmp_path, lines):
    package = tmp_path / "en_de.argosmodel"
    export(open_folder(make_own(tmp_path), lines_file=lines), package, form="argos")
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
        metadata = json.loads(archive.read("translate-en_de/metadata.json"))
        config = json.loads(archive.read("translate-en_de/model/config.json"))
    assert {name.partition("/")[0] for name in names} == {"translate-en_de"}
    assert {"translate-en_de/README.md", "translate-en_de/sentencepiece.model"} <= names
    assert "translate-en_de/model/model.bin" in names
    assert config["add_source_eos"] is True
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("de", "German")
    assert metadata["type"] == "translate"


def test_tags_and_other_names_are_refused(tmp_path, lines):
    theirs = make_marian(tmp_path / "opus-mt-en-de")
    import_model(str(theirs.folder), tmp_path / "imported")
    with pytest.raises(MtkitError, match="the tag >>deu<<"):
        export(
            open_folder(tmp_path / "imported", lines_file=lines),
            tmp_path / "x.argosmodel",
            form="argos",
        )
    with pytest.raises(MtkitError, match="not the name of a package"):
        export(
            open_folder(tmp_path / "imported", lines_file=lines), tmp_path / "folder", form="argos"
        )
    assert not (tmp_path / "x.argosmodel").exists()
