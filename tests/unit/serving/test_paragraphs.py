"""Texts and lines of several sentences, as the server cuts and joins them or has them cut."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from mtkit import RemoteTranslator, Request
from mtkit.inference.translation import Translation
from mtkit.recipe.inference import Inference
from mtkit.recipe.paragraphs import Paragraphs

from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]


def list_asked(workers: type[FakeWorker]) -> list[Request]:
    """Returns what models were asked, in order."""
    batches = [batch for worker in workers.started for batch in worker.batches]
    return [ask for batch in batches for ask in batch if isinstance(ask, Request)]


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        (
            " Dr. Bee came.  She sang.\n\nAll left. ",
            " m:DR. BEE CAME.  m:SHE SANG.\n\nm:ALL LEFT. ",
        ),
        ("It is 3.14, e.g. here.\u00a0See a.org.", "m:IT IS 3.14, E.G. HERE.\u00a0m:SEE A.ORG."),
        (" ", " "),
    ],
)
def test_a_texts_space_stays_to_the_byte(serve: Serve, text: str, translation: str) -> None:
    ask = {"q": text, "source": "en", "target": "de"}
    assert serve().post("/translate", json=ask).json()["translatedText"] == translation


def test_the_sources_language_says_where_sentences_end(
    serve: Serve, workers: type[FakeWorker]
) -> None:
    client = serve(make_model("m"), make_model("x", "de", "en"))
    ask = {"q": "Es war am 3. Mai. Er kam.", "source": "de", "target": "en"}
    client.post("/translate", json=ask)
    assert [ask.text for ask in list_asked(workers)] == ["Es war am 3. Mai.", "Er kam."]
    # A model that splits lines by itself leaves these as they are.
    assert all(ask.sentence is not None for ask in list_asked(workers))


@pytest.mark.parametrize(
    ("asked", "paragraphs"),
    [
        (True, Paragraphs()),
        ({"language": "de"}, Paragraphs(language="de")),
        (False, None),
    ],
)
def test_a_request_says_whether_lines_are_split(
    serve: Serve, workers: type[FakeWorker], asked: object, paragraphs: Paragraphs | None
) -> None:
    body = {"lines": ["A. B."], "settings": {"paragraphs": asked}}
    assert serve().post("/v1/translate", json=body).status_code == 200
    [request] = list_asked(workers)
    assert request.text == "A. B."
    assert request.settings is not None
    assert request.settings.paragraphs == paragraphs


def test_every_model_of_a_way_splits(serve: Serve, workers: type[FakeWorker]) -> None:
    client = serve(make_model("a", "hr", "en"), make_model("b"), pivot="en")
    body = {"lines": ["x"], "source": "hr", "target": "de", "settings": {"paragraphs": True}}
    assert client.post("/v1/translate", json=body).json()["pivot"] == "en"
    found = list_asked(workers)
    assert len(found) == 2
    assert all(ask.settings and ask.settings.paragraphs for ask in found)


def test_a_client_asks_for_it_and_a_sentence_is_left_alone(
    serve: Serve, workers: type[FakeWorker]
) -> None:
    split = Inference(paragraphs=Paragraphs(language="de"))
    there = RemoteTranslator("http://localhost", settings=split)
    there._lines._client = serve()  # type: ignore[attr-defined]
    found: list[Translation] = there.search(["a", Request("b", sentence=0)])
    assert [each.text for each in found] == ["m:A", "m:B"]
    asked = {ask.text: ask.settings for ask in list_asked(workers)}
    assert asked["a"] is not None
    assert asked["a"].paragraphs == Paragraphs(language="de")
    assert asked["b"] is not None
    assert asked["b"].paragraphs is None
