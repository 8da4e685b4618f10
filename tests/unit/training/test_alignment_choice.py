import math

import numpy as np
import pytest
import torch

from mtkit.data.batches.ragged import Ragged
from mtkit.data.batches.token_store import TokenStore, TokenStoreWriter, make_batch
from mtkit.model.alignment_head import AlignmentHead
from mtkit.network import EncoderDecoder
from mtkit.recipe.model import Model
from mtkit.text.token_ids import EOS
from mtkit.training.release import choose_head, measure_links


def test_links_by_hand() -> None:
    # Of four links the source token 5 has three: two to 8, one to 9; of the targets half are 8.
    found = measure_links(np.array([5, 5, 5, 6]), np.array([8, 8, 9, 9]))
    expected = [(1 + 0.5) / 3, (1 + 0.5) / 3, (0 + 0.5) / 3, (0 + 0.5) / 1]
    assert found == pytest.approx(sum(map(math.log, expected)) / 4)


def test_the_head_that_looks_at_the_translation_is_chosen(tmp_path) -> None:
    rng = np.random.default_rng(1)
    sources = [rng.permutation(np.arange(4, 24))[:6].tolist() for _ in range(200)]
    # Each token is translated by the one 20 above, in another order.
    targets = [[token + 20 for token in rng.permutation(source)] for source in sources]
    columns = {"source": 44, "target": 44}
    with TokenStoreWriter(tmp_path, columns) as writer:
        batch = make_batch(
            {
                "source": Ragged.of([[*source, EOS] for source in sources]),
                "target": Ragged.of([[*target, EOS] for target in targets]),
            },
            columns,
        )
        writer.append(batch, corpus=0)
    torch.manual_seed(1)
    shape = {"num_encoder_layers": 1, "num_decoder_layers": 2, "d_model": 64, "d_ff": 8}
    network = EncoderDecoder(
        Model(**shape, num_heads=2, dropout=0.0, norm="pre", tied_embeddings="none"), 44, 44
    ).eval()
    with torch.no_grad():
        # Target embeddings are those of their translations; layers but one add nothing.
        source, target = (
            each.tokens.weight for each in (network.source_embedding, network.target_embedding)
        )
        source.normal_(std=0.5)
        target[24:44] = source[4:24]
        for name, weight in network.named_parameters():
            if name.endswith(("output.weight", "output.bias")) and "layers" in name:
                weight.zero_()
        cross = network.decoder.layers[0].cross_attention
        # The second head compares what is there.
        eye = torch.eye(64)[:32] * 2
        cross.query.weight[32:64] = eye
        cross.key_value.weight[32:64] = eye
    store = TokenStore(tmp_path, columns)
    assert choose_head(network, store, torch.device("cpu")) == AlignmentHead(
        layer=1, head=2, at="input"
    )


def test_without_pairs_there_is_none(tmp_path) -> None:
    columns = {"source": 8, "target": 8}
    with TokenStoreWriter(tmp_path, columns):
        pass
    network = EncoderDecoder(Model(num_encoder_layers=1, num_decoder_layers=1), 8, 8)
    store = TokenStore(tmp_path, columns)
    assert choose_head(network, store, torch.device("cpu")) is None
