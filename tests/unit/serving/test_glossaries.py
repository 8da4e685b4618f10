"""Glossaries of requests: whole batches by a translator whose words are known."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from mtkit import RemoteTranslator, Request, Term
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import Inference, Sampling
from mtkit.serving.app import make_app, make_context
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import answer_batch
from mtkit.serving.worker_process import WorkerProcess

from ..inference.fakes import CharacterTokenizer, WordEngine
from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]
ZEBRA = {"source": "zebra", "target": "Zebra"}
NO_DOG = {"source": "dog", "target": "Hund", "forbidden": True}


class WordWorker(FakeWorker):
    """Answers a whole batch as a process does."""

    engine = WordEngine()
    settings = Inference()

    def release(self) -> None:
        translator = Translator.of(self.engine, CharacterTokenizer(), self.settings)
        running, self._running = self._running, []
        for answers, asks in running:
            answers.set_result(answer_batch(translator, asks))


@pytest.fixture
def words(workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> type[WordWorker]:
    monkeypatch.setattr(WordWorker, "engine", WordEngine())
    monkeypatch.setattr(WorkerProcess, "start", WordWorker.start)
    return WordWorker


def test_the_answer_tells_what_became_of_each_term(serve: Serve, words: type[WordWorker]) -> None:
    client = serve()
    body = {"lines": ["the zebra", "the dog", "cats"], "glossary": [ZEBRA, NO_DOG]}
    found = client.post("/v1/translate", json=body).json()["translations"]
    assert [each["text"] for each in found] == ["das Zebra", "das", "Katzen"]
    assert [each["terms"] for each in found] == [
        [
            {
                "span": [4, 9],
                "source": "zebra",
                "target": "Zebra",
                "use": "used",
                "found": "Zebra",
                "forbidden": False,
            }
        ],
        [
            {
                "span": [4, 7],
                "source": "dog",
                "target": "Hund",
                "use": "avoided",
                "found": None,
                "forbidden": True,
            }
        ],
        [],
    ]
    plain = client.post("/v1/translate", json={"lines": ["the dog"]}).json()["translations"]
    assert plain[0]["text"] == "das Hund"
    assert "terms" not in plain[0]
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["TermBody"]["required"] == ["source", "target"]
    assert schemas["LinesBody"]["properties"]["glossary"]["maxItems"] == 1_000


def test_two_callers_in_a_batch_have_their_own_glossaries(words: type[WordWorker]) -> None:
    async def main() -> None:
        # A batch waits for the last of its lines.
        settings = Serving(log="none", batch_lines=6, batch_wait_milliseconds=1_000)
        context = make_context([make_model("m")], settings)
        service = context.catalogue.services["m"]
        await service.start()
        worker = words.started[0]
        worker.is_held = True
        transport = httpx2.ASGITransport(make_app(context))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(*glossary: dict[str, Any]) -> list[str]:
                body = {"lines": ["zebra", "the dog"], "glossary": list(glossary)}
                answer = await client.post("/v1/translate", json=body)
                assert answer.status_code == 200
                return [each["text"] for each in answer.json()["translations"]]

            other = {"source": "Zebra", "target": "Streifenpferd"}
            asking = [asyncio.create_task(each) for each in (ask(ZEBRA), ask(other, NO_DOG), ask())]
            while not worker.batches:
                await asyncio.sleep(0.001)
            assert [len(batch) for batch in worker.batches] == [6]
            worker.is_held = False
            worker.release()
            assert await asyncio.gather(*asking) == [
                ["Zebra", "das Hund"],
                ["Streifenpferd", "das"],
                ["", "das Hund"],
            ]
        await context.catalogue.close()

    asyncio.run(main())


def test_one_that_cannot_be_kept_spoils_no_other_request(
    words: type[WordWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "settings", Inference(sampling=Sampling()))

    async def main() -> None:
        context = make_context([make_model("m")], Serving(log="none", load="first-use"))
        transport = httpx2.ASGITransport(make_app(context))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            bodies = [{"lines": ["dog"]}, {"lines": ["dog", "zebra"], "glossary": [ZEBRA]}]
            good, bad = await asyncio.gather(
                *(client.post("/v1/translate", json=body) for body in bodies)
            )
            assert good.json()["translations"][0]["text"] == "Hund"
            assert bad.status_code == 400
            assert bad.json()["error"].startswith("glossary: terms need beam search")
        await context.catalogue.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("glossary", "said"),
    [
        ([{"source": "a"}], "missing glossary, term 1, target parameter"),
        ([ZEBRA, {"source": " ", "target": "b"}], "glossary, term 2, source: "),
        ([{"source": "a", "target": "b" * 201}], "glossary, term 1, target: "),
        ([{"source": "a", "target": "b\nc"}], "glossary, term 1, target: "),
        ([{"source": "a", "target": "b", "forbiden": True}], "glossary, term 1, forbiden: Extra"),
        ([{"source": 1, "target": "b"}], "glossary, term 1, source: "),
        ([ZEBRA] * 1_001, "glossary: List should have at most 1000 items"),
        (
            [{"source": "a" * 200, "target": "b" * 200}] * 126,
            "glossary has 50,400 characters, expected 50,000 at most",
        ),
        ("zebra", "glossary: Input should be a valid list"),
    ],
)
def test_faults_are_told_by_name(serve: Serve, glossary: object, said: str) -> None:
    body = {"lines": ["a"], "glossary": glossary}
    response = serve().post("/v1/translate", json=body)
    assert response.status_code == 400
    assert response.json()["error"].startswith(f"Invalid request: {said}")


def test_a_glossary_does_not_go_through_a_third_language(serve: Serve) -> None:
    client = serve(make_model("a", "fr", "en"), make_model("b", "en", "de"), pivot="en")
    body = {"lines": ["a"], "source": "fr", "target": "de", "glossary": [ZEBRA]}
    response = client.post("/v1/translate", json=body)
    assert response.status_code == 400
    assert response.json()["error"].startswith("glossary: these languages go through en")


def test_a_client_asks_with_each_line_s_terms(serve: Serve, words: type[WordWorker]) -> None:
    there = RemoteTranslator("http://localhost", source="en", target="de")
    there._lines._client = serve()  # type: ignore[attr-defined]
    here = Translator.of(WordEngine(), CharacterTokenizer(), Inference())
    zebra, no_dog = Term("zebra", "Zebra", is_case_sensitive=True), Term("dog", "Hund", False, True)
    lines = [
        Request("zebra Zebra", glossary=(zebra,)),
        Request("the dog", glossary=(zebra, no_dog)),
        Request("the dog"),
    ]
    found, wanted = there.search(lines), here.search(lines)
    assert [each.text for each in found] == ["Zebra", "das", "das Hund"]
    assert [each.terms for each in found] == [each.terms for each in wanted]
