"""Bodies of requests and answers, as pydantic models: they check, and make the OpenAPI document."""

import json
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
MAX_TERMS = 1_000
"""Of a request's glossary."""
_MAX_GLOSSARY_CHARACTERS = 50_000
"""Of all its terms: what they take of memory grows with these."""
Code = Annotated[str, Field(min_length=1, max_length=40)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True)


class TranslateBody(_Body):
    """Body of LibreTranslate's /translate."""

    q: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    source: Code
    target: Code
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    scores: bool = False
    api_key: str | None = None


class DetectBody(_Body):
    """Body of LibreTranslate's /detect."""

    q: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
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

    lines: Annotated[list[str | LineBody], Field(min_length=1)]
    source: Code = "auto"
    target: Code | None = None
    model: Annotated[str, Field(max_length=200)] | None = None
    settings: SettingsBody = SettingsBody()
    glossary: Annotated[list[TermBody], Field(max_length=MAX_TERMS)] = []

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

    pairs: Annotated[list[tuple[str, str]], Field(min_length=1)]
    source: Code | None = None
    target: Code | None = None
    model: Annotated[str, Field(max_length=200)] | None = None


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Returns a request's body, from JSON or from a form.

    Raises:
        RequestError: It is neither, or lacks something.
    """
    if "json" in request.headers.get("content-type", ""):
        content = _parse_json(await request.body())
    else:
        async with request.form(max_files=1, max_fields=_MAX_FIELDS) as form:
            content = {key: value for key, value in form.items() if isinstance(value, str)}
        if isinstance(content.get("q"), str):
            # Browsers send forms with the line ends of MIME.
            content["q"] = "\n".join(content["q"].splitlines())
    try:
        return kind.model_validate(_clean(content))
    except ValidationError as error:
        raise RequestError(400, _explain(error)) from error
    except RecursionError as error:
        raise RequestError(400, "Invalid JSON format") from error


def _parse_json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RequestError(400, "Invalid JSON format") from error


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
    """Returns the first fault in LibreTranslate's words."""
    fault = error.errors(include_url=False, include_context=False)[0]
    name = _name(fault["loc"])
    given = fault["input"]
    if not name:
        is_ours = fault["type"] == "value_error"
        what = fault["msg"].removeprefix("Value error, ")
        return f"Invalid request: {what}" if is_ours else "Invalid JSON format"
    if fault["type"] == "missing" or given in (None, "", []):
        return f"Invalid request: missing {name} parameter"
    if fault["type"].startswith("int_"):
        return f"Invalid request: {name} parameter is not a number"
    if name == "format" and isinstance(given, str):
        return f"{given[:40]} format is not supported"
    return f"Invalid request: {name[:40]}: {fault['msg']}"


def _name(location: Sequence[int | str]) -> str:
    """Returns a parameter's name; in a glossary with the place: `glossary, term 2, target`."""
    if not location or location[0] != "glossary":
        return str(location[0]) if location else ""
    return ", ".join(f"term {part + 1}" if isinstance(part, int) else part for part in location)
