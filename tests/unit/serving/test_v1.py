import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from mtkit.model.config import INFERENCE_FILE, read_settings, write_section
from mtkit.recipe.inference import Inference, Quality
from mtkit.serving.app import make_app, make_context
from mtkit.serving.keys import add_key
from mtkit.serving.model_service import ServedModel
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import ModelSource
from mtkit.serving.worker_process import WorkerProcess

from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]


def test_lines_are_told_with_all_there_is(serve: Serve) -> None:
    response = serve().post("/v1/translate", json={"lines": ["a", {"text": "b", "prefix": "c"}]})
    content = response.json()
    assert (content["model"], content["source"], content["target"]) == ("m", "en", "de")
    first, second = content["translations"]
    assert (first["text"], first["log_probability"], first["score"]) == ("m:A", -2.0, -1.0)
    assert first["warnings"] == []
    assert second["text"] == "m:B"


def test_flags_are_told_where_the_model_flags(serve: Serve) -> None:
    client = serve()
    lines = {"lines": ["FLAG", "CHECKED", "a"]}
    one, two, three = client.post("/v1/translate", json=lines).json()["translations"]
    assert one["flags"] == [
        {
            "name": "numbers differ",
            "found": 1,
            "threshold": 0,
            "text": "on one side only: <b>7</b>",
        }
    ]
    assert two["flags"] == []
    assert "flags" not in three


def test_quality_is_told_where_it_is_estimated(serve: Serve) -> None:
    lines = {"lines": ["SURE", "a"]}
    one, two = serve().post("/v1/translate", json=lines).json()["translations"]
    assert (one["quality"], one["released"]) == (0.75, True)
    assert not {"quality", "released"} & two.keys()
    schema = serve().get("/openapi.json").json()["components"]["schemas"]
    found = [each["properties"] for each in schema.values() if "n_best" in str(each)]
    assert any({"quality", "released"} <= properties.keys() for properties in found)


def test_no_model_estimates_two_steps(serve: Serve) -> None:
    second = make_model("y", "en", "de")
    settings = Inference(quality=Quality(path=Path("q.json")))
    second = replace(second, source=replace(second.source, settings=settings))
    client = serve(make_model("x", "fr", "en"), second, pivot="en")
    ask = {"lines": ["SURE"], "source": "fr", "target": "de"}
    (found,) = client.post("/v1/translate", json=ask).json()["translations"]
    assert found["text"] == "y:X:SURE"
    assert found["released"] is False
    assert "quality" not in found
    (direct,) = client.post("/v1/translate", json={**ask, "source": "en"}).json()["translations"]
    assert direct["released"]


def test_the_page_gets_each_lines_flags_with_its_scores(serve: Serve) -> None:
    client = serve()
    ask = {"q": "CHECKED. A FLAG.\nCHECKED", "source": "en", "target": "de"}
    assert "flags" not in client.post("/translate", json=ask).json()
    found = client.post("/translate", json={**ask, "scores": True}).json()
    assert [[flag["name"] for flag in line] for line in found["flags"]] == [["numbers differ"], []]
    plain = client.post("/translate", json={**ask, "q": "a", "scores": True}).json()
    assert set(plain) == {"translatedText", "scores"}
    script = client.get("/static/page.js").text
    # What a model says is text and never markup.
    assert not any(way in script for way in ("innerHTML", "outerHTML", "insertAdjacentHTML"))


def test_texts_have_the_quality_of_their_lines_with_their_scores(serve: Serve) -> None:
    client = serve()
    ask = {"q": ["SURE\n\nUNSURE", "a"], "source": "en", "target": "de"}
    assert set(client.post("/translate", json=ask).json()) == {"translatedText"}
    found = client.post("/translate", json={**ask, "scores": True}).json()
    assert found["quality"] == [[0.75, None, 0.25], [None]]
    assert found["released"] == [[True, None, False], [None]]
    assert found["scores"] == [[-1.0, None, -1.0], [-1.0]]


def test_beams_are_asked_for_within_limits(serve: Serve) -> None:
    client = serve(max_beam_size=5)
    body = {"lines": ["a"], "settings": {"n_best": 3}}
    assert len(client.post("/v1/translate", json=body).json()["translations"][0]["n_best"]) == 3
    for settings in ({"n_best": 6}, {"beam_size": 1, "n_best": 2}, {"engine": "torch"}):
        response = client.post("/v1/translate", json={"lines": ["a"], "settings": settings})
        assert response.status_code == 400


def test_a_line_at_fault_is_named(serve: Serve) -> None:
    response = serve().post("/v1/translate", json={"lines": ["a", "FAULT"]})
    assert response.status_code == 400
    assert response.json() == {"error": "the prefix is too long", "line": 2}


def test_translations_are_scored(serve: Serve) -> None:
    response = serve().post("/v1/score", json={"pairs": [["a", "b"]]})
    assert response.json()["translations"][0]["log_probability"] == -1.5


def test_pairs_are_scored_by_a_model_of_their_languages(serve: Serve) -> None:
    client = serve(make_model("m"), make_model("back", "de", "en"))
    body = {"pairs": [["a", "b"]], "source": "de", "target": "en"}
    assert client.post("/v1/score", json=body).json()["model"] == "back"
    del body["source"]
    assert client.post("/v1/score", json=body).json() == {
        "error": "Invalid request: missing source parameter"
    }


def test_null_is_as_if_not_given(serve: Serve) -> None:
    body = {"lines": ["a"], "settings": None, "glossary": None, "source": None}
    assert serve().post("/v1/translate", json=body).status_code == 200


def test_models_and_readiness(serve: Serve, workers: type[FakeWorker]) -> None:
    client = serve()
    [model] = client.get("/v1/models").json()["models"]
    assert (model["name"], model["is_loaded"]) == ("m", False)
    assert client.get("/ready").status_code == 200
    assert "mtkit_requests_total" in client.get("/metrics").text


def test_keys(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    key = add_key(file, "cms")
    assert key not in file.read_text("utf-8")
    client = serve(keys=file)
    ask = {"q": "a", "source": "en", "target": "de"}
    missing = client.post("/translate", json=ask)
    assert missing.status_code == 400
    assert missing.json() == {"error": "Please contact the server operator to get an API key"}
    wrong = client.post("/translate", json={**ask, "api_key": key[:-1]})
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    assert client.post("/translate", data={**ask, "api_key": key}).status_code == 200
    bearer = {"Authorization": f"Bearer {key}"}
    assert client.post("/translate", json=ask, headers=bearer).status_code == 200
    assert client.get("/metrics").status_code == 400
    assert client.get("/v1/models", headers=bearer).status_code == 200
    assert client.get("/health").status_code == 200
    settings = client.get("/frontend/settings").json()
    assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)


def test_too_many_requests(serve: Serve) -> None:
    client = serve(requests_per_minute=3)
    ask = {"q": ["a", "b"], "source": "en", "target": "de"}
    assert client.post("/translate", json=ask).status_code == 200
    refused = client.post("/translate", json=ask)
    assert refused.status_code == 429
    assert refused.json() == {"error": "Slowdown: 3 per 1 minute"}
    assert int(refused.headers["Retry-After"]) >= 1


def test_a_body_that_is_too_large(serve: Serve) -> None:
    client = serve(max_body_bytes=100)
    # With the header that lets another site's page read the error.
    refused = client.post("/translate", json={"q": "x" * 200}, headers={"origin": "https://x.org"})
    assert refused.status_code == 413
    assert refused.headers["access-control-allow-origin"] == "*"

    def chunks() -> object:
        yield from (b"x" * 60, b"x" * 60)

    response = client.post(
        "/translate", content=chunks(), headers={"content-type": "application/json"}
    )
    assert response.status_code == 413


def test_headers_of_answers(serve: Serve) -> None:
    client = serve(hosts=("localhost",), cors_origins=("https://cms.example.org",))
    for path in ("/", "/health", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    refused = client.get("/health", headers={"host": "evil.example:5000"})
    assert refused.status_code == 400
    assert refused.json()["error"].startswith("Invalid host header: evil.example:5000 is not")
    assert client.get("/health", headers={"host": "LOCALHOST:5000"}).status_code == 200
    for origin, allowed in (("https://cms.example.org", True), ("https://evil.example", False)):
        headers = client.get("/health", headers={"origin": origin}).headers
        assert ("access-control-allow-origin" in headers) is allowed


def test_the_log_holds_no_text_and_no_path_of_strangers(
    workers: type[FakeWorker], capsys: pytest.CaptureFixture[str]
) -> None:
    context = make_context([make_model("m")], Serving(load="first-use"))
    with TestClient(make_app(context), base_url="http://localhost") as client:
        client.post("/translate", json={"q": "secret", "source": "en", "target": "de"})
        client.get("/x%0d%0aforged")
    said = capsys.readouterr().err
    assert "POST /translate 200" in said
    assert "secret" not in said.lower()
    assert "forged" not in said


def test_callers_share_batches_and_one_who_leaves_is_dropped(workers: type[FakeWorker]) -> None:
    async def main() -> None:
        settings = Serving(log="none", load="first-use", queue_lines=4, request_seconds=30)
        context = make_context([make_model("m")], settings)
        service = context.catalogue.services["m"]
        await service.start()
        worker = workers.started[0]
        worker.is_held = True
        transport = httpx2.ASGITransport(make_app(context))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(text: str) -> httpx2.Response:
                body = {"q": text, "source": "en", "target": "de"}
                return await client.post("/translate", json=body)

            together = [asyncio.create_task(ask(text)) for text in ("a", "b", "c")]
            while not worker.batches:
                await asyncio.sleep(0.001)
            assert [len(batch) for batch in worker.batches] == [3]
            later = [asyncio.create_task(ask("d"))]
            while len(worker.batches) < 2:
                await asyncio.sleep(0.001)
            waiting = [asyncio.create_task(ask(text)) for text in ("e", "f", "g", "h")]
            while service.num_waiting < 4:
                await asyncio.sleep(0.001)
            refused = await ask("i")
            assert refused.status_code == 503
            assert int(refused.headers["Retry-After"]) >= 1
            waiting[0].cancel()
            while service.num_waiting > 3:
                await asyncio.sleep(0.001)
            worker.is_held = False
            worker.release()
            answers = await asyncio.gather(*together, *later, *waiting[1:])
            found = [answer.json()["translatedText"] for answer in answers]
            assert found == [f"m:{letter}" for letter in "ABCDFGH"]
            asked = [ask.text for batch in worker.batches for ask in batch]
            assert "e" not in asked
        await context.catalogue.close()

    asyncio.run(main())


def test_two_batches_of_a_process_that_is_killed_are_answered(workers: type[FakeWorker]) -> None:
    async def main() -> None:
        context = make_context([make_model("m")], Serving(log="none", batch_lines=2))
        service = context.catalogue.services["m"]
        await service.start()
        worker = workers.started[0]
        worker.is_held = True
        texts = ["a", "b", "c", "d", "e"]
        asking = asyncio.create_task(context.translation.translate_texts(texts, "en", "de"))
        while len(worker.batches) < 2:
            await asyncio.sleep(0.001)
        worker.kill_running()
        assert (await asking)[0].texts == [f"m:{text.upper()}" for text in texts]
        await context.catalogue.close()

    asyncio.run(main())


def test_a_reload_loses_nothing(workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        context = make_context([make_model("m")], Serving(log="none"))
        service = context.catalogue.services["m"]
        await service.start()
        old = workers.started[0]
        old.is_held = True
        under_way = asyncio.create_task(context.translation.translate_texts(["a"], "en", "de"))
        while not old.batches:
            await asyncio.sleep(0.001)
        opened = make_model("m")
        monkeypatch.setattr(type(opened), "open", lambda *_: opened)
        reloading = asyncio.create_task(context.catalogue.reload())
        while len(workers.started) < 2:
            await asyncio.sleep(0.001)
        new, _ = await context.translation.translate_texts(["b"], "en", "de")
        assert new.texts == ["m:B"]
        assert workers.started[1].batches
        old.release()
        assert (await under_way)[0].texts == ["m:A"]
        await reloading
        workers.fails_to_start = True
        await context.catalogue.reload()
        assert (await context.translation.translate_texts(["c"], "en", "de"))[0].texts == ["m:C"]
        await context.catalogue.close()

    asyncio.run(main())


def test_a_reload_while_a_process_is_replaced_takes_the_new_folder(
    workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = FakeWorker.start

    async def main() -> None:
        context = make_context([make_model("old")], Serving(log="none"))
        await context.catalogue.start()
        asked = []

        async def start_slowly(source: ModelSource) -> FakeWorker:
            asked.append(source.folder.name)
            if source.folder.name == "old":
                await asyncio.Event().wait()
            return await start(source)

        monkeypatch.setattr(WorkerProcess, "start", start_slowly)
        workers.started[0].die()
        while not asked:
            await asyncio.sleep(0.001)
        opened = make_model("new")
        monkeypatch.setattr(type(opened), "open", lambda *_: opened)
        [service] = context.catalogue.services.values()
        await service.reload()
        assert (await context.translation.translate_texts(["a"], "en", "de"))[0].texts == ["new:A"]
        assert asked == ["old", "new"]
        await context.catalogue.close()

    asyncio.run(main())


def test_a_reload_takes_the_settings_of_the_new_folder(
    workers: type[FakeWorker], folder: Path
) -> None:
    async def main() -> None:
        model = ServedModel.open("m", folder, "cpu")
        context = make_context([model], Serving(log="none"))
        await context.catalogue.start()
        changed = read_settings(folder).model_copy(update={"beam_size": 7})
        write_section(folder / INFERENCE_FILE, changed)
        await context.catalogue.reload()
        beams = [each.source.settings.beam_size for each in workers.started]  # type: ignore[union-attr]
        assert beams == [2, 7]
        await context.catalogue.close()

    asyncio.run(main())


def test_models_make_room_for_each_other(serve: Serve) -> None:
    client = serve(make_model("a"), make_model("b", "de", "en"), memory_gib=1.2)
    for source, target, found in (("en", "de", "a:X"), ("de", "en", "b:X"), ("en", "de", "a:X")):
        ask = {"q": "x", "source": source, "target": target}
        assert client.post("/translate", json=ask).json() == {"translatedText": found}
    loaded = [each["is_loaded"] for each in client.get("/v1/models").json()["models"]]
    assert loaded == [True, False]
