"""Bodies of requests and answers, as pydantic models: they check, and make the OpenAPI document."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from starlette.requests import Request

from mtkit.inference.streams.input_format import replace_surrogates
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.serving.faults import RequestError
from mtkit.text.glossary import MAX_TERM_CHARACTERS, Term

Body = TypeVar("Body", bound=BaseModel)
_MAX_FIELDS = 20
_MAX_KEYS = 100
"""Of an object of JSON; each that isn't known is a fault of its own, and so takes memory."""
_JSON_HINT = "; JSON needs the header Content-Type: application/json"
_ITEMS = {"q": "text", "lines": "line", "pairs": "pair", "glossary": "term"}
"""What faults call the items of a list."""
_BRANCHES = re.compile(r"str|bool|[A-Z]\w*|.*[\[-].*")
"""Names that pydantic gives to what a value may be, among those of parameters."""
MAX_TERMS = 1_000
"""Of a request's glossary."""
_MAX_GLOSSARY_CHARACTERS = 50_000
"""Of all its terms: what they take of memory grows with these."""
Code = Annotated[str, Field(min_length=1, max_length=40)]
# The first fault is told: a list of a million faults would take gigabytes.
_Texts = (
    Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1, fail_fast=True)]
)


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class TranslateBody(_Body):
    """Body of LibreTranslate's /translate."""

    q: _Texts
    source: Code
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    scores: bool = False
    api_key: str | None = None


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
        # A term is of one line.
        pattern=r"^[^\x00-\x1f]*$",
    ),
]


class TermBody(_Body):
    """A term of /v1/translate: how a source is translated, or what must not be used for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: TermText
    target: TermText
    case_sensitive: bool = False
    forbidden: bool = False

    def as_term(self) -> Term:
        """Returns it as translators take it."""
        return Term(self.source, self.target, self.case_sensitive, self.forbidden)


class SettingsBody(_Body):
    """Search settings of /v1/translate; the model's own where absent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam_size: Annotated[int, Field(ge=1, le=1_000)] | None = None
    n_best: Annotated[int, Field(ge=1, le=1_000)] | None = None
    paragraphs: bool | Paragraphs | None = None


class LinesBody(_Body):
    """Body of /v1/translate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lines: Annotated[list[str | LineBody], Field(min_length=1, fail_fast=True)]
    source: Code = "auto"
    target: Code | None = None
    model: Annotated[str, Field(max_length=200)] | None = None
    settings: SettingsBody = SettingsBody()
    glossary: Annotated[list[TermBody], Field(max_length=MAX_TERMS, fail_fast=True)] = []

    @model_validator(mode="after")
    def _bound_glossary(self) -> Self:
        num_characters = sum(len(term.source) + len(term.target) for term in self.glossary)
        if num_characters > _MAX_GLOSSARY_CHARACTERS:
            raise ValueError(
                f"glossary has {num_characters:,} characters, expected "
                f"{_MAX_GLOSSARY_CHARACTERS:,} at most"
            )
        return self


class ScoreBody(_Body):
    """Body of /v1/score: lines, each with its translation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pairs: Annotated[list[tuple[str, str]], Field(min_length=1, fail_fast=True)]
    source: Code | None = None
    target: Code | None = None
    model: Annotated[str, Field(max_length=200)] | None = None


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Returns a request's body, from JSON or from a form.

    Raises:
        RequestError: It is neither, or lacks something.
    """
    hint = ""
    if "json" in request.headers.get("content-type", ""):
        content = _parse_json(await request.body())
    else:
        async with request.form(max_files=1, max_fields=_MAX_FIELDS) as form:
            content = {key: value for key, value in form.items() if isinstance(value, str)}
        if isinstance(content.get("q"), str):
            # Browsers send forms with the line ends of MIME.
            content["q"] = "\n".join(content["q"].splitlines())
        if all(key.lstrip().startswith(("{", "[")) for key in content):
            hint = _JSON_HINT
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise RequestError(400, _explain(error) + hint) from error
    except RecursionError as error:
        raise RequestError(400, "Invalid JSON format") from error


def _parse_json(content: bytes) -> Any:
    try:
        parsed = json.loads(content, object_pairs_hook=_make_object)
        # Only an escape makes half of a character: other bytes of one aren't UTF-8.
        return _clean(parsed) if b"\\ud" in content.lower() else parsed
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "Invalid JSON format") from error


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _MAX_KEYS:
        raise RequestError(400, f"Invalid request: an object with more than {_MAX_KEYS} keys")
    return dict(pairs)


def _clean(content: Any) -> Any:
    """Returns content without halves of characters, which no answer could repeat."""
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
    """Returns a fault of the first parameter at fault in LibreTranslate's words."""
    faults = error.errors(include_url=False, include_context=False)
    alike = [each for each in faults if each["loc"][:1] == faults[0]["loc"][:1]]
    # Of all that a value may be, what it comes nearest to: the fault lies deepest in that.
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
    """Returns where a parameter is, such as `q`, or `glossary, term 2, target`."""
    if not location:
        return ""
    first = str(location[0])
    parts = [first[:40]]
    for part in location[1:]:
        if isinstance(part, int):
            # Of a pair, which side it is; else which item of the list.
            is_side = first == "pairs" and len(parts) > 1
            parts.append(
                ("source", "target")[part] if is_side else f"{_ITEMS.get(first, 'item')} {part + 1}"
            )
        elif not _BRANCHES.fullmatch(part):
            parts.append(part[:40])
    return ", ".join(parts)
