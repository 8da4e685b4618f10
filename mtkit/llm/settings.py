"""`llm.toml`: a large language model behind an HTTP API, and its prompts."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from mtkit.api_requests import check_key
from mtkit.errors import MtkitError
from mtkit.recipe.flags import FlagName
from mtkit.recipe.key_errors import validate_tables
from mtkit.recipe.read_toml import read_toml
from mtkit.recipe.section import Count, CountFromZero, Section, Strength, StrengthFromZero

_PROMPT = """\
Translate from {{ source_language }} to {{ target_language }}.
{%- if terms %} Use these translations of terms:
{%- for term in terms %} "{{ term.source }}" is "{{ term.target }}"
{{- "." if loop.last else ";" }}
{%- endfor %}
{%- endif %}
{%- if avoid %} Don't use these words: {{ avoid | join(", ") }}.{% endif %}
{%- if keep %} Keep these pieces exactly as they are: {{ keep | join(" ") }}.{% endif %}
{%- for example in examples %}
{{ example.source }} => {{ example.target }}
{%- endfor %}
{%- if before %} The text before, not to be translated: {{ before | join(" ") }}{% endif %}
{%- if numbered %}
Translate each numbered line. Answer with as many lines, with the same numbers, and nothing else.
{%- else %}
Answer with the translation in one line, and nothing else.
{%- endif %}

{{ text }}"""


def _check_address(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address such as http://127.0.0.1:8080/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("an address has no user, key or query; name the key's variable: key_from")
    return address.rstrip("/")


class Sampling(Section):
    """The `sampling` section; a key that isn't given isn't sent."""

    temperature: StrengthFromZero | None = 0.0
    """0 takes the most probable token."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Nucleus sampling."""
    top_k: Count | None = None
    """Tokens to sample from; not every server knows it."""
    seed: CountFromZero | None = None
    """Seed, for servers that take one."""


class Limits(Section):
    """The `limits` section: beyond these the job stops; answers until then are in the cache."""

    answer_tokens: Count = 2_048
    """Maximum tokens of an answer (`max_tokens` of the API)."""
    answer_bytes: Count = 4 << 20
    """Maximum bytes of an answer; a longer one is bad."""
    connect_seconds: Strength = 10.0
    """Timeout of a connection."""
    request_seconds: Strength = 120.0
    """Timeout of a request, from its start to the answer's last byte."""
    attempts: Count = 5
    """Maximum attempts while the server is busy, fails or can't be reached."""
    wait_seconds: Strength = 60.0
    """Maximum time between two attempts, whatever `Retry-After` says."""
    tokens: CountFromZero = 0
    """Maximum tokens of all requests of a command, prompts included; 0: no limit."""
    cost: StrengthFromZero = 0.0
    """Maximum cost of all requests of a command, in the currency of `prices`; 0: no limit."""


class Prices(Section):
    """The `prices` section, for the cost of a job."""

    input: StrengthFromZero = 0.0
    """Price of a million tokens of prompts."""
    output: StrengthFromZero = 0.0
    """Price of a million tokens of answers."""
    currency: str = "USD"
    """Its name in messages."""


class Cache(Section):
    """The `cache` section: answers on disk. To delete them: `rm -r FOLDER`."""

    folder: Path | None = None
    """Folder, relative to the file's own; default: the file's name with `.cache` appended."""
    max_mib: CountFromZero = 1_024
    """Maximum size in MiB; the oldest answers are evicted. 0: no cache."""


class Example(Section):
    """An example in the prompt."""

    source: str
    """A sentence."""
    target: str
    """Its translation."""


class LlmSettings(Section):
    """A large language model behind an OpenAI-compatible chat API.

    Text leaves the machine only for a file that the command line names.
    """

    url: Annotated[str, AfterValidator(_check_address)]
    """Address of the API, up to `/v1`."""
    model: Annotated[str, Field(min_length=1)]
    """Name of the model there."""
    source_languages: Annotated[tuple[str, ...], Field(min_length=1)]
    """Codes of the languages that it reads; the first one is the default."""
    target_languages: Annotated[tuple[str, ...], Field(min_length=1)]
    """Codes of the languages that it writes; the first one is the default."""
    key_from: str = ""
    """Environment variable with the key; empty: no key is sent."""
    licence: str = ""
    """Licence of the model, for the cards of students."""
    system: str = ""
    """Template of the system message; empty: none."""
    prompt: str = _PROMPT
    """Template of the user's message (Jinja): `text`, `source_language` and `target_language` by
    name, `source_code` and `target_code`, `terms`, `avoid`, `keep`, `examples`, `before`, and
    `numbered` for several lines."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """More keys of a request, such as `chat_template_kwargs`; text in them is a template that knows
    the languages."""
    omit: tuple[Literal["max_tokens", "stream", "temperature"], ...] = ()
    """Keys that aren't sent, for servers that refuse them; `extra` may have others instead, such as
    `max_completion_tokens`."""
    examples: tuple[Example, ...] = ()
    """Examples for the prompt."""
    lines_before: Annotated[int, Field(ge=0, le=100)] = 0
    """Source lines before a request's first line that the prompt shows."""
    lines_per_request: Annotated[int, Field(ge=1, le=100)] = 1
    """Lines of a request; more are numbered."""
    concurrent_requests: Annotated[int, Field(ge=1, le=1_024)] = 4
    """Requests at the same time."""
    reject: tuple[FlagName, ...] = ("copied", "wrong language", "looping")
    """Flags of a translation that make an answer bad (`inference.flags`)."""
    retries: Annotated[int, Field(ge=0, le=10)] = 1
    """Requests for a single line after its first bad answer."""
    on_failure: Literal["empty", "copy"] = "empty"
    """A line's translation if all answers were bad: an empty line, or the line itself. It has a
    warning and the flag `bad answer` in either case."""
    serve: bool = False
    """Whether `mtkit serve` may use it: callers' texts leave the machine then."""
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    prices: Prices = Prices()
    cache: Cache = Cache()

    @model_validator(mode="after")
    def _check_template(self) -> Self:
        if "text" not in self.prompt:
            raise ValueError("prompt: it has no {{ text }}")
        return self

    @property
    def key(self) -> str:
        """The key; empty without one.

        Raises:
            MtkitError: The variable isn't set, or holds something else.
        """
        if not self.key_from:
            return ""
        key = check_key(os.environ.get(self.key_from, ""), self.key_from)
        if not key:
            raise MtkitError(
                f"no key in the environment variable {self.key_from} (key_from)",
                f"export {self.key_from}=...",
            )
        return key


def read_llm_settings(path: Path) -> LlmSettings:
    """Reads and validates a file; `cache.folder` becomes absolute.

    Raises:
        MtkitError: The file can't be read, isn't TOML, or has an unknown key or a wrong value.
    """
    tables = read_toml(path)
    try:
        found = validate_tables(LlmSettings, tables, origin=str(path))
    except MtkitError as error:
        if "data" in tables:
            raise MtkitError(
                f"{path} is a recipe, not the file of a large language model",
                f"translate by the recipe's model: --recipe {path}",
            ) from error
        raise MtkitError(error.message, "docs/reference/llm.md lists the keys") from error
    folder = found.cache.folder or Path(f"{path.name}.cache")
    cache = found.cache.model_copy(update={"folder": path.absolute().parent / folder})
    return found.model_copy(update={"cache": cache})
