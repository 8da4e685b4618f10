"""The fallback: which lines it translates, and what becomes of them if it can't."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from mtkit.inference.translation import Translation
from mtkit.serving.fair_queue import LineRequest, LineResult
from mtkit.serving.model_service import ServedModel
from mtkit.serving.request_errors import LineFault
from mtkit.serving.worker_process import WorkerProcess
from mtkit.text.languages import ModelLanguages

from .conftest import FakeWorker, make_model, request_of

Serve = Callable[..., TestClient]
SEVERAL = ("eng_Latn", "deu_Latn")


class Answering(FakeWorker):
    """Flags as the first model; as the fallback only lines that say BOTH, and it may be down."""

    def answer(self, ask: LineRequest) -> LineResult:
        found, text = super().answer(ask), request_of(ask).text
        if self.source.folder.name != "chat":
            return found
        if "DOWN" in text:
            return LineFault("it doesn't answer", is_fault_of_server=True)
        assert isinstance(found, Translation)
        return found if "BOTH" in text else Translation(found.candidates, flags=())


def is_chat(worker: FakeWorker) -> bool:
    return worker.source.folder.name == "chat"


def asked(workers: type[FakeWorker]) -> list[str]:
    """Returns the lines that the fallback was given."""
    batches = [batch for worker in workers.started if is_chat(worker) for batch in worker.batches]
    return [request_of(ask).text for batch in batches for ask in batch]


def make_chat() -> ServedModel:
    pieces = {code: code for code in SEVERAL}
    return make_model("chat", "mul", "mul", ModelLanguages.of_pieces(pieces, "before"))


@pytest.fixture
def client(
    serve: Serve, workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TestClient]:
    async def start(source: Any) -> FakeWorker:
        workers.started.append(Answering(source))
        workers.started[-1].is_held = is_chat(workers.started[-1]) and is_stuck
        return workers.started[-1]

    is_stuck = False

    def make(*, hangs: bool = False, **limits: Any) -> TestClient:
        nonlocal is_stuck
        is_stuck = hangs
        monkeypatch.setattr(WorkerProcess, "start", start)
        models = make_model("m"), make_model("french", "fr", "de"), make_chat()
        return serve(*models, fallback="chat", **limits)

    return make


def translate(client: TestClient, *lines: str, **more: str) -> list[dict[str, Any]]:
    body = {"lines": lines, "source": "en", "target": "de", **more}
    response = client.post("/v1/translate", json=body)
    assert response.status_code == 200, response.text
    content: list[dict[str, Any]] = response.json()["translations"]
    return content


def tell(found: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(each["text"], each["model"], len(each["warnings"])) for each in found]


def test_only_flagged_lines_are_translated_again(
    client: Callable[..., TestClient], workers: type[FakeWorker]
) -> None:
    found = translate(client(), "a", "FLAG", "CHECKED", "FLAG BOTH")
    assert tell(found) == [
        ("m:A", "m", 0),
        ("chat:FLAG", "chat", 0),
        ("m:CHECKED", "m", 0),
        ("m:FLAG BOTH", "m", 1),
    ]
    assert found[3]["warnings"][0] == {
        "kind": "no fallback",
        "text": "input line 4: the first translation stays, since chat's is flagged, too",
    }
    assert asked(workers) == ["FLAG", "FLAG BOTH"]
    [chat] = filter(is_chat, workers.started)
    codes = [(ask.source_language, ask.target_language) for ask in map(request_of, chat.batches[0])]
    assert codes == [SEVERAL] * 2


def test_texts_and_documents_use_it(client: Callable[..., TestClient]) -> None:
    opened = client()
    ask = {"q": "FLAG.\na", "source": "en", "target": "de"}
    found = opened.post("/translate", json=ask).json()
    assert found == {"translatedText": "chat:FLAG.\nm:A"}
    told = opened.post("/translate", json={**ask, "q": "FLAG. And A\na", "scores": True}).json()
    assert told["models"] == ["chat + m", "m"]
    page = {**ask, "q": "<p>FLAG</p><p>a</p>", "format": "html"}
    found = opened.post("/translate", json=page).json()
    assert found["translatedText"] == "<p>chat:FLAG</p><p>m:A</p>"


def test_other_languages_and_its_own_lines_are_left_alone(
    client: Callable[..., TestClient], workers: type[FakeWorker]
) -> None:
    opened = client()
    assert tell(translate(opened, "FLAG", source="fr")) == [("french:FLAG", "french", 0)]
    assert tell(translate(opened, "BOTH FLAG", model="chat")) == [("chat:BOTH FLAG", "chat", 0)]
    assert asked(workers) == ["BOTH FLAG"]


def test_the_first_translation_stays_if_it_is_down(
    client: Callable[..., TestClient], workers: type[FakeWorker]
) -> None:
    opened = client()
    found = translate(opened, "FLAG DOWN", "a")
    assert tell(found) == [("m:FLAG DOWN", "m", 1), ("m:A", "m", 0)]
    assert "chat gives no answer" in found[0]["warnings"][0]["text"]
    # It isn't asked again at once.
    assert tell(translate(opened, "FLAG")) == [("m:FLAG", "m", 1)]
    assert asked(workers) == ["FLAG DOWN"]


def test_the_first_translation_stays_if_it_is_slow(client: Callable[..., TestClient]) -> None:
    found = translate(client(hangs=True, fallback_seconds=0.05), "FLAG")
    assert tell(found) == [("m:FLAG", "m", 1)]


def test_a_line_at_fault_does_not_stop_it(client: Callable[..., TestClient]) -> None:
    opened = client()
    assert opened.post(
        "/v1/translate", json={"lines": ["FAULT"], "source": "en", "target": "de"}
    ).json() == {"error": "the prefix is too long", "line": 1}
    assert tell(translate(opened, "FLAG")) == [("chat:FLAG", "chat", 0)]


def test_a_translation_without_an_estimate_is_not_released(
    client: Callable[..., TestClient],
) -> None:
    sure, other = translate(client(), "SURE", "SURE FLAG")
    assert (sure["quality"], sure["released"]) == (0.75, True)
    # The fallback doesn't estimate.
    assert other["text"] == "chat:SURE FLAG"
    assert other["released"] is False
    assert "quality" not in other
