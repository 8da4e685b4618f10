"""What mtkit does as a client where a server, or what stands before it, answers something else."""

import json
import signal
import threading
from typing import Any

import pytest

from mtkit import RemoteTranslator, Request
from mtkit.errors import MtkitError
from mtkit.inference.request import LineError
from mtkit.inference.translation import Hypothesis, Translation
from mtkit.pipeline.translate import open_remote
from mtkit.recipe.inference import Inference
from mtkit.serving import client

from ..llm.chat_server import Reply, serve_chat

GATEWAY = 502, {"Content-Type": "text/html"}, b"<h1>Bad Gateway</h1>"
DEEP = b'{"translations": ' + b"[" * 100_000


def translate(body: dict[str, Any], number: int = 0) -> Reply:
    """Answers as mtkit does: each line's translation is itself in capitals."""
    found = []
    for line in body["lines"]:
        hypothesis = Hypothesis((), 0.0, 0.0, is_finished=True, text=line["text"].upper())
        found.append(Translation((hypothesis,)).as_json(line["text"]))
    return 200, {}, json.dumps({"translations": found}).encode()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.01)


@pytest.mark.parametrize(
    "fault", [GATEWAY, (429, {}, b'{"error": "Slowdown"}'), (503, {"Retry-After": "x"}, b"")]
)
def test_a_busy_server_is_asked_again(fault: Reply) -> None:
    lines = [str(number) for number in range(300)]
    with serve_chat(lambda body, number: translate(body) if number > 1 else fault) as (address, _):
        assert RemoteTranslator(address).translate(lines) == lines


def test_it_ends_once_no_line_is_answered() -> None:
    with serve_chat(lambda *_: GATEWAY) as (address, bodies):
        with pytest.raises(MtkitError, match="status 502: <h1>Bad Gateway</h1>"):
            RemoteTranslator(address).translate("a")
        assert len(bodies) == 6
    with serve_chat(lambda *_: (429, {"Retry-After": "86400"}, b"{}")) as (address, bodies):
        with pytest.raises(MtkitError, match="status 429"):
            RemoteTranslator(address).translate("a")
        assert len(bodies) == 1


def test_a_lost_connection_is_only_a_pause_after_an_answer(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        if number == 0 and body["lines"][0]["text"] != "a":
            raise ConnectionResetError
        return translate(body)

    with serve_chat(reply) as (address, _):
        translator = RemoteTranslator(address)
        with pytest.raises(MtkitError) as raised:
            translator.translate("b")
        assert raised.value.hint == "is the server running? mtkit serve"
        assert translator.translate("a") == "A"
        assert translator.translate("c") == "C"
    # The stub's own.
    capfd.readouterr()


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        ((200, {}, DEEP), "isn't a server of mtkit", "check the address"),
        ((200, {}, b"<html>log in</html>"), "isn't a server of mtkit", "check the address"),
        ((301, {"Location": "https://x.org/"}, b""), "301: https://x.org/", "check the address"),
        ((404, {}, b"<html>\n no"), "status 404: <html> no", "check the address"),
        ((401, {}, b"who?"), "status 401: who?", "MTKIT_API_KEY"),
        ((400, {}, b'{"error": "a\\n\\u001b[31mred"}'), "a [31mred", ""),
        ((400, {}, b'{"error": ["a"], "line": true}'), "status 400: ", ""),
        ((400, {}, b'{"error": "missing target parameter"}'), "missing target", "--to CODE"),
    ],
)
def test_other_answers_are_told(answer: Reply, message: str, hint: str) -> None:
    with serve_chat(lambda *_: answer) as (address, _), pytest.raises(MtkitError) as raised:
        RemoteTranslator(address).translate("a")
    assert message in raised.value.message
    assert hint in (raised.value.hint or "")
    assert not isinstance(raised.value, LineError)


@pytest.mark.parametrize("key", ["12\n34", "12é34", "12\x0034"])
def test_a_key_that_no_header_holds_is_not_shown(key: str) -> None:
    with pytest.raises(MtkitError) as raised:
        RemoteTranslator("http://127.0.0.1:1", key=key)
    assert "12" not in str(raised.value)


def test_only_what_was_asked_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTKIT_API_KEY", "key\n")
    with serve_chat(translate) as (address, bodies):
        open_remote(address).translate("a")
        open_remote(address, ["inference.n_best=2"]).translate("b")
        asked = Request("c", settings=Inference(beam_size=4))
        open_remote(address, source_language="en").search([asked])
    assert [{**body, "lines": 0} for body in bodies] == [
        {"lines": 0, "settings": {}},
        {"lines": 0, "settings": {"n_best": 2}},
        {"lines": 0, "settings": {"beam_size": 4}, "source": "en"},
    ]


def test_ctrl_c_waits_for_no_request() -> None:
    asked, end = threading.Event(), threading.Event()

    def reply(body: dict[str, Any], number: int) -> Reply:
        asked.set()
        end.wait(60)
        return translate(body)

    def interrupt() -> None:
        asked.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with serve_chat(reply) as (address, _):
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            RemoteTranslator(address).translate(["a"] * 1_000)
        assert not end.is_set()
        end.set()
