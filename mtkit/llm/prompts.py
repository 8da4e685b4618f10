"""Prompts: what a large language model reads."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from mtkit.errors import MtkitError
from mtkit.llm.settings import LlmSettings
from mtkit.text.glossary import Term
from mtkit.text.letters import name_language


class Prompter:
    """Writes messages by the templates of a file.

    Args:
        settings: What the file says.
        origin: Its name, for errors.

    Raises:
        MtkitError: A template isn't valid.
    """

    def __init__(self, settings: LlmSettings, origin: str) -> None:
        self._examples, self._extra, self._origin = settings.examples, settings.extra, origin
        self._environment = SandboxedEnvironment(
            undefined=StrictUndefined, keep_trailing_newline=True
        )
        self._templates = {}
        for key, role in (("system", "system"), ("prompt", "user")):
            if source := getattr(settings, key):
                with self._explaining(key):
                    self._templates[role] = self._environment.from_string(source)

    def write(
        self,
        lines: Sequence[str],
        languages: tuple[str, str],
        *,
        wanted: Sequence[Term] = (),
        forbidden: Sequence[Term] = (),
        keep: Sequence[str] = (),
        before: Sequence[str] = (),
        fault: str = "",
    ) -> dict[str, Any]:
        """Returns a request's body that asks for the translation of lines.

        Args:
            lines: One, or several that are numbered.
            languages: Codes of both languages.
            wanted: Terms to use.
            forbidden: Terms to avoid.
            keep: Pieces that must stay as they are.
            before: Lines before the first one.
            fault: What was wrong with the last answer; empty at first.
        """
        numbered = len(lines) > 1
        text = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))
        values = {
            **_describe(languages),
            "text": text if numbered else lines[0],
            "numbered": numbered,
            "terms": wanted,
            "avoid": [term.target for term in forbidden],
            "keep": keep,
            "examples": self._examples,
            "before": before,
        }
        with self._explaining("prompt"):
            written = {role: each.render(values) for role, each in self._templates.items()}
        if fault:
            written["user"] = f"(An earlier answer was rejected: {fault}.)\n{written['user']}"
        messages = [{"role": role, "content": content} for role, content in written.items()]
        return {"messages": messages, **self._write_extra(languages)}

    def _write_extra(self, languages: tuple[str, str]) -> dict[str, Any]:
        """Returns the file's further keys of a request."""
        with self._explaining("extra"):
            written: dict[str, Any] = self._render(self._extra, _describe(languages))
        return written

    def _render(self, content: Any, values: Mapping[str, str]) -> Any:
        if isinstance(content, str):
            return self._environment.from_string(content).render(values)
        if isinstance(content, dict):
            return {key: self._render(each, values) for key, each in content.items()}
        if isinstance(content, list):
            return [self._render(each, values) for each in content]
        return content

    @contextmanager
    def _explaining(self, key: str) -> Iterator[None]:
        try:
            yield
        except (TemplateError, TypeError, ValueError, OverflowError) as error:
            raise MtkitError(
                f"{self._origin}: {key}: {error}",
                "the guide on large language models describes templates",
            ) from error


def _describe(languages: tuple[str, str]) -> dict[str, str]:
    """Returns what templates know of the languages."""
    return {
        "source_code": languages[0],
        "target_code": languages[1],
        "source_language": name_language(languages[0]),
        "target_language": name_language(languages[1]),
    }
