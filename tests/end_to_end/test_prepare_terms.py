"""Examples with annotated terms, by `mtkit prepare` from its recipe to the store of tokens."""

import json

import numpy as np

from mtkit.data.batches.token_store import TokenStore
from mtkit.data.prepare import is_prepared, prepare
from mtkit.recipe import load_recipe
from mtkit.text.term_forms import TERM_SYMBOLS
from mtkit.text.tokenizer import SubwordTokenizer


def test_annotated_examples_are_added_and_counted(tiny_run, tmp_path):
    dictionary = tmp_path / "dictionary.tsv"
    dictionary.write_text("man\tMann\nwoman\tFrau\nold\talt\nnew\tneu\n", encoding="utf-8")
    plain = tiny_run(name="plain")
    override = f"data.augment.terms={{dictionary={json.dumps(str(dictionary))}, rate=0.5}}"
    run = tiny_run(override, name="terms")
    prepare(run.recipe, run.workspace)

    (corpus,) = json.loads((run.workspace.data / "report.json").read_text())["corpora"]
    num_made = corpus["augmented"]["terms"]
    assert num_made > 0
    store, before = (TokenStore(each.workspace.data / "train") for each in (run, plain))
    assert len(store) == len(before) + num_made
    assert corpus["kept"] == len(before)

    tokenizer = SubwordTokenizer.load(run.workspace.data / "tokenizer")
    symbols = [tokenizer.source_vocabulary.ids[symbol] for symbol in TERM_SYMBOLS]
    sources = store.gather(np.arange(len(store)))["source"].to_lists()
    annotated = [source for source in sources if symbols[0] in source]
    assert len(annotated) == num_made
    for source in annotated:
        # Symbols take turns, in their order.
        found = [token for token in source if token in symbols]
        assert found == symbols * (len(found) // 3)

    assert is_prepared(run.recipe, run.workspace)
    dictionary.write_text("man\tMann\n", encoding="utf-8")
    assert not is_prepared(load_recipe(run.options[1], [override]), run.workspace)
