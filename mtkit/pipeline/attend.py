"""Entry point of `mtkit attend`: shows and measures a model's attention."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.console import say, warn
from mtkit.errors import MtkitError
from mtkit.files import write_atomically
from mtkit.inference.attention import (
    KINDS,
    AttentionReader,
    HeadFigures,
    Kind,
    LineAttention,
    describe_heads,
)
from mtkit.inference.request import Request
from mtkit.model.config import open_model_folder, read_settings
from mtkit.paths import as_text
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section

MAX_LINES = 1_000
"""Maximum lines that are read; each has megabytes of attention weights in a large model."""
MAX_SHOWN = 20
"""Maximum lines on a page, which holds all their weights."""
_HEAD = re.compile(r"(?P<kind>[a-z]+)(\.(?P<layer>[0-9]{1,3}))?(\.(?P<head>[0-9]{1,5}))?")


@dataclass(frozen=True)
class ChosenHead:
    """The heads in a picture.

    Attributes:
        kind: Where they attend.
        layer: Their layer, from 1; None for the last.
        head: The head, from 1; None for all of the layer.
    """

    kind: Kind
    layer: int | None = None
    head: int | None = None

    @classmethod
    def parse(cls, text: str) -> "ChosenHead":
        """Returns the heads named by a text such as `cross`, `encoder.3` or `decoder.3.1`."""
        found = _HEAD.fullmatch(text)
        kind = next((kind for kind in KINDS if found and found["kind"] == kind), None)
        if found is None or kind is None:
            raise MtkitError(
                f"--head {text}: expected {', '.join(KINDS)}, optionally followed by a layer "
                "and a head",
                "for example cross, cross.6 or encoder.5.3",
            )
        layer, head = (int(found[name]) if found[name] else None for name in ("layer", "head"))
        return cls(kind, layer, head)


@dataclass(frozen=True)
class AttentionFiles:
    """The files written besides the figures of heads; `picture` shows `head` on the first line."""

    page: Path | None = None
    picture: Path | None = None
    head: ChosenHead = ChosenHead("cross")
    numbers: Path | None = None

    def check(self) -> None:
        """Checks that the files can be written: endings and folders."""
        for option, path, endings in (
            ("--page", self.page, (".html",)),
            ("--picture", self.picture, (".png",)),
            ("--numbers", self.numbers, (".json", ".safetensors")),
        ):
            if path is None:
                continue
            if path.suffix not in endings:
                raise MtkitError(
                    f"{option} {path}: unknown file extension",
                    f"use {' or '.join(endings)}",
                )
            if not path.absolute().parent.is_dir():
                raise MtkitError(
                    f"{option} {path}: no folder {path.absolute().parent}", "create it first"
                )


def attend(
    folder: Path,
    requests: Sequence[Request],
    *,
    files: AttentionFiles,
    settings: Inference | None = None,
    overrides: Sequence[str] = (),
    device: str = "auto",
) -> list[HeadFigures]:
    """Returns the figures of every head over some lines, and writes the requested files.

    Args:
        folder: A model folder.
        requests: Lines; a prefix is taken as the translation, otherwise the model translates.
        files: What to write.
        settings: Search settings; by default the folder's.
        overrides: Changes to them, as in `inference.beam_size=8`.
        device: `cpu`, `cuda` or `auto` (a GPU if there is one).
    """
    files.check()
    pairs = [(request.text, request.prefix or None) for request in requests if request.text.strip()]
    if not pairs:
        raise MtkitError("no lines on stdin", "for example: mtkit attend < lines.txt")
    if len(pairs) > MAX_LINES:
        warn(f"{len(pairs):,} lines on stdin: the first {MAX_LINES:,} are read")
        pairs = pairs[:MAX_LINES]
    settings = settings or override_section(read_settings(folder), "inference", overrides)
    reader = AttentionReader(folder, settings=settings, device=device)
    lines = list(reader.read(pairs))
    heads = describe_heads(lines)
    _write(folder, lines, heads, files)
    return heads


def _write(
    folder: Path,
    lines: Sequence[LineAttention],
    heads: Sequence[HeadFigures],
    files: AttentionFiles,
) -> None:
    if files.picture is not None:
        # Imported here: matplotlib takes half a second.
        from mtkit.inference.attention_report.picture import draw_heads  # noqa: PLC0415

        layer, head = _find(lines[0], files.head)
        write_atomically(files.picture, draw_heads(lines[0], files.head.kind, layer, head))
        say(f"picture: {files.picture}")
    if files.page is not None:
        from mtkit.inference.attention_report.attention_page import render_attention  # noqa: PLC0415

        config = open_model_folder(folder).config
        page = render_attention(
            lines[:MAX_SHOWN],
            heads,
            title=f"Attention of {config.recipe}",
            facts={
                "model": as_text(folder),
                "languages": f"{config.source_language} to {config.target_language}",
                "lines": f"{len(lines):,}"
                + (f", the first {MAX_SHOWN} shown" if len(lines) > MAX_SHOWN else ""),
            },
            num_lines=len(lines),
        )
        write_atomically(files.page, page)
        say(f"page: {files.page}")
    if files.numbers is not None:
        from mtkit.inference.attention_report.weight_files import write_numbers  # noqa: PLC0415

        write_numbers(files.numbers, lines, heads)
        say(f"numbers: {files.numbers}")


def _find(line: LineAttention, chosen: ChosenHead) -> tuple[int, int | None]:
    """Returns a layer and a head, after a check that they exist."""
    num_layers, num_heads = line.weights[chosen.kind].shape[:2]
    layer = num_layers if chosen.layer is None else chosen.layer
    if not 1 <= layer <= num_layers:
        raise MtkitError(f"--head: no layer {layer}; there are {num_layers}", "layers count from 1")
    if chosen.head is not None and not 1 <= chosen.head <= num_heads:
        raise MtkitError(
            f"--head: no head {chosen.head}; there are {num_heads}", "heads count from 1"
        )
    return layer, chosen.head
