"""Forms and JSON as LibreTranslate's clients send them (libretranslate/app.py)."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

Serve = Callable[..., TestClient]
PAIR = {"source": "en", "target": "de"}
FORM = "application/x-www-form-urlencoded"


def post_form(client: TestClient, *pairs: tuple[str, str], query: str = "") -> Any:
    content = urlencode([*pairs, *PAIR.items()])
    address = f"/translate?{query}" if query else "/translate"
    return client.post(address, content=content, headers={"Content-Type": FORM}).json()


def test_each_text_of_a_form_is_answered(serve: Serve) -> None:
    found = post_form(serve(), ("q", "a"), ("q", "b"))
    assert found == {"translatedText": ["m:A", "m:B"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n\n", "m:A\n\n"),
        ("a\r\nb", "m:A\nm:B"),
        # Not line ends: NEL, a vertical tab, a line separator, in Python's `splitlines` alone.
        ("a\x85b\x0bc\u2028d", "m:A\x85B\x0bC\u2028D"),
    ],
)
def test_line_ends_of_a_form_stay(serve: Serve, text: str, expected: str) -> None:
    assert post_form(serve(), ("q", text)) == {"translatedText": expected}


def test_parameters_may_be_in_the_address(serve: Serve) -> None:
    # Flask's request.values, in which the address goes first.
    assert post_form(serve(), ("q", "a"), query="alternatives=1") == {
        "translatedText": "m:A",
        "alternatives": ["m:A!"],
    }
    client = serve()
    assert client.post("/translate", params={"q": "a", **PAIR}).json()["translatedText"] == "m:A"
    json = client.post("/translate", params={"q": "b"}, json={"q": "a", **PAIR}).json()
    assert json == {"translatedText": "m:A"}


@pytest.mark.parametrize(
    "changes",
    [
        {"format": ""},
        {"format": None},
        {"alternatives": -1},
        {"alternatives": "-1"},
        {"alternatives": None},
    ],
)
def test_defaults_of_what_is_empty(serve: Serve, changes: dict[str, Any]) -> None:
    client = serve()
    body = {"q": "a", **PAIR, **changes}
    assert client.post("/translate", json=body).json() == {"translatedText": "m:A"}
    form = {key: "" if value is None else value for key, value in body.items()}
    if changes != {"alternatives": None}:
        assert client.post("/translate", data=form).json() == {"translatedText": "m:A"}


@pytest.mark.parametrize("path", ["/translate", "/v1/translate", "/v1/score"])
def test_half_a_character_is_no_json(serve: Serve, path: str) -> None:
    """UTF-8 has no surrogates (RFC 3629, section 3); `json.loads` of bytes lets them through."""
    body = b'{"q": "\xed\xa0\x80", "lines": ["\xed\xa0\x80"], "pairs": [["\xed\xa0\x80", "a"]]}'
    answer = serve().post(path, content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": "Invalid JSON format"})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-le"])
def test_json_in_each_encoding_of_unicode(serve: Serve, encoding: str) -> None:
    body = '{"q": "é \\ud83d", "source": "en", "target": "de"}'.encode(encoding)
    answer = serve().post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.json() == {"translatedText": "m:É ?"}


def test_a_form_is_in_utf_8(serve: Serve) -> None:
    """A form in punycode takes the square of its length to decode."""
    kind = "multipart/form-data; boundary=x; charset=punycode"
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na-b\r\n--x--\r\n'
    answer = serve().post("/translate", content=body, headers={"Content-Type": kind})
    assert answer.json() == {"error": "Invalid request: a form has to be in UTF-8"}


@pytest.mark.parametrize("text", [b"q=%ff man", b"q=\xff man"])
def test_a_form_of_other_bytes_is_refused(serve: Serve, text: bytes) -> None:
    content = text + b"&source=en&target=de"
    answer = serve().post("/translate", content=content, headers={"Content-Type": FORM})
    assert answer.status_code == 400
    assert answer.json() == {"error": "Invalid request: a form has to be in UTF-8"}


def test_a_form_with_many_fields_or_broken_parts(serve: Serve) -> None:
    client = serve()
    many = client.post("/translate", content="a&" * 5_000, headers={"Content-Type": FORM})
    assert many.status_code == 400
    kind = "multipart/form-data; boundary=x"
    broken = client.post("/translate", content=b"--y\r\n", headers={"Content-Type": kind})
    assert broken.status_code == 400
    assert "malformed form" in broken.json()["error"]


def test_long_bodies_are_parsed_elsewhere(serve: Serve) -> None:
    client = serve()
    text = "a" * 40_000
    assert post_form(client, ("q", text)) == {"translatedText": f"m:{text.upper()}"}
    assert client.post("/translate", json={"q": [text], "source": "en"}).json() == {
        "error": "Invalid request: missing target parameter"
    }


def test_pages_of_any_origin_may_call(serve: Serve) -> None:
    """As LibreTranslate answers."""
    head = {"Origin": "https://cms.example.org"}
    answer = serve().post("/translate", json={"q": "a", **PAIR}, headers=head)
    assert answer.headers["access-control-allow-origin"] == "*"
    # What LibreTranslate hasn't is not for pages of strangers.
    for path in ("/v1/models", "/metrics"):
        assert "access-control-allow-origin" not in serve().get(path, headers=head).headers
    closed = serve(cors_origins=()).post("/translate", json={"q": "a", **PAIR}, headers=head)
    assert "access-control-allow-origin" not in closed.headers


def test_lines_count_as_sentences(serve: Serve) -> None:
    answer = serve(max_sentences=100).post("/translate", json={"q": "\n" * 100, **PAIR})
    assert answer.json()["error"] == (
        "Invalid request: request (101 sentences) exceeds text limit (100)"
    )


def test_texts_are_counted_before_anything_is_made_of_them(serve: Serve) -> None:
    client = serve(max_texts=10)
    for path, body in (
        ("/translate", {"q": [""] * 11, **PAIR}),
        ("/v1/translate", {"lines": [{"text": ""}] * 11}),
        ("/v1/score", {"pairs": [5] * 11}),
    ):
        assert client.post(path, json=body).json()["error"] == (
            "Invalid request: request (11) exceeds text limit (10)"
        )


def test_a_type_in_capitals_is_json(serve: Serve) -> None:
    body = b'{"q": "a", "source": "en", "target": "de"}'
    answer = serve().post("/translate", content=body, headers={"Content-Type": "APPLICATION/JSON"})
    assert answer.json() == {"translatedText": "m:A"}


def test_a_long_answer_comes_whole(serve: Serve) -> None:
    # Six characters each in JSON, and in a form three of a byte.
    text = "\x01" * 49_000
    content = urlencode([*[("q", text)] * 20, ("source", "en"), ("target", "en")])
    answer = serve().post("/translate", content=content, headers={"Content-Type": FORM})
    assert len(answer.content) > 5_000_000
    assert answer.json() == {"translatedText": [text] * 20}
