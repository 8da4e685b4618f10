"""A translator that calls a server of `mtkit serve`."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

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
"""Maximum attempts while the server is too busy."""
_MAX_WAIT_SECONDS = 30.0


class RemoteTranslator(Translator):
    """A `Translator` that uses a server of `mtkit serve`.

        translator = RemoteTranslator("http://127.0.0.1:5000")
        translator.translate("The man sleeps.")

    Requests' own settings may change `beam_size` and `n_best`. Their glossaries have at most 1,000
    terms.

    Args:
        address: The server's, `http://` or `https://`.
        key: A key, if the server needs one.
        source: Code of the lines' language; by default the server detects it.
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
        source: str = "auto",
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
        self._fault = httpx2.HTTPError
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(base_url=address.rstrip("/"), headers=headers, timeout=300.0)
        self._asked = {name: value for name, value in parameters.items() if value is not None}
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
        if len(parts) <= 1:
            found = [
                self._post_batch(path, part, start)
                for part, start in zip(parts, starts, strict=True)
            ]
        else:
            with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
                found = list(threads.map(self._post_batch, [path] * len(parts), parts, starts))
        return [translation for part in found for translation in part]

    def _post_batch(
        self, path: str, lines: Sequence[Request], first_line: int
    ) -> list[Translation]:
        parameters = self._choose_asked(lines[0])
        if path == "/v1/score":
            if parameters.get("source") == "auto":
                # Pairs are scored in the model's languages, or in the given ones.
                del parameters["source"]
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
        content = self._post(path, body, range(first_line, first_line + len(lines)))
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
        return {"beam_size": settings.beam_size, "n_best": settings.n_best, **paragraphs}

    def _post(self, path: str, body: Mapping[str, Any], numbers: range) -> dict[str, Any]:
        """Returns a response; `numbers` are those of the lines in the body."""
        for attempt in range(_ATTEMPTS):
            try:
                response = self._client.post(path, json=body)
                content = response.json()
            except self._fault as error:
                raise MtkitError(
                    f"{self._address}: {error}", "is the server running? mtkit serve"
                ) from error
            except ValueError as error:
                raise self._not_a_server() from error
            if not isinstance(content, dict):
                raise self._not_a_server()
            if response.status_code == 200:
                return content
            if response.status_code not in (429, 503) or attempt + 1 == _ATTEMPTS:
                break
            time.sleep(min(read_retry_after(response.headers) or 1.0, _MAX_WAIT_SECONDS))
        message = str(content.get("error", f"status {response.status_code}"))
        line = content.get("line")
        if isinstance(line, int) and 1 <= line <= len(numbers):
            raise LineError(numbers[line - 1], message)
        hint = "set MTKIT_API_KEY to a key of the server" if "key" in message.lower() else ""
        raise MtkitError(f"{self._address}: {message}", hint)

    def _not_a_server(self) -> MtkitError:
        return MtkitError(
            f"{self._address} isn't a server of mtkit",
            "check the address: mtkit serve prints it",
        )


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
