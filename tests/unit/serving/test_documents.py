"""HTML and files of callers: where tags go, and what is asked of the model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from mtkit.inference.request import LineWarning, Request
from mtkit.inference.translation import Hypothesis, Translation, WordAlignment
from mtkit.recipe.inference import Inference
from mtkit.serving.worker_main import answer_batch
from mtkit.text.words import find_words

from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]
ASK = {"source": "en", "target": "de"}


def turn_around(ask: Any) -> Translation:
    """Answers with `a` as `ax`, words in reverse; links them where that is asked for."""
    words = ask.text.split()
    spans = find_words(ask.text, [])
    turned = " ".join(f"{word}x" for word in reversed(words))
    alignment = None
    if ask.settings is not None and ask.settings.alignments:
        last = len(words) - 1
        pairs = tuple((index, last - index) for index in range(len(words)))
        alignment = WordAlignment(tuple(spans), tuple(find_words(turned, [])), pairs)
    found = Hypothesis((5, 3), -1.0, -1.0, is_finished=True, text=turned, alignment=alignment)
    return Translation((found,))


@pytest.fixture
def turning(workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    monkeypatch.setattr(FakeWorker, "answer", lambda _, ask: turn_around(ask))
    return workers


@pytest.mark.parametrize(
    ("has_head", "expected"),
    [(True, "dogx thex seesx <b>catx</b> ax"), (False, "dogx <b>thex</b> seesx catx ax")],
)
def test_tags_go_where_their_words_went(
    serve: Serve, turning: type[FakeWorker], *, has_head: bool, expected: str
) -> None:
    client = serve(make_model("m", has_alignments=has_head))
    body = {"q": "a <b>cat</b> sees the dog", "format": "html", **ASK}
    assert client.post("/translate", json=body).json() == {"translatedText": expected}


def test_a_file_of_lines(serve: Serve, turning: type[FakeWorker]) -> None:
    client = serve(make_model("m", has_alignments=True))
    page = b'<html lang="en"><p>a <i>cat</i> sleeps</p>\n<p>b c</p></html>'
    answer = client.post("/translate_file", files={"file": ("a.html", page)}, data=ASK).json()
    found = client.get(answer["translatedFileUrl"].removeprefix("http://localhost")).content
    assert found == b'<html lang="de"><p>sleepsx <i>catx</i> ax</p>\n<p>cx bx</p></html>'


def test_what_is_skipped_is_in_the_answer(serve: Serve, turning: type[FakeWorker]) -> None:
    client = serve(make_model("m"))
    page = b'<p>a b</p>\n<p translate="no">c d</p>'
    answer = client.post("/translate_file", files={"file": ("a.html", page)}, data=ASK).json()
    report = {
        "summary": "1 text translated, 1 skipped: 1 marked translate=no",
        "translated": 1,
        "num_skipped": 1,
        "skipped": [{"text": "c d", "reason": "marked translate=no", "line": 2}],
    }
    assert answer["report"] == report
    body = {"q": page.decode(), "format": "html", **ASK}
    assert client.post("/translate", json=body).json()["report"] == report
    # Long texts are read by a process of their own.
    body["q"] = page.decode() + "<p>e f</p>" * 2_000
    answer = client.post("/translate", json=body).json()["report"]
    assert (answer["translated"], answer["num_skipped"]) == (2_001, 1)


def test_strings_of_programs_are_protected_and_their_warnings_told(
    serve: Serve, workers: type[FakeWorker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: FakeWorker, ask: Request) -> Translation:
        warnings = (LineWarning("lost", f"{ask.text} is lost", 1),) * ask.is_program_string
        return replace(turn_around(ask), warnings=warnings)

    monkeypatch.setattr(FakeWorker, "answer", lose)
    client = serve(make_model("m"))
    for name, content, warnings in (
        ("a.json", b'{"x": 1,\n"open": "a b"}', ["2: open: 'a b': a b is lost"]),
        ("a.html", b"<p>a b</p>", None),
    ):
        answer = client.post("/translate_file", files={"file": (name, content)}, data=ASK).json()
        assert answer["report"].get("warnings") == warnings


def test_alignments_are_asked_of_no_pivot(serve: Serve, turning: type[FakeWorker]) -> None:
    models = [
        make_model("x", "fr", "en", has_alignments=True),
        make_model("y", "en", "de", has_alignments=True),
    ]
    client = serve(*models, pivot="en")
    body = {"q": "<p>a b</p>", "format": "html", "source": "fr", "target": "de"}
    assert client.post("/translate", json=body).json()["translatedText"] == "<p>axx bxx</p>"
    asks = [ask for worker in turning.started for batch in worker.batches for ask in batch]
    assert [ask.settings for ask in asks if ask.settings is not None] == []


@pytest.mark.parametrize("aligns", [True, False])
def test_a_process_leaves_out_what_its_engine_cannot(*, aligns: bool) -> None:
    class Engine:
        settings = Inference()

        def search(self, requests: list[Request], *, warns: bool) -> list[Translation]:
            return [turn_around(request) for request in requests]

        def score(self, requests: list[Request]) -> list[Translation]:
            return []

    engine = Engine()
    engine.aligns = aligns  # type: ignore[attr-defined]
    ask = Request("a b", settings=replace_alignments(engine.settings))
    [answer] = answer_batch(engine, [ask])  # type: ignore[arg-type]
    assert isinstance(answer, Translation)
    assert (answer.candidates[0].alignment is not None) is aligns
    assert replace(answer.candidates[0], alignment=None).text == "bx ax"


def replace_alignments(settings: Inference) -> Inference:
    return settings.model_copy(update={"alignments": True})


@pytest.mark.text_processes
def test_a_file_that_takes_too_much_memory_ends_alone(serve: Serve) -> None:
    client = serve(file_memory_mib=256, max_file_bytes=200_000_000, max_characters=1_000_000_000)
    page = b"<p>a" * 2_000_000
    answer = client.post("/translate_file", files={"file": ("a.html", page)}, data=ASK)
    assert answer.status_code == 400
    assert "too much memory" in answer.json()["error"]
    small = {"file": ("a.txt", b"a b")}
    assert client.post("/translate_file", files=small, data=ASK).status_code == 200


def test_a_file_with_too_much_text(serve: Serve) -> None:
    client = serve(max_characters=10)
    answer = client.post("/translate_file", files={"file": ("a.txt", b"x " * 20)}, data=ASK)
    assert answer.status_code == 400
    assert answer.json()["error"] == "Invalid request: the file exceeds text limit (10)"


def test_long_html_is_read_apart(serve: Serve, turning: type[FakeWorker]) -> None:
    client = serve(make_model("m", has_alignments=True))
    html = "<p>a <b>b</b> c</p>\n" * 1_100
    body = {"q": html, "format": "html", **ASK}
    found = client.post("/translate", json=body).json()["translatedText"]
    assert found == "<p>cx <b>bx</b> ax</p>\n" * 1_100
