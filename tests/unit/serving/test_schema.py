"""Answers are what /openapi.json says of them, as an independent validator reads it."""

import json
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from mtkit.checks.flag import Flag
from mtkit.inference.request import LineWarning
from mtkit.inference.translation import (
    Hypothesis,
    KeptPiece,
    Protection,
    TermUse,
    TranslatedSentence,
    Translation,
    WordAlignment,
    read_translation,
)
from mtkit.text.trees.repairs import Repairs

from .test_v1 import Serve

LINE = "A dog, 2 cats. x"
FULL = Translation(
    tuple(
        Hypothesis(
            (),
            -1.25 * rank,
            -1.0 * rank,
            rank == 1,
            (-0.5, -0.75),
            -3.5,
            f"Ein Hund {rank}",
            ("▁Ein", "</s>"),
            Repairs(leaves_added=1),
            WordAlignment(((0, 1), (2, 5)), ((0, 3), (4, 8)), ((0, 0), (1, 1))),
            utility=62.5 / rank,
        )
        for rank in (1, 2)
    ),
    was_split=True,
    warnings=(LineWarning("cut", "cut", 7),),
    flags=(Flag("copied", 0.5, 0.25, "50% of its words are copied"),),
    terms=(TermUse((2, 5), "dog", "Hund", "used", "Hund"), TermUse((0, 1), "A", "B", "avoided")),
    protection=Protection((KeptPiece("number", "2"),), None, ("2",)),
    sentences=(TranslatedSentence((0, 14), (0, 8), -1.0, -1.25, True, False),),
    model="m",
)
"""A translation with a value in every field."""


def check(client: TestClient, schema: str, answer: Any) -> None:
    """Checks an answer by the document's schema, in which no other key may stand."""
    document = client.get("/openapi.json").json()
    closed = json.loads(json.dumps(document), object_hook=_close)
    resolver = {"$ref": f"#/components/schemas/{schema}", "components": closed["components"]}
    jsonschema.Draft202012Validator.check_schema(resolver)
    jsonschema.Draft202012Validator(resolver).validate(answer)


def _close(each: dict[str, Any]) -> dict[str, Any]:
    return {**each, "additionalProperties": False} if "properties" in each else each


def test_a_translation_with_everything_has_the_schema(serve: Serve) -> None:
    answer = {"model": "m", "translations": [FULL.as_json(LINE, with_warnings=True)]}
    check(serve(), "Translations", json.loads(json.dumps(answer)))
    with pytest.raises(jsonschema.ValidationError, match="'alien' was unexpected"):
        check(serve(), "Translations", {**answer, "alien": 1})


def test_the_client_reads_all_that_the_server_sends() -> None:
    sent = json.loads(json.dumps(FULL.as_json(LINE, with_warnings=True)))
    read = read_translation(sent, 7)
    assert read == Translation(**{**vars(FULL), "warnings": read.warnings})
    assert read.warnings == (LineWarning("cut", "cut", 7),)


@pytest.mark.parametrize("key", ["text", "n_best", "was_split", "tokens"])
def test_what_lacks_a_key_is_no_translation(key: str) -> None:
    content = FULL.as_json(LINE)
    del content[key]
    with pytest.raises(ValidationError, match=key):
        read_translation(content, 1)


POSTED: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/translate", "Translations", {"lines": ["FLAG", "a"], "source": "en", "target": "de"}),
    ("/v1/score", "Translations", {"pairs": [["a", "b"]]}),
    ("/translate", "Translated", {"q": "a", "source": "en", "target": "de"}),
    (
        "/translate",
        "Translated",
        {"q": ["FLAG", "b"], "source": "en", "target": "de", "alternatives": 1, "scores": True},
    ),
    ("/translate", "Translated", {"q": "UNSURE", "source": "en", "target": "de", "scores": True}),
    ("/translate", "Translated", {"q": "a", "source": "en", "target": "de", "format": "html"}),
    ("/v1/translate", "Error", {"lines": ["a", "FAULT"]}),
    ("/translate", "Error", {"q": "a"}),
]


@pytest.mark.parametrize(("path", "schema", "body"), POSTED)
def test_an_answer_has_its_schema(
    serve: Serve, path: str, schema: str, body: dict[str, Any]
) -> None:
    client = serve()
    check(client, schema, client.post(path, json=body).json())


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("/languages", "LanguagesSchema"),
        ("/frontend/settings", "FrontendSettings"),
        ("/health", "StatusSchema"),
        ("/ready", "StatusSchema"),
        ("/v1/models", "Models"),
        ("/nowhere", "Error"),
    ],
)
def test_what_is_asked_for_has_its_schema(serve: Serve, path: str, schema: str) -> None:
    client = serve()
    check(client, schema, client.get(path).json())
