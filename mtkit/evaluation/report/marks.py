"""Words of a translation that its reference doesn't have, marked."""

from dataclasses import dataclass
from difflib import SequenceMatcher

from mtkit.checks.words import split_text


@dataclass(frozen=True)
class Stretch:
    """A part of a translation; all parts joined are the translation.

    Attributes:
        text: The part.
        differs: Whether the reference has other words there, or none.
    """

    text: str
    differs: bool


def mark_differences(translation: str, reference: str) -> tuple[Stretch, ...]:
    """Returns a translation in stretches that the reference has and stretches that it hasn't.

    Words are matched in their order, so one that stands elsewhere in the reference differs too.
    """
    pieces = split_text(translation)
    words = [index for index, piece in enumerate(pieces) if not piece.isspace()]
    matcher = SequenceMatcher(
        None,
        [piece for piece in split_text(reference) if not piece.isspace()],
        [pieces[index] for index in words],
        autojunk=False,
    )
    is_matched = [False] * len(pieces)
    for block in matcher.get_matching_blocks():
        for index in words[block.b : block.b + block.size]:
            is_matched[index] = True
    stretches: list[Stretch] = []
    for index, piece in enumerate(pieces):
        differs = not is_matched[index]
        if piece.isspace():
            # White space is of what lies around it: marked between two marked words.
            neighbours = is_matched[max(0, index - 1) : index + 2 : 2]
            differs = len(neighbours) == 2 and not any(neighbours)
        if stretches and stretches[-1].differs == differs:
            stretches[-1] = Stretch(stretches[-1].text + piece, differs)
        else:
            stretches.append(Stretch(piece, differs))
    return tuple(stretches)
