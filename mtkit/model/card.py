"""Reads and edits a model's card, the README.md in its folder."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.errors import MtkitError
from mtkit.files import read_file, write_atomically

if TYPE_CHECKING:
    from jinja2 import Environment

CARD_FILE = "README.md"
_MAX_BYTES = 1 << 20
_USE = "## Use"
SCORES = "## Scores"
_SCORES_OF_ORIGIN = "## Scores of the model that was exported"
_EXPORT = "## Export"
UNSCORED = "Not scored yet; `mtkit score` fills this in."


def find_licence(folder: Path) -> str:
    """Returns the licence on a model folder's card; empty without one."""
    card = read_card(folder) or ""
    head = card.removeprefix("---\n").partition("\n---\n")[0] if card.startswith("---\n") else ""
    found = re.search(r"^license: *(\S.{0,80})$", head, flags=re.MULTILINE)
    return found[1].strip() if found else ""


def with_scores(card: str, rows: Sequence[tuple[str, str, str, str]], *, origin: str = "") -> str:
    """Returns the card with its scores replaced; all other text stays, hand-written parts too.

    Args:
        card: A model card; without a `## Scores` section, one is added at the end.
        rows: Test set, metric, score and signature of each.
        origin: What computed, as a phrase, such as "`torch` on `cpu` in `fp32`", if known.
    """
    lines = ["| test set | metric | score | signature |", "|---|---|---:|---|"]
    # A sacreBLEU signature contains bars, which would end a cell.
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if origin:
        lines += ["", f"Measured with {origin}."]
    return _with_section(card, SCORES, "\n".join(lines) if rows else UNSCORED)


def with_export(card: str, facts: Sequence[str]) -> str:
    """Returns the card of an export: the model's card with facts about the export, one per line.

    Its scores are labelled as the exported model's: the export may translate differently.
    """
    if UNSCORED not in card:
        card = re.sub(rf"^{SCORES}\s*$", f"{_SCORES_OF_ORIGIN}\n", card, flags=re.MULTILINE)
    return _with_section(card, _EXPORT, "\n".join(f"- {fact}" for fact in facts))


def hub_card(
    card: str,
    architecture: str,
    facts: Sequence[str],
    *,
    languages: Sequence[str],
    metadata: Mapping[str, Sequence[str]],
) -> str:
    """Returns the card of a folder for transformers, with the metadata that the hub reads.

    Existing metadata is kept, such as languages and licence. Scores are labelled as the exported
    model's, and their metrics go into the metadata.

    Args:
        card: The model's card.
        architecture: The class that loads it.
        facts: Facts about the export.
        languages: The model's languages, for a card without any.
        metadata: Lists for the metadata, by key.
    """
    head, body = "", card
    if card.startswith("---\n") and "\n---\n" in card:
        head, _, body = card.removeprefix("---\n").partition("\n---\n")
    head = re.sub(r"^library_name:.*\n?", "", f"{head}\n", flags=re.MULTILINE)
    head = re.sub(r"^- und\n", "", head, flags=re.MULTILINE)
    head = re.sub(r"^language:\n(?!- )", "", head, flags=re.MULTILINE)
    if "pipeline_tag:" not in head:
        head = f"{head.rstrip()}\npipeline_tag: translation"
    known = [language for language in dict.fromkeys(languages) if language != "und"]
    lists = {"language": known, "metrics": _list_metrics(card), **metadata}
    told = [
        f"{key}:\n" + "".join(f"- {value}\n" for value in values)
        for key, values in lists.items()
        if values and not re.search(rf"^{key}:", head, flags=re.MULTILINE)
    ]
    whole = (
        f"---\n{head.strip()}\nlibrary_name: transformers\n{''.join(told)}---\n\n{body.lstrip()}"
    )
    use = render_text("use_transformers", architecture=architecture)
    return with_export(with_use(whole, use), facts)


def _list_metrics(card: str) -> list[str]:
    """Returns the hub's names of the metrics in a card's table of scores."""
    found = re.search(rf"^{SCORES}\s*$.*?(?=^## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    table = found[0].lower() if found is not None else ""
    return [name for name in ("bleu", "chrf", "ter", "comet") if f"| {name}" in table]


def with_use(card: str, use: str) -> str:
    """Returns the card with another text on how to use the model."""
    return _with_section(card, _USE, use)


def write_scores(
    folder: Path, rows: Sequence[tuple[str, str, str, str]], *, origin: str = ""
) -> None:
    """Replaces the scores on a folder's model card; see `with_scores`."""
    card = read_card(folder)
    if card is None:
        raise MtkitError(f"{folder / CARD_FILE}: no model card", "train a model with `mtkit train`")
    write_atomically(folder / CARD_FILE, with_scores(card, rows, origin=origin))


def read_card(folder: Path) -> str | None:
    """Returns a model folder's card; None without one."""
    path = folder / CARD_FILE
    try:
        return read_file(path, max_bytes=_MAX_BYTES).decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise MtkitError(f"{path}: damaged: invalid UTF-8: {error}") from error


def _with_section(card: str, title: str, content: str) -> str:
    section = f"{title}\n\n{content}\n"
    found = re.search(rf"^{title}\s*$.*?(?=^## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    if found is None:
        return f"{card.rstrip()}\n\n{section}"
    rest = card[found.end() :]
    return card[: found.start()] + section + (f"\n{rest}" if rest else "")


def render_text(name: str, **found: object) -> str:
    """Returns a template of a card, or of a part of it, filled in."""
    return _open_templates().get_template(f"{name}.md.jinja").render(**found)


@cache
def _open_templates() -> "Environment":
    # Imported here: most commands that open a model write no card.
    from mtkit.pages import open_templates  # noqa: PLC0415

    environment = open_templates("mtkit.model", is_html=False)
    environment.filters["count"] = "{:,}".format
    return environment
