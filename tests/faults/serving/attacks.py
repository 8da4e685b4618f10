"""Attacks on a running server: what a stranger sends to stop it, or to hold others up.

A new attack is one more entry of `list_attacks`; `test_attacks.py` and the soak test run them all.
"""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

_JSON = "application/json"
_BOUNDARY = "attack"
_FORM = f"multipart/form-data; boundary={_BOUNDARY}"
_PAIR = {"source": "en", "target": "de"}


@dataclass(frozen=True)
class Attack:
    """What strangers send at the same time.

    Attributes:
        name: What it is.
        requests: Whole requests, or beginnings of some.
        stalls: Whether they are held open, not ended.
        has_key: Whether the attacker has a key where the server asks for one.
        repeats: How often they are sent, one after the other.
    """

    name: str
    requests: Callable[[str], list[bytes]]
    stalls: bool = False
    has_key: bool = True
    repeats: int = 1


def post(path: str, body: bytes, kind: str = _JSON, key: str = "", more: int = 0) -> bytes:
    """Returns a request.

    Args:
        path: Where it goes.
        body: Its body, or the beginning.
        kind: The body's type.
        key: A key, shown in its head; none if empty.
        more: Bytes of the body that are announced and never come.
    """
    shown = f"Authorization: Bearer {key}\r\n" if key else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{shown}"
        f"Content-Length: {len(body) + more}\r\nConnection: close\r\n\r\n"
    ).encode() + body


def _json(path: str, **content: Any) -> Callable[[str], list[bytes]]:
    return lambda key: [post(path, json.dumps(content).encode(), key=key)]


def _text(q: Any, **more: Any) -> Callable[[str], list[bytes]]:
    return _json("/translate", q=q, **_PAIR, **more)


def _raw(path: str, body: bytes, kind: str = _JSON) -> Callable[[str], list[bytes]]:
    return lambda key: [post(path, body, kind, key)]


def _times(number: int, make: Callable[[str], list[bytes]]) -> Callable[[str], list[bytes]]:
    return lambda key: make(key) * number


def form(parts: list[tuple[str, bytes]]) -> bytes:
    """Returns a form of parts, each with what stands behind `form-data; `."""
    pieces = [
        f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + body + b"\r\n"
        for head, body in parts
    ]
    return b"".join(pieces) + f"--{_BOUNDARY}--\r\n".encode()


def upload(name: str, content: bytes, source: str = "en") -> bytes:
    """Returns a form with a file to translate."""
    return form(
        [
            ('name="source"', source.encode()),
            ('name="target"', b"de"),
            (f'name="file"; filename="{name}"', content),
        ]
    )


def _file(name: str, content: bytes, source: str = "en") -> Callable[[str], list[bytes]]:
    return _raw("/translate_file", upload(name, content, source), _FORM)


def _bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * 60_000_000)
    return packed.getvalue()


_TERMS = [{"source": "a", "target": f"b{number}", "forbidden": True} for number in range(1_000)]


LONG = {
    "four megabytes of objects",
    "four megabytes of objects, with a key",
    "four megabytes of escapes",
    "a form of a thousand parts",
    "lines in many texts",
    "many lines",
    "many sentences",
    "YAML of aliases",
    "YAML of open brackets",
    "a deep page",
    "a page of entities",
    "an archive that unpacks to too much",
    "deep JSON",
    "numbers without an end",
    "a word without an end",
    "marks without an end",
    "marks of every kind",
    "combining marks",
    "prefixes",
    "paragraphs",
}
"""Names of attacks that take more than a few seconds, or are much like others."""


@cache
def list_attacks() -> list[Attack]:
    """Returns all attacks."""
    half = b'{"lines": ["\xed\xa0\x80"], "source": "en", "target": "de"}'
    half_pair = b'{"pairs": [["\xed\xa0\x80", "a"]]}'
    return [
        Attack("a comment that isn't one", _text("<p>--" + "a=-b=-" * 12, format="html")),
        Attack("half a character", _raw("/v1/translate", half), repeats=2),
        Attack("half a character to score", _raw("/v1/score", half_pair), repeats=2),
        Attack(
            "a thousand forbidden words",
            _times(2, _json("/v1/translate", lines=["a " * 7_000], glossary=_TERMS)),
        ),
        Attack(
            "a form in punycode",
            _raw(
                "/translate",
                form([('name="q"', b"a" * 900_000 + b"-" + b"b" * 90_000)]),
                f"{_FORM}; charset=punycode",
            ),
            has_key=False,
        ),
        Attack(
            "four megabytes of JSON",
            _times(8, _raw("/translate", b'{"q": [%s"a"]}' % (b'"a",' * 999_000))),
            has_key=False,
        ),
        Attack(
            "four megabytes of objects",
            _times(4, _raw("/v1/translate", b'{"lines": [%s{}]}' % (b"{}," * 1_300_000))),
            has_key=False,
        ),
        Attack(
            "four megabytes of objects, with a key",
            _times(4, _raw("/v1/translate", b'{"lines": [%s{}]}' % (b"{}," * 1_300_000))),
        ),
        Attack(
            "four megabytes of escapes",
            _times(
                4,
                _raw("/translate", b"q=" + b"%41" * 1_300_000, "application/x-www-form-urlencoded"),
            ),
            has_key=False,
        ),
        Attack(
            "uploads that stall",
            lambda key: [post("/translate_file", b"x" * 15_000_000, _FORM, key, 4_000_000)] * 25,
            stalls=True,
            has_key=False,
        ),
        Attack(
            "an upload of line ends",
            _times(2, _file("a.txt", b"\r\n--" * 4_000_000)),
            has_key=False,
        ),
        Attack(
            "a form of a thousand parts",
            _raw("/translate", form([('name="a"', b"")] * 50_000), _FORM),
        ),
        Attack("400,000 lines", _text("\n" * 400_000)),
        Attack("lines in many texts", _text(["\n" * 49_000] * 80)),
        Attack("many lines", _text(["a\n" * 24_000] * 2)),
        Attack("many sentences", _text(["A. " * 16_000] * 4)),
        Attack(
            "YAML of open brackets",
            _times(2, _file("a.yaml", b"- " + b"[" * 40_000)),
        ),
        Attack("YAML of aliases", _times(2, _file("a.yaml", b"a: &a [b]\n" + b"c: *a\n" * 6_000))),
        Attack(
            "many short pages",
            _times(
                40,
                _json(
                    "/translate",
                    q="<p>a <b>c</b></p>" * 40,
                    format="html",
                    source="auto",
                    target="de",
                ),
            ),
        ),
        Attack("a deep page", _times(4, _text("<b>" * 6_000, format="html"))),
        Attack("a page of entities", _text("&lt" * 15_000, format="html")),
        Attack("an archive that unpacks to too much", _file("a.docx", _bomb())),
        Attack(
            "languages to detect",
            _times(60, _json("/detect", q="ä " * 25_000)),
        ),
        Attack(
            "a third of a million lines",
            _times(4, _raw("/v1/translate", b'{"lines": [%s""]}' % (b'{"text":""},' * 330_000))),
        ),
        Attack(
            "a third of a million pairs",
            _raw("/v1/score", b'{"pairs": [%s["a","b"]]}' % (b'["ab","cd"],' * 330_000)),
        ),
        Attack(
            "different texts",
            _raw(
                "/translate",
                b'{"q": [%s""]}' % b"".join(b'"%06x",' % number for number in range(400_000)),
            ),
            has_key=False,
        ),
        Attack(
            "texts that stay",
            _json("/translate", q=["a" * 49_000] * 79, source="en", target="en"),
        ),
        Attack(
            "answers that grow",
            _times(
                4,
                _raw(
                    "/translate",
                    b"source=en&target=en" + (b"&q=" + b"\x01" * 49_000) * 79,
                    "application/x-www-form-urlencoded",
                ),
            ),
        ),
        Attack(
            "lines that stay",
            _json(
                "/v1/translate",
                lines=["Der alte Mann kauft heute drei rote Äpfel auf dem Markt. " * 60] * 1_000,
                source="auto",
            ),
        ),
        Attack("deep JSON", _raw("/translate", b"[" * 2_000_000), has_key=False),
        Attack("numbers without an end", _raw("/translate", b'{"q": ' + b"1" * 3_000_000 + b"}")),
        Attack("a word without an end", _text("a" * 50_000)),
        Attack("marks without an end", _text("." * 50_000)),
        Attack("marks of every kind", _text("¿¡«»“”…!?" * 5_000)),
        Attack("combining marks", _text("a" + "\u0301" * 49_000)),
        Attack(
            "prefixes",
            _json("/v1/translate", lines=[{"text": "a b c", "prefix": "x " * 20_000}] * 20),
        ),
        Attack(
            "a thousand lines with twenty translations each",
            _json(
                "/v1/translate",
                lines=["A man."] * 1_000,
                settings={"beam_size": 20, "n_best": 20},
            ),
        ),
        Attack(
            "paragraphs",
            _json("/v1/translate", lines=["A. " * 16_000] * 2, settings={"paragraphs": True}),
        ),
    ]
