"""The language of files, pages and texts: of what people read in them."""

import io
import zipfile
from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from .conftest import FakeWorker, make_model

pytest.importorskip("py3langid")
Serve = Callable[..., TestClient]
GERMAN = "Der alte Mann kauft heute drei rote Äpfel auf dem Markt."
ENGLISH = "The old man buys three red apples at the market today."


def make_docx(text: str) -> bytes:
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{namespace}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p>'
            "</w:body></w:document>",
        )
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", make_docx(GERMAN)),
        ("a.html", f"<html><body class='the way of the world'><p>{GERMAN}</p></body></html>"),
        ("a.txt", GERMAN),
    ],
)
def test_a_files_language_is_that_of_its_text(
    serve: Serve, workers: type[FakeWorker], name: str, content: str | bytes
) -> None:
    client = serve(make_model("x", "en", "fr"), make_model("y", "de", "fr"))
    content = content.encode() if isinstance(content, str) else content
    form = {"source": "auto", "target": "fr"}
    answer = client.post("/translate_file", files={"file": (name, content)}, data=form)
    assert answer.status_code == 200, answer.text
    assert [worker.source.folder.name for worker in workers.started] == ["y"]


def test_tags_say_nothing_of_a_pages_language(serve: Serve) -> None:
    client = serve(make_model("x", "en", "fr"), make_model("y", "de", "fr"))
    page = f"<div class='the house of the rising sun'>{GERMAN}</div>"
    body = {"q": page, "format": "html", "source": "auto", "target": "fr"}
    found = client.post("/translate", json=body).json()
    assert found["detectedLanguage"]["language"] == "de"
    assert "y:" in found["translatedText"]


def test_text_that_is_in_the_language_asked_for_stays(serve: Serve) -> None:
    client = serve(make_model("m"))
    body = {"q": GERMAN, "source": "auto", "target": "de"}
    found = client.post("/translate", json=body).json()
    assert found["translatedText"] == GERMAN
    assert found["detectedLanguage"]["language"] == "de"
    body["q"] = ENGLISH
    assert client.post("/translate", json=body).json()["translatedText"] == f"m:{ENGLISH.upper()}"
    # What may be in either is translated.
    body["q"] = "Hotel"
    assert client.post("/translate", json=body).json()["translatedText"] == "m:HOTEL"


def test_lines_that_are_in_the_language_asked_for_stay(serve: Serve) -> None:
    client = serve(make_model("m"))
    found = client.post("/v1/translate", json={"lines": [GERMAN], "source": "auto"}).json()
    assert [each["text"] for each in found["translations"]] == [GERMAN]
    assert found["detected"]["language"] == "de"
    assert found["model"] == "m"
    # Who names no language has the model's.
    plain = client.post("/v1/translate", json={"lines": [GERMAN]}).json()
    assert [each["text"] for each in plain["translations"]] == [f"m:{GERMAN.upper()}"]
    assert "detected" not in plain
