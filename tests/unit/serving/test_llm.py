"""A large language model on a server: who may use it, its languages, and how it is asked."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mtkit.errors import MtkitError
from mtkit.inference.request import Request
from mtkit.inference.translation import Translation
from mtkit.pipeline import serve as pipeline
from mtkit.recipe.flags import Flags
from mtkit.recipe.inference import Inference
from mtkit.serving import server
from mtkit.serving.app import make_app, make_context
from mtkit.serving.context import ServerContext
from mtkit.serving.messages import start_process
from mtkit.serving.model_service import ServedModel
from mtkit.serving.request_errors import LineFault
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import ModelSource, answer_batch, open_source

from ..llm.chat_server import Reply, answer, serve_chat
from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]
NOWHERE = "http://127.0.0.1:9/v1"
"""Nothing listens there."""


def write_file(folder: Path, url: str = NOWHERE, more: str = "serve = true") -> Path:
    path = folder / "chat.toml"
    path.write_text(
        f'url = "{url}"\nmodel = "m"\nsource_languages = ["en", "deu_Latn", "fr"]\n'
        f'target_languages = ["deu_Latn", "en"]\nreject = []\n{more}\n'
        "[limits]\nattempts = 1\n",
        "utf-8",
    )
    return path


def open_model(folder: Path, **options: Any) -> ServedModel:
    return ServedModel.open("chat", write_file(folder, **options), "cpu")


@pytest.fixture
def chat() -> Iterator[tuple[str, list[Any]]]:
    """An API that answers a prompt with its last line in capitals: its address, and what it got."""

    def reply(body: dict[str, Any], _: int) -> Reply:
        return answer(body["messages"][-1]["content"].splitlines()[-1].upper())

    with serve_chat(reply) as served:
        yield served


@pytest.fixture
def address(chat: tuple[str, list[Any]]) -> str:
    return chat[0]


def test_a_file_that_does_not_allow_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MtkitError, match=r"chat\.toml: the texts of all callers would go to") as e:
        open_model(tmp_path, more="")
    assert NOWHERE in e.value.message
    assert e.value.hint.endswith("serve = true")


def test_its_languages_are_those_of_the_file(
    serve: Serve, tmp_path: Path, workers: type[FakeWorker], capsys: pytest.CaptureFixture[str]
) -> None:
    client = serve(open_model(tmp_path))
    assert f"chat: texts go to {NOWHERE}" in capsys.readouterr().err
    targets = {each["code"]: each["targets"] for each in client.get("/languages").json()}
    # The page offers what isn't the source itself.
    assert targets == {"de": ["de", "en"], "en": ["de", "en"], "fr": ["de", "en", "fr"]}
    [model] = client.get("/v1/models").json()["models"]
    assert (model["source"], model["target"], model["settings"]) == ("mul", "mul", {})
    ask = {"q": "a", "source": "fr", "target": "de", "alternatives": 3, "scores": True}
    assert client.post("/translate", json=ask).status_code == 200
    [[asked]] = workers.started[0].batches
    assert (asked.source_language, asked.target_language) == ("fr", "deu_Latn")
    assert client.post("/translate", json={**ask, "target": "fr"}).json()["translatedText"] == "a"
    refused = client.post("/translate", json={**ask, "source": "de", "target": "es"})
    assert refused.status_code == 400


def test_it_scores_no_translations(serve: Serve, tmp_path: Path) -> None:
    pair = {"pairs": [["a", "b"]], "source": "en", "target": "de"}
    refused = serve(open_model(tmp_path)).post("/v1/score", json=pair)
    assert refused.status_code == 400
    assert "can't score translations" in refused.json()["error"]


def test_a_server_asks_it(chat: tuple[str, list[Any]], tmp_path: Path) -> None:
    address, asked = chat
    settings = Serving(log="none", load="first-use")
    context = make_context([open_model(tmp_path, url=address)], settings)
    with TestClient(make_app(context), base_url="http://localhost") as client:
        body = {"lines": ["a book", "two books"], "source": "en", "target": "de"}
        found = client.post("/v1/translate", json=body).json()
        assert found["model"] == "chat"
        assert [each["text"] for each in found["translations"]] == ["A BOOK", "TWO BOOKS"]
        # Once more, by LibreTranslate's API and from the cache.
        ask = {"q": "a book", "source": "en", "target": "de", "alternatives": 3}
        assert client.post("/translate", json=ask).json()["translatedText"] == "A BOOK"
        prefix = {**body, "lines": [{"text": "a", "prefix": "b"}]}
        assert client.post("/v1/translate", json=prefix).status_code == 400
    assert len(asked) == 2


@pytest.mark.parametrize(("more", "text"), [("", None), ('on_failure = "copy"\n', "ERR one.")])
def test_a_text_that_its_server_refuses_is_an_error_unless_copies_are_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, text: str | None
) -> None:
    def reply(body: dict[str, Any], _: int) -> Reply:
        line = body["messages"][-1]["content"].splitlines()[-1]
        return (400, {}, b"it is filtered") if "ERR" in line else answer(line.upper())

    settings = Serving(log="none", load="first-use")
    with serve_chat(reply) as (address, _):
        model = open_model(tmp_path, url=address, more=f"serve = true\n{more}retries = 0")
        app = make_app(make_context([model], settings))
        with TestClient(app, base_url="http://localhost") as client:
            ask = {"q": "A book. ERR one.", "source": "en", "target": "de"}
            found = client.post("/translate", json=ask)
            lines = {"lines": ["ERR one."], "source": "en", "target": "de"}
            [line] = client.post("/v1/translate", json=lines).json()["translations"]
    if text is not None:
        assert found.json()["translatedText"] == f"A BOOK. {text}"
        return
    assert found.status_code == 500
    assert found.json()["error"] == "the language model gave no usable answer"
    assert "it is filtered" in capsys.readouterr().err
    assert line["text"] == ""
    assert line["warnings"][0]["kind"] == "bad answer"


def test_flags_are_those_of_the_servers_settings(address: str, tmp_path: Path) -> None:
    flags = Inference(flags=Flags(names=("numbers differ",)))
    translator, loaded = open_source(ModelSource(write_file(tmp_path, address), flags, "cpu"))
    assert loaded.num_batches == 4
    [found] = answer_batch(translator, [Request("a", source_language="en")], is_llm=True)
    assert isinstance(found, Translation)
    assert found.flags == ()


def test_no_line_is_blamed_if_nobody_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator, _ = open_source(ModelSource(write_file(tmp_path), None, "cpu"))
    faults = answer_batch(translator, [Request("a"), Request("b")], is_llm=True)
    assert all(isinstance(each, LineFault) and each.is_fault_of_server for each in faults)
    # What it says may hold the address, so it is for the log only.
    assert not any("127.0.0.1" in str(each) for each in faults)
    assert capsys.readouterr().err.count(NOWHERE) == 1


def test_a_request_ends_at_its_first_line_without_an_answer(
    tmp_path: Path, workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    down = LineFault("it doesn't answer", is_fault_of_server=True)
    monkeypatch.setattr(FakeWorker, "answer", lambda *_: down)

    async def main() -> None:
        context = make_context([open_model(tmp_path)], Serving(log="none"))
        await context.catalogue.start()
        service = context.catalogue.services["chat"]
        found = await service.answer([Request(str(number)) for number in range(9)])
        assert all(isinstance(each, LineFault) for each in found)
        # As many as run at once.
        assert len(workers.started[0].batches) == 2
        assert service.num_waiting == 0
        await context.catalogue.close()

    asyncio.run(main())


def test_a_batch_is_one_request_and_may_take_longer_than_other_models(
    tmp_path: Path, workers: type[FakeWorker]
) -> None:
    async def main() -> None:
        model = open_model(tmp_path, more="serve = true\nlines_per_request = 2")
        context = make_context([model], Serving(log="none", batch_seconds=0.01))
        await context.catalogue.start()
        worker = workers.started[0]
        worker.is_held = True
        service = context.catalogue.services["chat"]
        lines = [[Request(text) for text in texts] for texts in ("abc", "d")]
        asking = [asyncio.create_task(service.answer(each)) for each in lines]
        await asyncio.sleep(0.05)
        assert not worker.death.done()
        worker.is_held = False
        worker.release()
        await asyncio.gather(*asking)
        # Lines of two callers are never in one prompt.
        batches = [[ask.text for ask in batch] for batch in worker.batches]
        assert sorted(batches) == [["a", "b"], ["c"], ["d"]]
        await context.catalogue.close()

    asyncio.run(main())


def test_the_command_names_a_file_and_flags_for_the_fallback(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[ServerContext] = []
    monkeypatch.setattr(server, "serve", lambda context, _: opened.append(context))
    models = [folder, write_file(tmp_path)]
    pipeline.serve(models, ["serve.fallback=chat"], port=0, device="cpu")
    services = opened[0].catalogue.services
    assert list(services) == [folder.parent.name, "chat"]
    settings = [each.model.source.settings for each in services.values()]
    assert all(each is not None and each.flags is not None for each in settings)
    pipeline.serve(models, port=0, device="cpu")
    settings = [each.model.source.settings for each in opened[1].catalogue.services.values()]
    assert all(each is not None and each.flags is None for each in settings)


def test_a_fallback_must_be_served() -> None:
    with pytest.raises(MtkitError, match=r'serve\.fallback = "chat": no model has this name'):
        make_context([make_model("m")], Serving(fallback="chat"))


def test_processes_for_strangers_texts_have_no_keys(monkeypatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "sk-secret")
    monkeypatch.setenv("HARMLESS", "yes")

    async def read_environments() -> list[bytes]:
        found = []
        for module, knows in (("worker_main", True), ("text_main", False)):
            process = await start_process(f"mtkit.serving.{module}", knows_secrets=knows)
            # Between fork and exec the kernel shows an empty environment.
            while not (environment := Path(f"/proc/{process.pid}/environ").read_bytes()):
                await asyncio.sleep(0.01)
            found.append(environment)
            process.kill()
            await process.wait()
        return found

    of_model, of_text = asyncio.run(read_environments())
    assert b"PROVIDER_KEY=sk-secret" in of_model
    assert b"HARMLESS=yes" in of_text
    assert b"sk-secret" not in of_text
