"""A file of weights for CTranslate2 is refused where the library would read or write past its end.

What an intact file looks like comes from CTranslate2's own exporter, in all its number types.
"""

import contextlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtkit.errors import MtkitError
from mtkit.model.exporters.ctranslate2 import QUANTIZATIONS, write_ctranslate2
from mtkit.model.exporters.ctranslate2_weights import check_engine_folder, check_network
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model

SIZE, POSITIONS = 24, 40
PIECES = ["<pad>", "<unk>", "<s>", "</s>", *(f"p{i}" for i in range(4, SIZE))]
Change = Callable[[bytes], bytes]


def shape_of(**changes: object) -> Model:
    plain = {"num_encoder_layers": 2, "num_decoder_layers": 1, "d_model": 16, "d_ff": 32}
    return Model(**{**plain, "num_heads": 2, **changes})


def write(folder: Path, model: Model, quantization: str = "float32") -> Path:
    torch.manual_seed(5)
    folder.mkdir(parents=True)
    network = EncoderDecoder(model, SIZE, SIZE)
    write_ctranslate2(
        network, folder, pieces=(PIECES, PIECES), max_tokens=POSITIONS, quantization=quantization
    )
    return folder


def check(folder: Path, model: Model) -> None:
    check_engine_folder(folder)
    positions = model.max_positions if model.positions == "learned" else POSITIONS
    check_network(folder / "model.bin", model, (SIZE, SIZE), positions)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre", "activation": "gelu"},
        {"activation": "swiglu", "tied_embeddings": "none"},
        {"positions": "learned", "max_positions": 50, "tied_embeddings": "decoder"},
    ],
)
@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_what_the_library_writes_passes(tmp_path: Path, changes, quantization: str) -> None:
    model = shape_of(**changes)
    check(write(tmp_path / "export" / "files", model, quantization), model)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("export") / "files", shape_of())


@pytest.mark.parametrize(
    "changes",
    [{"d_ff": 64}, {"d_model": 32}, {"num_encoder_layers": 1}, {"num_encoder_layers": 3},
     {"num_heads": 4}, {"norm": "pre"}, {"activation": "swiglu"}, {"output_bias": True},
     {"scale_embeddings": False}],
)  # fmt: skip
def test_another_network_is_refused(intact: Path, changes) -> None:
    with pytest.raises(MtkitError, match=r"model\.bin: damaged"):
        check(intact, shape_of(**changes))


@pytest.mark.parametrize(
    "changes", [{"embedding_norm": True}, {"attention_window": 2}, {"positions": "rotary"}]
)
def test_a_network_that_the_library_cant_run_is_refused_by_name(intact: Path, changes) -> None:
    with pytest.raises(MtkitError, match=rf"can't run this model.*model\.{next(iter(changes))}"):
        check(intact, shape_of(**changes))


def test_other_positions_or_pieces_are_refused(intact: Path) -> None:
    path = intact / "model.bin"
    for sizes, positions in (((SIZE, SIZE), 39), ((SIZE, SIZE), 10**6), ((SIZE, 25), POSITIONS)):
        with pytest.raises(MtkitError, match=r"expected|needs one vocabulary"):
            check_network(path, shape_of(), sizes, positions)


def name(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


BIAS = name("decoder/layer_0/attention/linear_1/bias") + struct.pack("<BI", 1, 32)
HEADS = name("encoder/num_heads") + struct.pack("<BBI", 0, 2, 2)
COUNT = name("TransformerSpec") + struct.pack("<I", 7)
ENCODER, DECODER = (name(f"{side}/position_encodings/encodings") for side in ("encoder", "decoder"))
OF_BIAS = struct.pack("<BI", 0, 128)


def swap(old: bytes, new: bytes) -> Change:
    def change(content: bytes) -> bytes:
        assert content.count(old) == 1
        return content.replace(old, new)

    return change


@pytest.mark.parametrize(
    "change",
    [
        swap(BIAS + OF_BIAS, BIAS + struct.pack("<BI", 0, 1 << 31)),
        swap(BIAS + OF_BIAS, BIAS[:-4] + struct.pack("<I", 1 << 31) + OF_BIAS),
        swap(BIAS + OF_BIAS, BIAS[:-4] + struct.pack("<IBI", 16, 0, 64)),
        swap(BIAS + OF_BIAS, BIAS + struct.pack("<BI", 1, 32)),
        swap(BIAS + OF_BIAS, BIAS + struct.pack("<BI", 200, 128)),
        swap(BIAS, BIAS[:-5] + b"\xff" + BIAS[-4:]),
        swap(HEADS + b"\2\0", HEADS + b"\xff\x7f"),
        lambda content: b"\7" + content[1:],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-3],
        lambda content: b"",
        lambda content: content.replace(COUNT + content[26:30], COUNT + b"\xff\xff\xff\xff"),
        swap(ENCODER + DECODER, ENCODER + DECODER.replace(b"s\0", b"e\0")),
        swap(name("encoder/pre_norm"), name("encoder/pre_nor?").replace(b"?", b"\xff")),
        swap(name("decoder/scale_alibi"), name("decoder/alibi")),
    ],
)  # fmt: skip
def test_a_file_that_lies_is_refused(intact: Path, tmp_path: Path, change: Change) -> None:
    folder = tmp_path / "export" / "files"
    folder.mkdir(parents=True)
    content = (intact / "model.bin").read_bytes()
    changed = change(content)
    if changed == content:
        pytest.fail("nothing was changed")
    (folder / "model.bin").write_bytes(changed)
    with pytest.raises(MtkitError, match=r"model\.bin"):
        check(folder, shape_of())


@pytest.mark.parametrize("extra", ["vmap.txt", "shared_vocabulary.txt", "libevil.so"])
def test_nothing_else_lies_there(tmp_path: Path, extra: str) -> None:
    folder = write(tmp_path / "export" / "files", shape_of())
    os.mkfifo(folder / extra)
    with pytest.raises(MtkitError, match="not a file of an exported model"):
        check_engine_folder(folder)


@pytest.mark.parametrize("file", ["model.bin", "config.json", "shared_vocabulary.json"])
def test_links_out_of_the_folder_are_refused(tmp_path: Path, file: str) -> None:
    folder = write(tmp_path / "export" / "files", shape_of())
    (folder / file).rename(tmp_path / file)
    (folder / file).symlink_to(tmp_path / file)
    with pytest.raises(MtkitError, match="a link out of its folder"):
        check_engine_folder(folder)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_it_says_of_itself_the_error_is_ours(intact: Path, tmp_path: Path, data) -> None:
    folder = tmp_path / "export" / "files"
    folder.mkdir(parents=True, exist_ok=True)
    content = bytearray((intact / "model.bin").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "model.bin").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(MtkitError):
        check(folder, shape_of())
