"""A translator that calls a server of `mtkit serve`."""

import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from mtkit.api_requests import check_key, quote_server, run_in_threads
from mtkit.errors import MtkitError
from mtkit.http_file import read_retry_after
from mtkit.inference.request import LineError, Request
from mtkit.inference.translation import FinishTranslations, Translation, read_translation
from mtkit.inference.translator import Translator
from mtkit.programs import import_extra
from mtkit.recipe.inference import Inference
from mtkit.remote_files import mask_secrets
from mtkit.text.glossary import Term
from mtkit.text.languages import TranslatorLanguages

_LINES_AT_ONCE = 128
"""Lines per request."""
_REQUESTS_AT_ONCE = 4
"""Parallel requests, so that the server always has lines."""
_ATTEMPTS = 6
"""Maximum attempts of a request while the server is too busy and answers no other one."""
_FIRST_PAUSE_SECONDS = 1.0
"""The pause after the first failure, without `Retry-After`; it then doubles."""
_MAX_WAIT_SECONDS = 600.0
_TRANSIENT = (408, 425, 429, 502, 503)
"""Statuses of a server or gateway that is too busy, or starts again."""


class RemoteTranslator(Translator):
    """A `Translator` that uses a server of `mtkit serve`.

        translator = RemoteTranslator("http://127.0.0.1:5000")
        translator.translate("The man sleeps.")

    Requests' own settings may change `beam_size` and `n_best`; what isn't given is the model's.
    Their glossaries have at most 1,000 terms.

    Args:
        address: The server's, `http://` or `https://`.
        key: A key, if the server needs one.
        source: Code of the lines' language; by default the model's only one, or else the server
            detects it for up to 128 lines at once.
        target: Code of the target language; by default the model's only one.
        model: Name of the model; by default any that translates these languages.
        settings: Search settings; the model's own if None.

    Raises:
        MtkitError: The address is invalid, or the package httpx2 isn't installed.
    """

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        source: str | None = None,
        target: str | None = None,
        model: str | None = None,
        settings: Inference | None = None,
    ) -> None:
        parameters = {"source": source, "target": target, "model": model}
        super().__init__(_RemoteLines(address, key, parameters, settings))


class _RemoteLines:
    """Translates lines with requests to a server; `languages` are those of the requests."""

    aligns = False
    batches_at_once = 1
    summary = ""

    def __init__(
        self,
        address: str,
        key: str | None,
        parameters: Mapping[str, str | None],
        settings: Inference | None,
    ) -> None:
        fault = "a remote translator needs the package httpx2"
        httpx2 = import_extra("httpx2", fault, "serve")
        pair = (parameters["source"] or "", parameters["target"] or "")
        self.languages = TranslatorLanguages(pair[:1], pair[1:], pair)
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise MtkitError(f"{mask_secrets(address)}: not a URL", "expected http://HOST:PORT")
        self._address = mask_secrets(address).rstrip("/")
        self._httpx = httpx2
        key = check_key(key or "", "the server's key (MTKIT_API_KEY)")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(base_url=address.rstrip("/"), headers=headers, timeout=300.0)
        # Its connections close with this.
        weakref.finalize(self, self._client.close)
        self._asked = {name: value for name, value in parameters.items() if value is not None}
        self._resumes_at = self._answered_at = 0.0
        self._own = settings
        self.settings = settings if settings is not None else Inference()

    def search_ahead(
        self, requests: Sequence[Request], *, first_line: int = 1
    ) -> FinishTranslations:
        found = self._post_in_batches("/v1/translate", requests, first_line)
        return lambda: found

    def score(self, requests: Sequence[Request], *, first_line: int = 1) -> list[Translation]:
        return self._post_in_batches("/v1/score", requests, first_line)

    def _post_in_batches(
        self, path: str, lines: Sequence[Request], first_line: int
    ) -> list[Translation]:
        parts = _cut(lines)
        starts = [first_line + sum(map(len, parts[:index])) for index in range(len(parts))]
        found: list[list[Translation]] = [[] for _ in parts]

        def work(index: int, stop: threading.Event) -> None:
            found[index] = self._post_batch(path, parts[index], starts[index], stop)

        run_in_threads(work, range(len(parts)), _REQUESTS_AT_ONCE)
        return [translation for part in found for translation in part]

    def _post_batch(
        self, path: str, lines: Sequence[Request], first_line: int, stop: threading.Event
    ) -> list[Translation]:
        parameters = self._choose_asked(lines[0])
        if path == "/v1/score":
            body: dict[str, object] = {
                "pairs": [(line.text, line.prefix) for line in lines],
                **parameters,
            }
        else:
            body = {
                "lines": [
                    {"text": line.text.rstrip("\r\n"), "prefix": line.prefix} for line in lines
                ],
                "settings": self._choose_settings(lines[0]),
                **parameters,
            }
            if lines[0].glossary:
                body["glossary"] = [_write_term(term) for term in lines[0].glossary]
        content = self._post(path, body, range(first_line, first_line + len(lines)), stop)
        try:
            translations = [
                read_translation(each, first_line + index)
                for index, each in enumerate(content["translations"])
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._not_a_server() from error
        if len(translations) != len(lines):
            raise self._not_a_server()
        return translations

    def _choose_asked(self, request: Request) -> dict[str, str]:
        """Returns the requested model and languages."""
        own = {"source": request.source_language, "target": request.target_language}
        return self._asked | {name: code for name, code in own.items() if code}

    def _choose_settings(self, request: Request) -> dict[str, object]:
        settings = request.settings or self._own
        if request.sentence is not None:
            paragraphs: dict[str, object] = {"paragraphs": False}
        elif settings is not None and settings.paragraphs is not None:
            paragraphs = {"paragraphs": settings.paragraphs.model_dump()}
        else:
            paragraphs = {}
        if settings is None:
            return paragraphs
        given = settings.model_dump(include={"beam_size", "n_best"} & settings.model_fields_set)
        return {**given, **paragraphs}

    def _post(
        self, path: str, body: Mapping[str, Any], numbers: range, stop: threading.Event
    ) -> dict[str, Any]:
        """Returns a response; `numbers` are those of the lines in the body."""
        num_failures = 0
        while not stop.wait(max(0.0, self._resumes_at - time.monotonic())):
            started_at = time.monotonic()
            try:
                response = self._client.post(path, json=body)
            except self._httpx.HTTPError as error:
                fault = MtkitError(
                    f"{self._address}: {error}", "is the server running? mtkit serve"
                )
                is_lost = isinstance(error, self._httpx.NetworkError | self._httpx.ProtocolError)
                if not (is_lost and self._answered_at):
                    raise fault from error
                wait = 0.0
            else:
                if response.status_code == 200:
                    self._answered_at = time.monotonic()
                    content = _read_object(response)
                    if content is None:
                        raise self._not_a_server()
                    return content
                fault, wait = self._explain(response, numbers), read_retry_after(response.headers)
                if response.status_code not in _TRANSIENT:
                    raise fault
            # After an answer to another thread the server works: this one only waits its turn.
            num_failures = 1 if self._answered_at > started_at else num_failures + 1
            if num_failures == _ATTEMPTS or wait > _MAX_WAIT_SECONDS:
                raise fault
            self._resumes_at = time.monotonic() + (
                wait or _FIRST_PAUSE_SECONDS * 2 ** (num_failures - 1)
            )
        raise MtkitError("the job was stopped")

    def _explain(self, response: Any, numbers: range) -> MtkitError:
        """Returns the error of a response without translations."""
        content, status = _read_object(response) or {}, response.status_code
        message, line = content.get("error"), content.get("line")
        if not isinstance(message, str):
            location = response.headers.get("location", "")
            message = f"status {status}: {mask_secrets(location) or response.text}"
        message = quote_server(message)
        if type(line) is int and 1 <= line <= len(numbers):
            return LineError(numbers[line - 1], message)
        hint = "check the address: mtkit serve prints it"
        if status in (401, 403) or "key" in message.lower():
            hint = "set MTKIT_API_KEY to a key of the server"
        elif "missing target" in message or "missing source" in message:
            hint = "give the languages: --from CODE, --to CODE"
        elif "error" in content or status in _TRANSIENT:
            hint = ""
        return MtkitError(f"{self._address}: {message}", hint)

    def _not_a_server(self) -> MtkitError:
        return MtkitError(
            f"{self._address} isn't a server of mtkit",
            "check the address: mtkit serve prints it",
        )


def _read_object(response: Any) -> dict[str, Any] | None:
    """Returns a response's JSON object; None for another response."""
    try:
        content = response.json()
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _cut(lines: Sequence[Request]) -> list[Sequence[Request]]:
    """Returns lines grouped into requests with equal settings and languages."""
    parts: list[list[Request]] = []
    for line in lines:
        if (
            not parts
            or len(parts[-1]) == _LINES_AT_ONCE
            or _batch_key(parts[-1][0]) != _batch_key(line)
        ):
            parts.append([])
        parts[-1].append(line)
    return list(parts)


def _batch_key(request: Request) -> tuple[object, ...]:
    languages = request.source_language, request.target_language
    return request.settings, *languages, request.glossary, request.sentence is not None


def _write_term(term: Term) -> dict[str, object]:
    return {
        "source": term.source,
        "target": term.target,
        "case_sensitive": term.is_case_sensitive,
        "forbidden": term.is_forbidden,
    }
