"""The page for people in a real browser, driven through Chromium's debugging pipe."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mtkit.serving.app import make_app, make_context
from mtkit.serving.model_service import ServedModel
from mtkit.serving.settings import Serving

from ..llm.chat_server import Reply, answer, serve_chat
from .conftest import FakeWorker, make_model

_BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
_SECONDS = 120


class Browser:
    """A headless browser with one page.

    Args:
        program: The browser.
        folder: Its profile's, which is written.
    """

    def __init__(self, program: str, folder: Path) -> None:
        theirs_in, self._commands = os.pipe()
        answers, theirs_out = os.pipe()
        options = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={folder / 'profile'}",
            "--remote-debugging-pipe",
            "--window-size=1000,900",
        ]
        # The browser reads its file 3 and writes its file 4.
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, program, *options],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._answers = os.fdopen(answers, "rb")
        self._numbers = itertools.count(1)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("DOM.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Returns what the browser answers; events between are left out."""
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": number, "method": method, "params": parameters, **session}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            text = b"".join(iter(lambda: self._answers.read(1), b"\0"))
            answer = json.loads(text)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def run(self, script: str) -> Any:
        """Returns a script's value."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, script: str, wanted: Any) -> None:
        """Waits until a script has a value."""
        ends_at = time.monotonic() + _SECONDS
        while (found := self.run(script)) != wanted:
            assert time.monotonic() < ends_at, f"{script}: {found!r}, expected {wanted!r}"
            time.sleep(0.05)

    def choose_file(self, selector: str, path: Path) -> None:
        """Puts a file into a form's field."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def photograph(self, path: Path) -> None:
        """Writes a picture of the page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Ends the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        self._answers.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    if _BROWSER is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    opened = Browser(_BROWSER, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def address(workers: type[FakeWorker]) -> Iterator[str]:
    """Where a server listens that translates both ways."""
    with serve_models(make_model("there"), make_model("back", "de", "en")) as where:
        yield where


@contextmanager
def serve_models(*models: ServedModel) -> Iterator[str]:
    settings = Serving(log="none", load="first-use")
    config = uvicorn.Config(
        lambda: make_app(make_context(models, settings)),
        factory=True,
        port=0,
        ws="none",
        log_config=None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def type_text(text: str) -> str:
    """Returns a script that types an English text."""
    return (
        f"for (const [id, value] of [['source', 'en'], ['text', {json.dumps(text)}]]) {{"
        " document.getElementById(id).value = value;"
        " for (const kind of ['change', 'input'])"
        "  document.getElementById(id).dispatchEvent(new Event(kind)); }"
    )


TRANSLATION = "document.getElementById('translation').textContent"


@pytest.mark.slow
def test_people_translate_swap_and_send_a_file(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    browser.call("Page.navigate", url=address)
    browser.wait_for("document.querySelectorAll('#source option').length", 3)
    names = "[...document.querySelectorAll('#source option')].map((each) => each.textContent)"
    assert browser.run(names) == ["Detect", "German", "English"]

    browser.run(type_text("A <b>book</b>."))
    browser.wait_for(TRANSLATION, "there:A <B>BOOK</B>.")
    # Text, never markup.
    assert browser.run("document.querySelectorAll('#translation b').length") == 0

    browser.run("document.getElementById('swap').click()")
    browser.wait_for(TRANSLATION, "back:THERE:A <B>BOOK</B>.")
    assert browser.run("document.getElementById('source').value") == "de"
    assert browser.run("document.getElementById('target').value") == "en"

    file = tmp_path / "letter.txt"
    file.write_text("Ein Brief.\n", "utf-8")
    assert browser.run("document.getElementById('upload').disabled")
    browser.choose_file("#file", file)
    browser.wait_for("document.getElementById('upload').disabled", wanted=False)
    browser.run("document.getElementById('upload').click()")
    browser.wait_for("document.querySelectorAll('#file-state a').length", 1)
    browser.run(
        "fetch(document.querySelector('#file-state a').href).then((found) => found.text())"
        ".then((text) => { document.body.dataset.found = text; })"
    )
    browser.wait_for("document.body.dataset.found", "back:EIN BRIEF.\n")
    assert browser.run("document.querySelector('#file-state a').href").endswith("letter_en.txt")
    assert browser.run("document.getElementById('error').hidden")
    browser.photograph(tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_server_that_is_gone_and_comes_back(browser: Browser, address: str) -> None:
    browser.call("Page.navigate", url=address)
    browser.wait_for("document.querySelectorAll('#source option').length", 3)
    browser.run(type_text("\u0643\u062a\u0627\u0628"))
    browser.wait_for(TRANSLATION, "there:\u0643\u062a\u0627\u0628")
    output = "document.getElementById('translation')"
    assert browser.run(f"[{output}.lang, getComputedStyle({output}).direction]") == ["de", "ltr"]
    assert browser.run("getComputedStyle(document.getElementById('text')).direction") == "rtl"

    browser.run("window.kept = fetch; fetch = () => Promise.reject(new TypeError('no network'))")
    browser.run(type_text("Goodbye."))
    told = "document.getElementById('error').textContent"
    browser.wait_for(told, "The server can't be reached; try again.")
    # An older translation would be taken for this text's.
    assert browser.run(TRANSLATION) == ""
    assert browser.run("document.getElementById('copy').disabled")

    # The page was opened while the server was away.
    browser.run("languages = []; start()")
    browser.run("fetch = window.kept")
    browser.run(type_text("Hello."))
    browser.wait_for(TRANSLATION, "there:HELLO.")
    assert browser.run("document.getElementById('error').hidden")


@pytest.mark.slow
def test_lines_that_are_not_released_are_told(browser: Browser, address: str) -> None:
    browser.call("Page.navigate", url=address)
    browser.wait_for("document.querySelectorAll('#source option').length", 3)
    browser.run(type_text("SURE\nUNSURE"))
    browser.wait_for(TRANSLATION, "there:SURE\nthere:UNSURE")
    told = "[...document.querySelectorAll('#flags li')].map((each) => each.textContent)"
    assert browser.run(told) == ["there:UNSURE – not released: quality 0.25"]


@pytest.mark.slow
def test_a_large_language_model_answers_people(browser: Browser, tmp_path: Path) -> None:
    """Its own process asks an API, which answers with markup and a script."""
    hostile = "<img src=x onerror='document.body.dataset.hit = 1'><script>alert(1)</script>"

    def reply(body: dict[str, Any], _: int) -> Reply:
        return answer(f"{body['messages'][-1]['content'].splitlines()[-1].upper()} {hostile}")

    with serve_chat(reply) as (api, asked):
        file = tmp_path / "chat.toml"
        file.write_text(
            f'url = "{api}"\nmodel = "m"\nserve = true\nreject = []\n'
            'source_languages = ["en"]\ntarget_languages = ["de"]\n',
            "utf-8",
        )
        with serve_models(ServedModel.open("chat", file, "cpu")) as address:
            browser.call("Page.navigate", url=address)
            browser.wait_for("document.querySelectorAll('#source option').length", 2)
            browser.run(type_text("A book."))
            browser.wait_for(TRANSLATION, f"A BOOK. {hostile}")
            browser.run(type_text("A book.\n\nTwo books."))
            browser.wait_for(TRANSLATION, f"A BOOK. {hostile}\n\nTWO BOOKS. {hostile}")
            assert browser.run("document.querySelectorAll('#translation img').length") == 0
            assert browser.run("document.body.dataset.hit") is None
            assert browser.run("document.getElementById('error').hidden")
    assert len(asked) == 2
