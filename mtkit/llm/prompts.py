"""Prompts: what a large language model reads."""

from collections.abc import Mapping, Sequence

from babel.core import Locale, UnknownLocaleError
from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from mtkit.errors import MtkitError
from mtkit.llm.settings import LlmSettings
from mtkit.text.glossary import Term


def name_language(code: str) -> str:
    """Returns the English name of a language; the code itself where it has none."""
    try:
        return Locale.parse(code.replace("-", "_")).get_display_name("en") or code
    except (ValueError, UnknownLocaleError):
        return code


class Prompter:
    """Writes messages by the templates of a file.

    Args:
        settings: What the file says.
        origin: Its name, for errors.

    Raises:
        MtkitError: A template isn't valid.
    """

    def __init__(self, settings: LlmSettings, origin: str) -> None:
        self._examples, self._origin = settings.examples, origin
        environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
        self._templates = {}
        for key, role in (("system", "system"), ("prompt", "user")):
            try:
                if source := getattr(settings, key):
                    self._templates[role] = environment.from_string(source)
            except TemplateError as error:
                raise MtkitError(f"{origin}: {key}: {error}", "see docs/llm.md") from error

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
    ) -> list[Mapping[str, str]]:
        """Returns the messages that ask for the translation of lines.

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
            "text": text if numbered else lines[0],
            "numbered": numbered,
            "source_code": languages[0],
            "target_code": languages[1],
            "source_language": name_language(languages[0]),
            "target_language": name_language(languages[1]),
            "terms": wanted,
            "avoid": [term.target for term in forbidden],
            "keep": keep,
            "examples": self._examples,
            "before": before,
        }
        try:
            written = {role: each.render(values) for role, each in self._templates.items()}
        except (TemplateError, TypeError, ValueError, OverflowError) as error:
            raise MtkitError(f"{self._origin}: prompt: {error}", "see docs/llm.md") from error
        if fault:
            written["user"] = f"(An earlier answer was rejected: {fault}.)\n{written['user']}"
        return [{"role": role, "content": content} for role, content in written.items()]
