import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import Recipe, load_recipe
from mtkit.recipe.key_errors import known_keys
from mtkit.recipe.training import Clipping

CORPUS = {"builtin", "configuration", "dataset", "document_column", "documents", "label_column",
          "path", "planted_faults", "second_column",
          "sentences", "source", "source_column", "split", "tag", "target", "target_column",
          "text", "text_column", "trees"}  # fmt: skip


TRAINING_KEYS = {"alignments", "max_pairs", "name", "skip", "synthesis", "translated_by",
                 "weight"}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (["training", "early_stopping", "x"], ["patience"]),
        (["training", "clipping", "x"], ["max_norm"]),
        (["data", "train", 0, "files", "x"], sorted(TRAINING_KEYS | CORPUS)),
        # pydantic's tag of a kind, spelt like one of the kind's keys.
        (["data", "dev", "builtin", "x"], sorted({"sacrebleu"} | CORPUS)),
        (["evaluation", "test_sets", 0, "dataset", "x"], sorted({"name", "sacrebleu"} | CORPUS)),
    ],
)
def test_known_keys_are_those_of_the_section_in_all_its_kinds(
    place: list[int | str], expected: list[str]
) -> None:
    assert known_keys(Recipe, place) == expected


def test_known_keys_of_a_section_by_itself() -> None:
    assert known_keys(Clipping, ["x"]) == ["max_norm"]


@pytest.mark.parametrize("value", ["0", "many", "1.5"])
def test_a_value_of_several_kinds_is_named_by_its_key(value: str) -> None:
    with pytest.raises(MtkitError) as fault:
        load_recipe("multi30k-en-de", [f"inference.processes={value}"])
    assert "inference.processes: expected" in fault.value.message
    assert "constrained" not in fault.value.message
