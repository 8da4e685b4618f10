import copy
from typing import Any

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.overrides import apply_override, override_key

TABLES = {"seed": 1, "data": {"train": [{"source": "a"}, {"source": "b"}]}}


def overridden(override: str) -> dict[str, Any]:
    tables = copy.deepcopy(TABLES)
    apply_override(tables, override)
    return tables


def fault_of(override: str) -> str:
    with pytest.raises(MtkitError) as fault:
        overridden(override)
    return fault.value.message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100", 100),
        ("1_000", 1000),
        ("1e-4", 0.0001),
        ("true", True),
        ("True", "True"),
        ("de", "de"),
        ('"5"', "5"),
        ("a=b", "a=b"),
        ("[1, 2]", [1, 2]),
        ("{x = 1}", {"x": 1}),
        ("../text/train.en", "../text/train.en"),
        ("", ""),
    ],
)
def test_a_value_is_toml_or_else_a_string(text: str, value: Any) -> None:
    found = overridden(f"new.key={text}")["new"]["key"]
    assert found == value
    assert type(found) is type(value)


def test_a_number_steps_into_a_list() -> None:
    assert overridden("data.train.1.source=c")["data"]["train"] == [
        {"source": "a"},
        {"source": "c"},
    ]


def test_a_tilde_removes_keys_sections_and_entries() -> None:
    assert "seed" not in overridden("~seed")
    assert "data" not in overridden("~data")
    assert overridden("~data.train.0")["data"]["train"] == [{"source": "b"}]


def test_removing_what_is_absent_changes_nothing() -> None:
    assert overridden("~training.clipping") == TABLES
    assert overridden("~training.optimizer.beta1") == TABLES


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.max_steps", "expected section.key=value, or ~section.key"),
        ("~seed=3", "expected section.key=value, or ~section.key"),
        ("=3", "expected section.key=value"),
        ("a..b=3", "expected section.key=value"),
        ("seed.low=3", "'seed' is a value, not a section"),
        ("data.train.2.source=c", "expected an index in a list of 2, from 0, found '2'"),
        ("training.stages.0.steps=3", "expected an index in a list of 0, from 0, found '0'"),
        ("data.train.first=c", "expected an index in a list of 2, from 0, found 'first'"),
        ("~training.clippin", "unknown key 'clippin' (did you mean 'clipping'?)"),
        ("~trainng.clipping", "unknown key 'trainng' (did you mean 'training'?)"),
    ],
)
def test_what_can_not_be_applied_is_told(override: str, message: str) -> None:
    found = fault_of(override)
    assert found.startswith(f"--set {override}: ")
    assert message in found


def test_the_key_of_an_override() -> None:
    assert override_key("data.data_root=a.b") == "data.data_root"
    assert override_key("~data.train.0") == "data.train.0"
