"""A client of an OpenAI-compatible chat API."""

import json
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from mtkit.api_requests import quote_server
from mtkit.errors import MtkitError
from mtkit.http_file import read_retry_after
from mtkit.llm.answers import BadAnswerError
from mtkit.llm.cache import AnswerCache, make_cache_key
from mtkit.llm.settings import LlmSettings
from mtkit.programs import import_extra

CHARACTERS_PER_TOKEN = 4
"""For estimates, and for servers that count no tokens."""
_MAX_REFUSED = 8
"""Requests that are rejected or badly answered before the job stops, if none has succeeded."""
_MAX_COUNTED = 1_000_000_000
"""Maximum plausible token count in a response."""
Asked = Mapping[str, Any]
"""A request's `messages`, and additional keys of the file."""


@dataclass
class Usage:
    """What a job has used; `cached` requests cost nothing."""

    requests: int = 0
    cached: int = 0
    retries: int = 0
    bad_lines: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def find_cost(self, settings: LlmSettings) -> float:
        """Returns the cost by the file's prices."""
        prices = settings.prices
        return (self.input_tokens * prices.input + self.output_tokens * prices.output) / 1e6

    def describe(self, settings: LlmSettings) -> str:
        """Returns it in words; empty if nothing was asked."""
        if not self.requests + self.cached:
            return ""
        cost = self.find_cost(settings)
        return (
            f"{settings.model}: {self.requests:,} requests, {self.cached:,} answers from the "
            f"cache, {self.retries:,} retries, {self.bad_lines:,} lines without an answer; "
            f"{self.input_tokens:,} tokens in, {self.output_tokens:,} out"
            + (f", {cost:.2f} {settings.prices.currency}" if cost else "")
        )


class ChatClient:
    """Asks a model; threads may share it.

    Args:
        settings: The file's settings.
        cache: Keeps answers; None for no cache.

    Raises:
        MtkitError: The key is missing, or the package httpx2 isn't installed.
    """

    def __init__(self, settings: LlmSettings, cache: AnswerCache | None) -> None:
        fault = "a large language model needs the package httpx2"
        httpx2 = import_extra("httpx2", fault, "serve")
        self._http, self._settings, self._cache = httpx2, settings, cache
        self._key = settings.key
        self.usage = Usage()
        self._lock = threading.Lock()
        self._num_refused = 0
        self._client = self._connect()

    def _connect(self) -> Any:
        limits = self._settings.limits
        width = self._settings.concurrent_requests
        client = self._http.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=self._http.Timeout(limits.request_seconds, connect=limits.connect_seconds),
            limits=self._http.Limits(max_connections=width, max_keepalive_connections=width),
        )
        # Its connections close with this.
        weakref.finalize(self, client.close)
        return client

    def count_bad(self) -> None:
        """Counts a line without an answer."""
        with self._lock:
            self.usage.bad_lines += 1

    def is_known(self, asked: Asked, attempt: int = 0) -> bool:
        """Checks whether the cache has the answer."""
        return self._cache is not None and self._cache.find(self._name(asked, attempt)) is not None

    def ask(self, asked: Asked, attempt: int, stop: threading.Event) -> tuple[str, str]:
        """Returns an answer's text and finish reason, from the cache if it is there.

        Args:
            asked: The chat.
            attempt: The number of earlier answers to it that were bad.
            stop: Ends the waiting between attempts.

        Raises:
            BadAnswerError: The server rejects this request, or its responses don't follow the API.
            MtkitError: The server can't be reached, refuses the key, or a limit is reached.
        """
        name = self._name(asked, attempt)
        found = None if self._cache is None else self._cache.find(name)
        if found is None:
            found = self._request(asked, stop)
            if self._cache is not None:
                self._cache.put(name, found)
        else:
            with self._lock:
                self.usage.cached += 1
        return found["content"], found["finish_reason"]

    def _name(self, asked: Asked, attempt: int) -> str:
        return make_cache_key(self._settings.url, self._write_body(asked), attempt)

    def _write_body(self, asked: Asked) -> dict[str, object]:
        sampling = self._settings.sampling.model_dump(exclude_none=True)
        limit = self._settings.limits.answer_tokens
        own = {"model": self._settings.model, "stream": False, "max_tokens": limit}
        content = {**own, **sampling}
        return {key: content[key] for key in content if key not in self._settings.omit} | {**asked}

    def _request(self, asked: Asked, stop: threading.Event) -> dict[str, str]:
        limits = self._settings.limits
        body = json.dumps(self._write_body(asked), ensure_ascii=False)
        content = body.encode("utf-8", "replace")
        fault, wait, is_bad = "", 0.0, False
        for attempt in range(limits.attempts):
            if attempt:
                with self._lock:
                    self.usage.retries += 1
                wait = min(wait or 2.0 ** (attempt - 1), limits.wait_seconds)
            if stop.wait(wait):
                break
            self._check_limits()
            try:
                status, headers, received = self._post(content)
            except (self._http.HTTPError, TimeoutError) as error:
                fault, wait = quote_server(f"{type(error).__name__}: {error}", self._key), 0.0
                is_bad = False
                continue
            text, is_bad = received.decode("utf-8", "replace"), status == 200
            if is_bad:
                answer = _read_body(received)
                if answer is not None:
                    return self._count(answer, len(body))
                fault, wait = f"not a chat API response: {quote_server(text, self._key)}", 0.0
            elif status in (408, 409, 425, 429) or status >= 500:
                fault, wait = self._describe(status, text), read_retry_after(headers)
            else:
                self._refuse(status, text)
        if stop.is_set():
            raise MtkitError("the job was stopped")
        if is_bad:
            self._reject(fault, "check url in the file: the address up to /v1")
        raise MtkitError(
            f"{self._settings.url}: {fault} ({limits.attempts:,} attempts)",
            "is the server running? Run the same command again: it resumes from the cache",
        )

    def _post(self, content: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Returns an answer's status, headers and text, cut if it is too long."""
        limits = self._settings.limits
        ends_at = time.monotonic() + limits.request_seconds
        received = bytearray()
        with self._client.stream(
            "POST",
            f"{self._settings.url}/chat/completions",
            content=content,
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
        ) as response:
            for part in response.iter_bytes():
                received += part
                if len(received) > limits.answer_bytes:
                    break
                if time.monotonic() > ends_at:
                    raise TimeoutError(f"no complete response in {limits.request_seconds:g} s")
            return response.status_code, response.headers, bytes(received)

    def _refuse(self, status: int, text: str) -> None:
        """Raises the error of a status that isn't retried."""
        fault = self._describe(status, text)
        hint = "check url, model, sampling, extra and omit in the file"
        if status in (400, 413, 422):
            self._reject(f"the server rejects the request: {fault}", hint)
        if status in (401, 403):
            hint = (
                "check the key" if self._key else 'name the variable with the key: key_from = "..."'
            )
        raise MtkitError(f"{self._settings.url}: {fault}", hint)

    def _reject(self, fault: str, hint: str) -> NoReturn:
        """Raises the error of one request; of the job, if many fail and none has succeeded."""
        with self._lock:
            self._num_refused += 1
            is_hopeless = self._num_refused >= _MAX_REFUSED and not self.usage.requests
        if is_hopeless:
            raise MtkitError(f"{self._settings.url}: {fault}", hint)
        raise BadAnswerError(fault)

    def _describe(self, status: int, text: str) -> str:
        return f"status {status}: {quote_server(text, self._key)}"

    def _count(self, answer: dict[str, Any], num_characters: int) -> dict[str, str]:
        content: str = answer["content"]
        guess = (num_characters, len(content))
        counts = [
            given
            if isinstance(given, int) and 0 <= given < _MAX_COUNTED
            else number // CHARACTERS_PER_TOKEN
            for given, number in zip(answer.pop("counts"), guess, strict=True)
        ]
        with self._lock:
            self.usage.requests += 1
            self.usage.input_tokens += counts[0]
            self.usage.output_tokens += counts[1]
        return answer

    def _check_limits(self) -> None:
        limits = self._settings.limits
        cost = self.usage.find_cost(self._settings)
        num_tokens = self.usage.input_tokens + self.usage.output_tokens
        for key, used, limit in (
            ("tokens", num_tokens, limits.tokens),
            ("cost", cost, limits.cost),
        ):
            if limit and used >= limit:
                raise MtkitError(
                    f"limits.{key} = {limit:,} is reached",
                    "raise it and run the same command again: it resumes from the cache",
                )


def _read_body(received: bytes) -> dict[str, Any] | None:
    """Returns an answer's text, finish reason and token counts; None for another response."""
    try:
        content = json.loads(received.decode())
        choice = content["choices"][0]
        message = choice["message"]["content"]
    except (ValueError, RecursionError, KeyError, IndexError, TypeError):
        return None
    if message is None:
        # A refusal has a key of its own.
        message = ""
    if not isinstance(message, str):
        return None
    used = content.get("usage")
    used = used if isinstance(used, dict) else {}
    return {
        "content": message,
        "finish_reason": str(choice.get("finish_reason")),
        "counts": (used.get("prompt_tokens"), used.get("completion_tokens")),
    }
