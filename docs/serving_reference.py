"""The page of the server's limits, made from the `serve` section."""

from mtkit.recipe.section import read_docstrings
from mtkit.serving.settings import Serving

_INTRODUCTION = """\
# Limits of the server

Made from `mtkit/serving/settings.py` by `docs/generate_reference.py`; edit that. Given to
`mtkit serve` as `--set serve.KEY=VALUE`; a list is written `--set 'serve.hosts=["a.example.org"]'`.

| key | default | meaning |
|---|---|---|
"""


def render_serving() -> str:
    """Returns the page."""
    rows = []
    docstrings = read_docstrings(Serving)
    for name, field in Serving.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = "none" if default in (None, ()) else f"`{str(default).lower()}`"
        meaning = " ".join(docstrings[name].split())
        rows.append(f"| `{name}` | {shown} | {meaning} |")
    return _INTRODUCTION + "\n".join(rows) + "\n"
