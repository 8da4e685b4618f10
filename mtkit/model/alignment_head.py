"""The files in a translator's folder that its alignments come from."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mtkit.errors import MtkitError
from mtkit.files import read_json, reporting_faults
from mtkit.recipe.model import Model
from mtkit.recipe.section import Section

Position = Literal["input", "output"]
ALIGNMENT_FILE = "alignment.json"
WORD_ALIGNER_FILE = "word_aligner.safetensors"
"""The word aligner's table from `data.word_aligner`; it is preferred to attention."""
_MAX_BYTES = 1 << 16
_COPY_AGAIN = "copy the complete folder again; without the file the last layer's mean is used"


class AlignmentHead(Section):
    """The head of the decoder's attention to the source that alignments are read from."""

    layer: Annotated[int, Field(ge=1)]
    """The decoder's layer, from 1."""
    head: Annotated[int, Field(ge=1)] | None = None
    """The layer's head, from 1; absent for the mean of all."""
    at: Position
    """Where a target token's attention is read: where the token is the decoder's input (Chen et al.
    2020, arXiv 2004.14675, section 3.1), or where it is predicted."""

    @property
    def first_row(self) -> int:
        """The row of the first target token if row 0 is the decoder's input `<s>`."""
        return 1 if self.at == "input" else 0


def has_alignments(folder: Path) -> bool:
    """Checks that a model folder has a chosen alignment head or a word aligner."""
    return any((folder / name).is_file() for name in (ALIGNMENT_FILE, WORD_ALIGNER_FILE))


def find_word_aligner(folder: Path) -> Path | None:
    """Returns the file of a model folder's word aligner; None without one."""
    path = folder / WORD_ALIGNER_FILE
    return path if path.is_file() else None


def default_head(model: Model) -> AlignmentHead:
    """Returns the head for folders without a chosen one: the last layer's mean."""
    return AlignmentHead(layer=model.num_decoder_layers, at="output")


def read_alignment_head(folder: Path, model: Model) -> AlignmentHead:
    """Returns the head that a model folder's alignments are read from."""
    path = folder / ALIGNMENT_FILE
    if not path.is_file():
        return default_head(model)
    content = read_json(path, max_bytes=_MAX_BYTES)
    with reporting_faults(f"{path}: damaged", _COPY_AGAIN):
        found = AlignmentHead.model_validate(content)
    if found.layer > model.num_decoder_layers or (found.head or 1) > model.num_heads:
        raise MtkitError(
            f"{path}: layer {found.layer}, head {found.head or 'none'}, but the decoder has "
            f"{model.num_decoder_layers} layers of {model.num_heads} heads",
            _COPY_AGAIN,
        )
    return found
