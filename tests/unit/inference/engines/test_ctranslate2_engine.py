import json
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ctranslate2
import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.inference.engines.ctranslate2_engine import CTranslate2Engine
from mtkit.inference.engines.engine import EncodedSource
from mtkit.model.exporters.ctranslate2 import write_ctranslate2
from mtkit.network import EncoderDecoder, PaddedLayout
from mtkit.recipe.inference import Inference, Sampling
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS

_VOCAB_SIZE = 24
_PIECES = ["<pad>", "<unk>", "<s>", "</s>", *(f"p{i}" for i in range(4, _VOCAB_SIZE))]


def write_random(folder: Path, pieces: Sequence[str] = _PIECES, **model: object) -> Path:
    """Leaves CTranslate2's files of a network with random weights; always the same ones."""
    torch.manual_seed(5)
    shape = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "d_ff": 32}
    network = EncoderDecoder(Model(**{**shape, "num_heads": 2, **model}), _VOCAB_SIZE, _VOCAB_SIZE)
    folder.mkdir(exist_ok=True)
    write_ctranslate2(
        network, folder, pieces=(pieces, pieces), max_tokens=40, quantization="float32"
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_random(tmp_path_factory.mktemp("files"))


def search(folder: Path, tokens: Sequence[int], **settings: object) -> list[tuple[int, ...]]:
    ((*hypotheses,),) = CTranslate2Engine(folder).search(
        [EncodedSource(tokens)], Inference(**settings)
    )
    return [hypothesis.token_ids for hypothesis in hypotheses]


def test_pieces_may_have_any_name(folder, tmp_path):
    odd = [*_PIECES[:4], "<unk>", "<s>", "a b", "a\nb", "\r", "", " ", "</s>", "ä", "\U0001f600"]
    odd += ['"', "\\", "▁", "▁▁", "\u2028", "<unk>'", "<pad>", "0", "\t", "p4"]
    assert len(odd) == _VOCAB_SIZE
    strange = write_random(tmp_path / "strange", odd)
    tokens = list(range(4, _VOCAB_SIZE))
    random.Random(3).shuffle(tokens)
    for source in ([*tokens[:10], EOS], [*tokens[10:], EOS]):
        assert search(strange, source, beam_size=6) == search(folder, source, beam_size=6)
        targets = [tokens[:5], tokens[5:]]
        scores = [
            CTranslate2Engine(each).score([source, source], targets) for each in (strange, folder)
        ]
        assert scores[0] == scores[1]


def test_two_vocabularies_are_kept_apart(tmp_path):
    torch.manual_seed(5)
    shape = {"num_encoder_layers": 1, "num_decoder_layers": 1, "d_model": 16, "d_ff": 32}
    network = EncoderDecoder(Model(**shape, num_heads=2, tied_embeddings="decoder"), 30, 24).eval()
    source_pieces = [*_PIECES[:4], *reversed(_PIECES[4:]), *(f"q{i}" for i in range(6))]
    write_ctranslate2(
        network, tmp_path, pieces=(source_pieces, _PIECES), max_tokens=40, quantization="float32"
    )
    source, target = [29, 4, 20, EOS], [20, 4, 23, EOS]
    ((*scores,),) = CTranslate2Engine(tmp_path).score([source], [target])
    with torch.no_grad():
        tokens = torch.tensor([source])
        begun = torch.tensor([[2, *target[:-1]]])
        layouts = [PaddedLayout.without_padding(each) for each in (tokens, begun)]
        states = network(tokens, layouts[0], begun, layouts[1])
        expected = network.project(states).log_softmax(-1)[0, range(4), target]
    assert scores == pytest.approx(expected.tolist(), abs=1e-5)


def test_positions_bound_source_and_output(folder):
    engine = CTranslate2Engine(folder)
    assert engine.max_tokens == 40
    longest = [*([7] * 39), EOS]
    assert max(map(len, search(folder, longest, beam_size=3))) <= 40
    with pytest.raises(MtkitError, match=r"source of 41 tokens, .* only 40 positions"):
        engine.search([EncodedSource([7, *longest])], Inference())


def test_learned_positions_are_as_many_as_were_learned(tmp_path):
    files = write_random(tmp_path, positions="learned", max_positions=9)
    assert CTranslate2Engine(files).max_tokens == 9
    assert max(map(len, search(files, [7, 8, EOS]))) <= 9


def test_nothing_to_translate_is_no_fault(folder):
    engine = CTranslate2Engine(folder)
    assert engine.search([], Inference()) == []
    sources = [[7, 8, EOS], [EOS], [9, EOS]]
    first, empty, last = engine.search([EncodedSource(tokens) for tokens in sources], Inference())
    assert [h.token_ids for h in empty] == [(EOS,)]
    assert [h.token_ids for h in first] == search(folder, sources[0])
    assert [h.token_ids for h in last] == search(folder, sources[2])


def test_threads_share_out_what_is_translated_at_once(folder, monkeypatch):
    together: list[list[int]] = []

    class Recorder(ctranslate2.Translator):
        def translate_batch(self, sources, **options):
            assert not options.get("max_batch_size")
            together.append([len(source) for source in sources])
            return super().translate_batch(sources, **options)

    monkeypatch.setattr(ctranslate2, "Translator", Recorder)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    engine = CTranslate2Engine(folder)
    # Room for outputs that never end: none is searched again with its own limit.
    settings = Inference(beam_size=1, max_extra_tokens=40, batch_tokens=64)
    lengths = [8, 16, 8, 40, 8, 16, 8, 16, 8]
    sources = [EncodedSource([*([7] * (length - 1)), EOS]) for length in lengths]
    found = engine.search(sources, settings)
    # 32 tokens a thread, padding counted, but for the source that is longer than that.
    assert together == [[40], [16, 16], [16, 8], [8, 8, 8, 8]]
    alone = [engine.search([source], settings)[0] for source in sources]
    assert [[h.token_ids for h in of_one] for of_one in found] == [
        [h.token_ids for h in of_one] for of_one in alone
    ]

    del together[:]
    roomy = settings.model_copy(update={"batch_tokens": 4_096})
    engine.search([EncodedSource([7] * 7 + [EOS])] * 100, roomy)
    assert together == [[8] * 32, [8] * 32, [8] * 32, [8] * 4]


def test_a_neighbour_with_a_prefix_changes_nothing_that_is_told(folder):
    engine, settings = CTranslate2Engine(folder), Inference(n_best=4, max_extra_tokens=6)
    source = EncodedSource([7, 8, 9, 10, EOS])
    begun = EncodedSource([11, 12, EOS], prefix=(5,))
    ((alone,), (beside, other)) = (
        engine.search(sources, settings) for sources in ([source], [source, begun])
    )
    assert [h.token_ids for h in beside] == [h.token_ids for h in alone]
    assert [h.score for h in beside] == pytest.approx([h.score for h in alone], abs=1e-6)
    assert not any(h.token_log_probabilities for h in beside)
    assert all(h.token_log_probabilities for h in other)


def test_sampling_is_refused(folder):
    settings = Inference(sampling=Sampling())
    with pytest.raises(MtkitError, match=r"inference\.sampling") as caught:
        CTranslate2Engine(folder).search([EncodedSource([7, EOS])], settings)
    assert 'engine = "torch"' in caught.value.hint


@pytest.mark.parametrize(
    ("device", "message"),
    [("gpu", "no device 'gpu'"), ("cuda:99", "no device 'cuda:99'"), ("cuda:-1", "no device")],
)
def test_a_device_that_isnt_there(folder, device, message):
    with pytest.raises(MtkitError, match=message):
        CTranslate2Engine(folder, device)


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(MtkitError, match=r"no CTranslate2 model here \(no model.bin\)"):
        CTranslate2Engine(tmp_path / "nowhere")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def drop_a_piece(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text())[:-1]))


def forget_mtkit(path: Path) -> None:
    path.write_text(path.read_text().replace("max_tokens", "max_length"))


def keep_one_size(path: Path) -> None:
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "vocab_sizes": config["vocab_sizes"][:1]}))


def name_by_numbers(path: Path) -> None:
    path.write_text(json.dumps([[0]] * _VOCAB_SIZE))


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("model.bin", cut, "damaged: it is truncated"),
        ("config.json", cut, "damaged, invalid JSON"),
        ("shared_vocabulary.json", Path.unlink, "source_vocabulary.json: missing"),
        ("shared_vocabulary.json", cut, "damaged, invalid JSON"),
        ("shared_vocabulary.json", drop_a_piece, "not a list of the model's 24 pieces"),
        ("shared_vocabulary.json", name_by_numbers, "not a list of the model's 24 pieces"),
        ("config.json", forget_mtkit, "not written by `mtkit export`"),
        ("config.json", keep_one_size, r"or damaged: vocab_sizes.1: Field required"),
    ],
)
def test_a_damaged_folder(folder, tmp_path, file, damage, message):
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    damage(damaged / file)
    with pytest.raises(MtkitError, match=message) as caught:
        CTranslate2Engine(damaged)
    assert str(damaged) in caught.value.message
    assert "mtkit export" in caught.value.hint


def test_a_library_that_isnt_installed(folder, monkeypatch):
    # Python takes None for a module that can't be found.
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MtkitError, match="CTranslate2 isn't installed") as caught:
        CTranslate2Engine(folder)
    assert (
        caught.value.hint == "in the folder that holds mtkit's code: pip install '.[ctranslate2]'"
    )


def test_torch_is_never_loaded(folder):
    program = f"""
import sys
from pathlib import Path
from mtkit.inference.engines.ctranslate2_engine import CTranslate2Engine
from mtkit.inference.engines.engine import EncodedSource
from mtkit.recipe.inference import Inference
engine = CTranslate2Engine(Path({str(folder)!r}))
assert engine.search([EncodedSource([7, 8, 3], prefix=(5,))], Inference())[0]
print([name for name in ("torch", "transformers") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_callers_in_threads_get_what_is_theirs(folder):
    engine = CTranslate2Engine(folder)
    callers = [
        [[7 + (first + index) % 9] * (1 + index % 5) + [EOS] for index in range(20)]
        for first in range(3)
    ]
    settings = Inference(beam_size=2, no_repeat_ngram=2)
    batches = [[EncodedSource(tokens) for tokens in sources] for sources in callers]
    alone = [engine.search(batch, settings) for batch in batches]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(lambda batch: engine.search(batch, settings), batches * 3))
    assert [ids_of(found) for found in together] == [ids_of(found) for found in alone] * 3


def ids_of(found):
    return [[hypothesis.token_ids for hypothesis in hypotheses] for hypotheses in found]
