"""Request bodies as pydantic models, for validation and the OpenAPI document."""

import json
import logging
import re
import sys
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import parse_qsl

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from mtkit.inference.streams.input_format import replace_surrogates
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.serving.request_errors import RequestError
from mtkit.text.glossary import MAX_TERM_CHARACTERS, Term

# Otherwise its messages about malformed forms go to stderr, unformatted.
logging.getLogger("python_multipart").addHandler(logging.NullHandler())
Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")
_MAX_FIELDS = 1_100
"""Of a form; each text is a field."""
_CHARSETS = ("utf-8", "utf8", "us-ascii")
_MAX_KEYS = 100
"""Of a JSON object; each unknown key is an error, which takes memory."""
_JSON_HINT = "; JSON needs the header Content-Type: application/json"
_ITEMS = {"q": "text", "lines": "line", "pairs": "pair", "glossary": "term"}
"""Names of list items in error messages."""
_BRANCHES = re.compile(r"str|bool|[A-Z]\w*|.*[\[-].*")
"""Names of union branches in pydantic's error locations."""
MAX_TERMS = 1_000
"""Of a request's glossary."""
_MAX_GLOSSARY_CHARACTERS = 50_000
"""Of all its terms; memory is proportional to it."""
Code = Annotated[str, Field(min_length=1, max_length=40)]
# Only the first error is reported: a list of a million errors would take gigabytes.
_Texts = (
    Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1, fail_fast=True)]
)


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class _StrictBody(_Body):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TranslateBody(_Body):
    """Body of LibreTranslate's /translate."""

    q: _Texts
    source: Code
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(le=1_000_000)] = 0
    scores: bool = False
    api_key: str | None = None

    @field_validator("format", mode="before")
    @classmethod
    def _default_format(cls, value: Any) -> Any:
        return value or "text"

    @field_validator("alternatives", mode="before")
    @classmethod
    def _default_alternatives(cls, value: Any) -> Any:
        return 0 if value is None else value

    @field_validator("alternatives")
    @classmethod
    def _bound_alternatives(cls, value: int) -> int:
        return max(0, value)


class DetectBody(_Body):
    """Body of LibreTranslate's /detect."""

    q: _Texts
    api_key: str | None = None


class LineBody(_Body):
    """A line of /v1/translate."""

    text: str
    prefix: str = ""


TermText = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True,
        min_length=1,
        max_length=MAX_TERM_CHARACTERS,
        # A term has one line.
        pattern=r"^[^\x00-\x1f]*$",
    ),
]


class TermBody(_StrictBody):
    """A term of /v1/translate: how a source is translated, or what must not be used for it."""

    source: TermText
    target: TermText
    case_sensitive: bool = False
    forbidden: bool = False

    def as_term(self) -> Term:
        """Returns the term as translators take it."""
        return Term(self.source, self.target, self.case_sensitive, self.forbidden)


class SettingsBody(_StrictBody):
    """Search settings of /v1/translate; the model's own where absent."""

    beam_size: Annotated[int, Field(ge=1, le=1_000)] | None = None
    n_best: Annotated[int, Field(ge=1, le=1_000)] | None = None
    paragraphs: bool | Paragraphs | None = None


class LinesBody(_StrictBody):
    """Body of /v1/translate."""

    lines: Annotated[list[str | LineBody], Field(min_length=1, fail_fast=True)]
    source: Code | None = None
    target: Code | None = None
    model: Annotated[str, Field(max_length=200)] | None = None
    settings: SettingsBody = SettingsBody()
    glossary: Annotated[list[TermBody], Field(max_length=MAX_TERMS, fail_fast=True)] = []

    @field_validator("settings", "glossary", mode="before")
    @classmethod
    def _read_null(cls, given: Any, info: ValidationInfo) -> Any:
        if given is None:
            return {} if info.field_name == "settings" else []
        return given

    @model_validator(mode="after")
    def _bound_glossary(self) -> Self:
        num_characters = sum(len(term.source) + len(term.target) for term in self.glossary)
        if num_characters > _MAX_GLOSSARY_CHARACTERS:
            raise ValueError(
                f"glossary has {num_characters:,} characters, expected "
                f"{_MAX_GLOSSARY_CHARACTERS:,} at most"
            )
        return self


class ScoreBody(_StrictBody):
    """Body of /v1/score: lines, each with its translation."""

    pairs: Annotated[list[tuple[str, str]], Field(min_length=1, fail_fast=True)]
    source: Code | None = None
    target: Code | None = None
    model: Annotated[str, Field(max_length=200)] | None = None


@dataclass(frozen=True)
class UploadForm:
    """A form with a file; `name` is empty without one."""

    fields: dict[str, str]
    name: str = ""
    content: bytes = b""


def parse_body(
    content: bytes,
    content_type: str,
    query: str,
    kind: type[Body] | None,
    max_texts: int = sys.maxsize,
) -> Any:
    """Returns a request's body, from JSON or from a form, in linear time.

    `kind` is None for an `UploadForm`. A form's parameters may also be in the query string, as in
    Flask.

    Raises:
        RequestError: The body is malformed, incomplete, or has too many texts.
    """
    if kind is None:
        return _parse_form(content, content_type, query)
    hint = ""
    parsed: Any
    if "json" in content_type.lower():
        parsed = _parse_json(content)
    else:
        parsed = _parse_form(content, content_type, query).fields
        if content.lstrip().startswith((b"{", b"[")):
            hint = _JSON_HINT
    if isinstance(parsed, dict):
        for key in ("q", "lines", "pairs"):
            if isinstance(parsed.get(key), list):
                check_number(len(parsed[key]), max_texts)
    try:
        return kind.model_validate(parsed)
    except ValidationError as error:
        raise RequestError(400, _explain(error) + hint) from error
    except RecursionError as error:
        raise RequestError(400, "Invalid JSON format") from error


def check_number(num_texts: int, max_texts: int) -> None:
    """Checks that texts aren't too many."""
    if num_texts > max_texts:
        raise RequestError(
            400, f"Invalid request: request ({num_texts}) exceeds text limit ({max_texts})"
        )


def _parse_form(content: bytes, content_type: str, query: str) -> UploadForm:
    kind, parameters = parse_options_header(content_type)
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1").lower()
    if charset not in _CHARSETS:
        raise RequestError(400, "Invalid request: a form has to be in UTF-8")
    pairs, name, file = _read_pairs(query.encode()), "", b""
    if kind == b"multipart/form-data":
        headers = Headers({"content-type": content_type})
        more, name, file = _run_at_once(_read_parts(headers, content))
        pairs += more
    elif kind == b"application/x-www-form-urlencoded":
        pairs += _read_pairs(content)
    # As in Flask, the first of several values counts, and the query string comes first.
    fields: dict[str, Any] = dict(reversed(pairs))
    # Forms have MIME line endings.
    texts = [text.replace("\r\n", "\n") for key, text in pairs if key == "q"]
    if texts:
        fields["q"] = texts if len(texts) > 1 else texts[0]
    return UploadForm(fields, name, file)


def _read_pairs(content: bytes) -> list[tuple[str, str]]:
    try:
        text = content.decode()
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise RequestError(400, "Invalid request: a form has to be in UTF-8") from error
    except ValueError as error:
        raise RequestError(
            400, f"Invalid request: a form with more than {_MAX_FIELDS:,} fields"
        ) from error


class _PartParser(MultiPartParser):
    """Keeps files in memory: their bytes are already counted."""

    spool_max_size = sys.maxsize


async def _read_parts(headers: Headers, content: bytes) -> tuple[list[tuple[str, str]], str, bytes]:
    """Returns the fields of a form, the name of its file, and the file."""

    async def stream() -> AsyncGenerator[bytes]:
        yield content
        yield b""

    parser = _PartParser(
        headers, stream(), max_files=1, max_fields=_MAX_FIELDS, max_part_size=len(content)
    )
    try:
        form = await parser.parse()
    except (MultiPartException, UnicodeDecodeError) as error:
        message = getattr(error, "message", "it can't be read")
        raise RequestError(400, f"Invalid request: malformed form: {message}") from error
    pairs = [(key, each) for key, each in form.multi_items() if isinstance(each, str)]
    file, name, read = form.get("file"), "", b""
    if isinstance(file, UploadFile):
        name, read = file.filename or "", await file.read()
    await form.close()
    return pairs, name, read


def _run_at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """Returns the result of a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    raise AssertionError("it suspends")


def _parse_json(content: bytes) -> Any:
    try:
        # json.loads would decode bytes with surrogates.
        text = content.decode(json.detect_encoding(content))
        parsed = json.loads(text, object_pairs_hook=_make_object)
        return _clean(parsed) if "\\ud" in text or "\\uD" in text else parsed
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "Invalid JSON format") from error


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    if len(pairs) > _MAX_KEYS:
        raise RequestError(400, f"Invalid request: an object with more than {_MAX_KEYS} keys")
    return dict(pairs)


def _clean(content: Any) -> Any:
    """Returns content without surrogates, which no response could contain."""
    match content:
        case str():
            return replace_surrogates(content)
        case list():
            return [_clean(each) for each in content]
        case dict():
            return {_clean(key): _clean(value) for key, value in content.items()}
        case _:
            return content


def _explain(error: ValidationError) -> str:
    """Returns the first invalid parameter's error in LibreTranslate's words."""
    faults = error.errors(include_url=False, include_context=False)
    alike = [each for each in faults if each["loc"][:1] == faults[0]["loc"][:1]]
    # The deepest error belongs to the union branch that fits best.
    fault = max(alike, key=lambda each: len(each["loc"]))
    name = _name(fault["loc"])
    given = fault["input"]
    if not name:
        is_ours = fault["type"] == "value_error"
        what = fault["msg"].removeprefix("Value error, ")
        return f"Invalid request: {what}" if is_ours else "Invalid JSON format"
    is_missing = fault["type"] == "missing" and isinstance(fault["loc"][-1], str)
    if is_missing or (given in (None, "", []) and fault["type"] != "extra_forbidden"):
        return f"Invalid request: missing {name} parameter"
    if fault["type"].startswith("int_"):
        return f"Invalid request: {name} parameter is not a number"
    if name == "format" and isinstance(given, str):
        return f"{given[:40]} format is not supported"
    return f"Invalid request: {name[:80]}: {fault['msg']}"


def _name(location: Sequence[int | str]) -> str:
    """Returns a parameter's location, such as `q`, or `glossary, term 2, target`."""
    if not location:
        return ""
    first = str(location[0])
    parts = [first[:40]]
    for part in location[1:]:
        if isinstance(part, int):
            # The side of a pair, or the item of a list.
            is_side = first == "pairs" and len(parts) > 1
            parts.append(
                ("source", "target")[part] if is_side else f"{_ITEMS.get(first, 'item')} {part + 1}"
            )
        elif not _BRANCHES.fullmatch(part):
            parts.append(part[:40])
    return ", ".join(parts)
