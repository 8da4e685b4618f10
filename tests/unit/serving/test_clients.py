"""Programs that speak LibreTranslate's API: what they send, and what they read of the answers.

After weblate/machinery/libretranslate.py with base.py (WeblateOrg/weblate 1911786),
app/lib/translation_service/libre_translate.rb (mastodon/mastodon bcba029), and the requests of
LibreTranslate's README and pages (LibreTranslate 1.9).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mtkit.serving.keys import add_key

from .conftest import make_model

Serve = Callable[..., TestClient]
WEBLATE = {"Referer": "https://weblate.example.org/", "Accept": "application/json; charset=utf-8"}


def ask_as_weblate(client: TestClient, texts: list[str], *pair: str, key: str = "") -> Any:
    body = {"api_key": key, "q": texts, "source": pair[0], "target": pair[1]}
    return client.post("/translate", json=body, headers=WEBLATE)


def test_weblate_checks_its_settings_and_translates_strings(serve: Serve) -> None:
    client = serve()
    listed = client.get("/languages", headers=WEBLATE)
    assert {"en", "de"} <= {each["code"] for each in listed.json()}
    # An empty key is sent where none was entered; so many texts come at once.
    assert ask_as_weblate(client, ["test"], "en", "de").json()["translatedText"] == ["m:TEST"]
    texts = [f"Save [X0X] of {number} files\n" for number in range(20)]
    found = ask_as_weblate(client, texts, "en", "de").json()["translatedText"]
    assert found == [f"m:{text.strip().upper()}\n" for text in texts]


def test_weblate_reads_the_words_of_an_error(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    key = add_key(file, "weblate")
    client = serve(keys=file)
    assert ask_as_weblate(client, ["test"], "en", "de", key=key).status_code == 200
    refused = ask_as_weblate(client, ["test"], "en", "de", key="wrong")
    # 403 makes it wait before it asks again; it shows the error's text.
    assert refused.status_code == 403
    assert refused.json()["error"] == "Invalid API key"


class Mastodon:
    """Asks and reads as Mastodon does.

    Args:
        client: The server.
        key: The instance's key; null where there is none.
    """

    def __init__(self, client: TestClient, key: str | None = None) -> None:
        self._client, self._key = client, key

    def translate(self, texts: list[str], source: str | None, target: str) -> list[tuple[str, str]]:
        body = {"q": texts, "source": source or "auto", "target": target, "format": "html"}
        answer = self._client.post(
            "/translate",
            content=json.dumps({**body, "api_key": self._key}),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in range(200, 300), answer.text
        found = answer.json()
        detected = found.get("detectedLanguage")
        return [
            (text, detected[index]["language"] if detected else str(source))
            for index, text in enumerate(found["translatedText"])
        ]

    def list_languages(self) -> dict[str, list[str]]:
        headers = {"Content-Type": "application/json"}
        listed = self._client.get("/languages", headers=headers).json()
        return {
            each["code"]: [code for code in each["targets"] if code != each["code"]]
            for each in listed
        }


def test_mastodon_translates_a_post(serve: Serve) -> None:
    mastodon = Mastodon(serve(make_model("m", "de", "en")))
    assert mastodon.list_languages() == {"de": ["en"], "en": []}
    post = (
        '<p>Hallo <span class="h-card" translate="no"><a href="https://a.example/@b">@b</a></span>'
        "<br />wie geht es?</p>"
    )
    # A poll's options and descriptions of pictures come along.
    found = mastodon.translate([post, "Ja &amp; nein", ""], "de", "en")
    assert [language for _, language in found] == ["de"] * 3
    text, option, empty = (each[0] for each in found)
    assert '<a href="https://a.example/@b">@b</a>' in text
    assert text.startswith("<p>")
    assert text.endswith("</p>")
    assert "<br />" in text
    assert "WIE GEHT ES?" in text
    assert (option, empty) == ("m:JA &amp; NEIN", "")


def test_mastodon_leaves_the_language_to_the_server(serve: Serve) -> None:
    pytest.importorskip("py3langid")
    mastodon = Mastodon(serve(make_model("m", "de", "en"), make_model("n", "fr", "en")))
    german = "<p>Der alte Mann kauft heute drei rote Äpfel auf dem Markt.</p>"
    found = mastodon.translate([german, "Markt"], None, "en")
    assert [language for _, language in found] == ["de", "de"]


def test_mastodon_tells_too_many_requests_from_other_faults(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    key = add_key(file, "mastodon")
    client = serve(keys=file, requests_per_minute=1)
    mastodon = Mastodon(client, key)
    mastodon.translate(["a"], "en", "de")
    body = {"q": ["a"], "source": "en", "target": "de", "format": "html", "api_key": key}
    assert client.post("/translate", json=body).status_code == 429


def test_requests_of_libretranslates_documentation(serve: Serve) -> None:
    pytest.importorskip("py3langid")
    client = serve(make_model("m", "en", "es"), make_model("n", "en", "de"))

    def fetch(path: str, **body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        answer = client.post(path, content=json.dumps(body), headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    plain = fetch("/translate", q="Hello!", source="en", target="es")
    assert plain == {"translatedText": "m:HELLO!"}
    html = '<p class="green">Hello!</p>'
    marked = fetch("/translate", q=html, source="en", target="es", format="html")
    assert marked == {"translatedText": '<p class="green">m:HELLO!</p>'}
    more = {"format": "text", "alternatives": 3, "api_key": ""}
    several = fetch("/translate", q="Hello", source="auto", target="es", **more)
    assert several["translatedText"] == "m:HELLO"
    assert len(several["alternatives"]) == 3
    assert set(several["detectedLanguage"]) == {"confidence", "language"}
    detected = fetch("/detect", q="Bonjour!")
    assert set(detected[0]) == {"confidence", "language"}
    file = {"file": ("document.txt", b"Hello!\n")}
    data = {"source": "en", "target": "es", "api_key": ""}
    address = client.post("/translate_file", files=file, data=data).json()["translatedFileUrl"]
    assert address.endswith("document_es.txt")
    assert client.get(address.removeprefix("http://localhost")).content == b"m:HELLO!\n"
