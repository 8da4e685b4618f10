"""Answers, errors and statuses as LibreTranslate 1.9.6 gives them (libretranslate/app.py)."""

import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]
HELLO = {"q": "Hello", "source": "en", "target": "de"}


def post(client: TestClient, **changes: Any) -> tuple[int, Any]:
    response = client.post("/translate", json={**HELLO, **changes})
    return response.status_code, response.json()


def test_text_from_json_and_from_a_form(serve: Serve) -> None:
    client = serve()
    assert post(client) == (200, {"translatedText": "m:HELLO"})
    response = client.post("/translate", data=HELLO)
    assert response.json() == {"translatedText": "m:HELLO"}


def test_lines_and_spaces_of_a_text_stay(serve: Serve) -> None:
    assert post(serve(), q=" a\n\n  b ")[1] == {"translatedText": " m:A\n\n  m:B "}


def test_sentences_of_a_line_are_translated_one_by_one(serve: Serve) -> None:
    found = post(serve(), q="A man sleeps. A dog runs!")[1]
    assert found == {"translatedText": "m:A MAN SLEEPS. m:A DOG RUNS!"}


def test_a_list_keeps_its_order(serve: Serve) -> None:
    found = post(serve(), q=["a", "b\nc", ""])[1]
    assert found == {"translatedText": ["m:A", "m:B\nm:C", ""]}


def test_alternatives_are_others_than_the_translation(serve: Serve) -> None:
    found = post(serve(), alternatives=2)[1]
    assert found == {"translatedText": "m:HELLO", "alternatives": ["m:HELLO!", "m:HELLO!!"]}
    listed = post(serve(), q=["a"], alternatives="1")[1]
    assert listed == {"translatedText": ["m:A"], "alternatives": [["m:A!"]]}


def test_a_language_into_itself_and_codes_with_a_country(serve: Serve) -> None:
    assert post(serve(), target="EN")[1] == {"translatedText": "Hello"}
    assert post(serve(), source="en-US", target="de_AT")[1] == {"translatedText": "m:HELLO"}


def test_the_language_is_detected(serve: Serve) -> None:
    pytest.importorskip("py3langid")
    client = serve(make_model("a"), make_model("b", "de", "en"))
    german = "Der alte Mann kauft heute drei rote Äpfel auf dem Markt."
    status, found = post(client, q=german, source="auto", target="en")
    assert status == 200
    assert found["translatedText"] == f"b:{german.upper()}"
    assert found["detectedLanguage"]["language"] == "de"
    assert found["detectedLanguage"]["confidence"] > 90
    detections = client.post("/detect", data={"q": german}).json()
    assert [each["language"] for each in detections] == ["de", "en"]
    listed = post(client, q=[german], source="auto", target="en")[1]
    assert [each["language"] for each in listed["detectedLanguage"]] == ["de"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"source": ""}, "Invalid request: missing source parameter"),
        ({"target": None}, "Invalid request: missing target parameter"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": "many"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": 11}, "Invalid request: alternatives parameter must be <= 10"),
        (
            {"source": "de", "target": "en"},
            "English (en) is not available as a target language from German (de)",
        ),
        ({"q": "x" * 51}, "Invalid request: request (51) exceeds text limit (50)"),
        ({"q": ["x"] * 4}, "Invalid request: request (4) exceeds text limit (3)"),
        (
            {"q": ["Go! No! So!", "Ah! Oh!"]},
            "Invalid request: request (5 sentences) exceeds text limit (4)",
        ),
        ({"q": ["a", 1]}, "Invalid request: q, text 2: Input should be a valid string"),
        ({"q": "FAULT"}, "the prefix is too long"),
    ],
)
def test_faults_of_a_request(serve: Serve, changes: dict[str, Any], message: str) -> None:
    status, found = post(serve(max_characters=50, max_texts=3, max_sentences=4), **changes)
    assert (status, found["error"]) == (400, message)


def test_json_without_its_header_is_told(serve: Serve) -> None:
    # As `curl -d` sends it, and as plain text.
    client, body = serve(), '{"q": "a", "source": "en", "target": "de"}'
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        response = client.post("/translate", content=body, headers={"content-type": kind})
        assert response.status_code == 400
        assert response.json()["error"] == (
            "Invalid request: missing q parameter; "
            "JSON needs the header Content-Type: application/json"
        )
    short = client.post("/translate", data={"q": "a", "source": "en"}).json()
    assert short == {"error": "Invalid request: missing target parameter"}


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b'"x"', b"[" * 100_000, b'{"q": 1e999}', b"\xff", b"1" * 5_000]
)
def test_broken_json(serve: Serve, content: bytes) -> None:
    response = serve().post(
        "/translate", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == 400
    assert isinstance(response.json()["error"], str)


def test_halves_of_characters_are_answered(serve: Serve) -> None:
    content = b'{"q": "a\\ud800b", "source": "en", "target": "de"}'
    response = serve().post(
        "/translate", content=content, headers={"content-type": "application/json"}
    )
    assert response.json() == {"translatedText": "m:A?B"}
    content = content.replace(b'"de"', b'"\\udfff"')
    response = serve().post(
        "/translate", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == 400


def test_a_way_through_a_third_language_is_said(serve: Serve) -> None:
    models = make_model("x", "fr", "en"), make_model("y", "en", "de")
    asked = {"source": "fr", "target": "de"}
    assert post(serve(*models), **asked)[0] == 400
    client = serve(*models, pivot="en")
    assert post(client, **asked)[1] == {"translatedText": "y:X:HELLO", "pivot": "en"}
    targets = {each["code"]: each["targets"] for each in client.get("/languages").json()}
    assert targets == {"de": ["de"], "en": ["de", "en"], "fr": ["de", "en", "fr"]}


def test_languages_settings_health_and_suggestions(serve: Serve) -> None:
    client = serve()
    languages = client.get("/languages").json()
    assert languages == [
        {"code": "de", "name": "German", "targets": ["de"]},
        {"code": "en", "name": "English", "targets": ["de", "en"]},
    ]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 50_000
    assert settings["language"]["target"] == {"code": "de", "name": "German"}
    assert client.get("/health").json() == {"status": "ok"}
    refused = client.post("/suggest", data={"q": "a", "s": "b", "source": "en", "target": "de"})
    assert refused.status_code == 403
    assert refused.json() == {"error": "Suggestions are disabled on this server."}


def test_a_line_that_kills_the_process_harms_no_other(
    serve: Serve, workers: type[FakeWorker]
) -> None:
    client = serve()
    status, found = post(client, q=["a", "KILL", "b"])
    assert (status, found["line"]) == (500, 2)
    assert len(workers.started) > 1
    assert post(client, q="c")[1] == {"translatedText": "m:C"}


@pytest.mark.parametrize("depth", [200, 900])
def test_json_of_many_levels(serve: Serve, depth: int) -> None:
    headers = {"Content-Type": "application/json"}
    content = b'{"q": ' + b"[" * depth + b"]" * depth + b', "source": "en", "target": "de"}'
    assert serve().post("/translate", content=content, headers=headers).status_code == 400


def test_an_archive_that_unpacks_to_too_much(serve: Serve) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 100_000)
    file = {"file": ("a.docx", packed.getvalue())}
    response = serve(max_unpacked_bytes=99_999).post("/translate_file", files=file, data=HELLO)
    assert response.status_code == 413
    assert "unpacks to 100,000 bytes" in response.json()["error"]


def test_a_file_that_no_one_can_translate(serve: Serve) -> None:
    client = serve(max_file_bytes=0)
    response = client.post("/translate_file", files={"file": ("a.txt", b"x")}, data=HELLO)
    assert response.status_code == 403
    client = serve()
    response = client.post("/translate_file", files={"file": ("a.exe", b"x")}, data=HELLO)
    assert response.json() == {"error": "Invalid request: file format not supported"}
    response = client.post("/translate_file", data=HELLO)
    assert response.json() == {"error": "Invalid request: missing file parameter"}
    assert client.get("/download_file/../../etc/passwd").status_code == 404
    assert client.get("/download_file/%2e%2e%2fetc%2fpasswd").status_code == 404
