import re
from types import SimpleNamespace

from mtkit.model.card import with_export, with_scores
from mtkit.model.config import ModelConfig
from mtkit.model.new_cards import model_card


def write_card(recipe, vocab_sizes, **facts):
    source, target = vocab_sizes
    sizes = SimpleNamespace(source_vocab_size=source, target_vocab_size=target)
    config = ModelConfig.of(recipe, sizes)
    return model_card(config, recipe.tokenizer, settings=recipe.inference, **facts)


def test_tells_what_the_model_is(make_recipe):
    card = write_card(
        make_recipe(),
        (48, 48),
        num_parameters=44_138_496,
        training_facts={"weights": "average of 5 checkpoints", "sentence pairs": "29,000"},
    )
    assert card.startswith("---\nlanguage:\n- en\n- de\n")
    assert "# tiny: en to de" in card
    assert "- parameters: 44,138,496" in card
    assert "- vocabulary: 48 pieces for both languages (bpe)" in card
    assert "- weights: average of 5 checkpoints\n- sentence pairs: 29,000\n" in card
    assert re.search(r"mtkit translate --model \. < input.txt", card)
    assert card.endswith("## Scores\n\nNot scored yet; `mtkit score` fills this in.\n")


def test_names_both_vocabularies_where_there_are_two(make_recipe):
    recipe = make_recipe(tied_embeddings="decoder")
    card = write_card(recipe, (48, 50), num_parameters=1, training_facts={})
    assert "- vocabulary: 48 source and 50 target pieces (bpe)" in card


def test_scores_leave_hand_written_parts_alone():
    card = "# m\n\n## Scores\n\nold\n\n### of 2019\n\nolder\n\n## Licence\n\nfree\n"
    assert with_scores(card, [("dev", "chrF", "61.2", "")]) == (
        "# m\n\n## Scores\n\n"
        "| test set | metric | score | signature |\n"
        "|---|---|---:|---|\n"
        "| dev | chrF | 61.2 |  |\n"
        "\n## Licence\n\nfree\n"
    )


def test_scores_are_added_to_a_card_that_lost_the_section():
    assert with_scores("# m\n", []) == (
        "# m\n\n## Scores\n\nNot scored yet; `mtkit score` fills this in.\n"
    )


def test_an_export_is_told_of_once():
    card = with_export(with_scores("# m\n", []), ["int8", "as good"])
    assert card.endswith("fills this in.\n\n## Export\n\n- int8\n- as good\n")
    again = with_export(with_scores(card, [("dev", "chrF", "61.2", "")]), ["float32"])
    assert again.endswith("| dev | chrF | 61.2 |  |\n\n## Export\n\n- float32\n")


def test_scores_say_what_translated():
    card = with_scores("# m\n", [("dev", "chrF", "61.2", "")], origin="`torch` on `cpu`")
    assert card.endswith("| dev | chrF | 61.2 |  |\n\nMeasured with `torch` on `cpu`.\n")
    assert with_scores(card, []) == with_scores("# m\n", [])


def test_an_export_has_no_scores_of_its_own_yet():
    model = with_scores("# m\n", [("dev", "chrF", "61.2", "")])
    card = with_scores(with_export(model, ["int8"]), [("dev", "chrF", "60.9", "")])
    assert re.findall("^## .*", card, re.MULTILINE) == [
        "## Scores of the model that was exported", "## Export", "## Scores"
    ]  # fmt: skip
    assert card.index("61.2") < card.index("int8") < card.index("60.9")
