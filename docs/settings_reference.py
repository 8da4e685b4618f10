"""The pages of settings that no recipe has: the server's limits, and a large language model's."""

from pydantic import BaseModel

from mtkit.llm.settings import LlmSettings
from mtkit.recipe.section import Section, read_docstrings
from mtkit.serving.settings import Serving

_OF_A_SERVER = """\
# Limits of the server

Made from `mtkit/serving/settings.py` by `docs/generate_reference.py`; edit that. Given to
`mtkit serve` as `--set serve.KEY=VALUE`; a list is written `--set 'serve.hosts=["a.example.org"]'`.

"""
_OF_AN_LLM = """\
# Keys of a large language model

Made from `mtkit/llm/settings.py` by `docs/generate_reference.py`; edit that. These are the keys of
`llm.toml` ([guide](../guides/large-language-models.md)).

"""
_HEAD = "| key | default | meaning |\n|---|---|---|\n"


def render_serving() -> str:
    """Returns the page of the server's limits."""
    return _OF_A_SERVER + _HEAD + "\n".join(_list_rows(Serving)) + "\n"


def render_llm() -> str:
    """Returns the page of the keys of `llm.toml`."""
    return _OF_AN_LLM + _HEAD + "\n".join(_list_rows(LlmSettings)) + "\n"


def _list_rows(section: type[BaseModel], before: str = "") -> list[str]:
    """Returns a row for each key, those of inner sections after the others."""
    rows, inner = [], []
    docstrings = read_docstrings(section)
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Section):
            inner += _list_rows(type(default), f"{before}{name}.")
            continue
        text = str(default).lower() if isinstance(default, bool | int | float) else str(default)
        empty = default is None or default in ((), {}, "")
        shown = "needed" if field.is_required() else "none" if empty else f"`{text}`"
        shown = "see the guide" if "\n" in text else shown
        meaning = " ".join(docstrings[name].split()).replace("|", "\\|")
        rows.append(f"| `{before}{name}` | {shown} | {meaning} |")
    return rows + inner
